"""The examples of capstan.integrations: two workers get what one process gets without Capstan on both
batches together."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Optional

import torch
from safetensors.torch import load_file

EXAMPLES = pathlib.Path(__file__).parents[2] / "worker/python/examples"
# What the program has without Capstan.
LIBRARIES = {
    "accelerate_digits.py": {"capstan.integrations.accelerate import": "accelerate import"},
    "trainer.py": {"capstan.integrations.transformers import": "transformers import"},
    "lightning_digits.py": {"from capstan.integrations.lightning import Strategy\n": "",
                            "        strategy=Strategy(),\n": ""},
}
# Each worker has every second sample, in a fixed order: Lightning's own sampler draws.
IN_ORDER = {
    "DataLoader(training, flags.batch_size, drop_last=True)":
        "DataLoader(training, flags.batch_size, drop_last=True, sampler="
        "torch.utils.data.DistributedSampler(training, num_replicas=trainer.world_size, "
        "rank=trainer.global_rank, shuffle=False))",
}


def _tensors(path: pathlib.Path) -> dict[str, torch.Tensor]:
    if path.is_dir():
        return dict(load_file(path / "model.safetensors"))
    saved = torch.load(path, weights_only=False)
    return dict(saved.get("state_dict", saved))


class IntegrationsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo",
                            "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{EXAMPLES}"}

    def _program(self, example: str, *changes: dict[str, str]) -> pathlib.Path:
        """The example with these changes. The data of trainer.py stay its own text."""
        text = (EXAMPLES / example).read_text().replace("__file__", repr(str(EXAMPLES / example)))
        for old, new in (pair for one in changes for pair in one.items()):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        path = self.folder / f"{len(list(self.folder.iterdir()))}" / example
        path.parent.mkdir()
        path.write_text(text)
        return path

    def _run(self, command: list[str]) -> tuple[int, str]:
        """The exit code, and what was printed."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True,
                              timeout=300, cwd=self.folder)
        logs = "\n".join(log.read_text(errors="replace")[-3000:]
                         for log in self.folder.glob("run/worker-*.log"))
        return done.returncode, done.stdout + done.stderr + logs

    def _expect_good_end(self, command: list[str]) -> str:
        code, said = self._run(command)
        self.assertEqual(code, 0, said)
        return said

    def _job(self, program: pathlib.Path, *flags: str, of_program: str = "") -> list[str]:
        """A job of two workers."""
        return [sys.executable, "-m", "capstan", "run", "--num_workers=2",
                f"--run_dir={self.folder}/run", *flags,
                f"--worker_command={sys.executable} {program} {of_program}"]

    def _expect_refusal(self, text: str, command: list[str]) -> None:
        code, said = self._run(command)
        self.assertNotEqual(code, 0, said)
        self.assertIn(text, " ".join(said.split()))

    def _expect_equal(self, example: str, batch_size: int, save: str, *flags: str,
                      changes: Optional[dict[str, str]] = None) -> None:
        """To one process without Capstan."""
        order = IN_ORDER if example == "lightning_digits.py" else {}
        changes = changes or {}
        alone = self._program(example, LIBRARIES[example], order, changes)
        self.assertLessEqual(sum(len(old.splitlines()) for old in LIBRARIES[example]), 4)
        self._expect_good_end([sys.executable, str(alone), f"--batch_size={2 * batch_size}",
                               f"--{save}={self.folder / 'one'}", *flags])
        job = self._program(example, order, changes)
        said = self._expect_good_end(self._job(job, of_program=(
            f"--batch_size={batch_size} --{save}={self.folder}/two {' '.join(flags)}")))
        one, two = _tensors(self.folder / "one"), _tensors(self.folder / "two")
        self.assertEqual(set(one), set(two))
        largest = max(float((one[name] - two[name]).abs().max()) for name in one)
        self.assertLess(largest, 1e-4)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(summary["outcome"], "finished")
        self.assertGreater(summary["steps"], 10)
        self.said = said

    def test_accelerate(self) -> None:
        self._expect_equal("accelerate_digits.py", 16, "save")
        self.assertRegex(self.said, r"test accuracy 0\.9")

    def test_accelerate_with_several_batches_a_step(self) -> None:
        self._expect_equal("accelerate_digits.py", 8, "save", "--accumulate=2", "--epochs=2")

    def test_accelerate_with_a_scaler_that_leaves_steps_out(self) -> None:
        self._expect_equal("accelerate_digits.py", 16, "save", "--epochs=2", changes={
            "    model, optimizer, loader = ":
                "    accelerator.scaler = torch.amp.GradScaler('cpu', init_scale=2.0**127)\n"
                "    model, optimizer, loader = ",
            "backward(functional": "backward(100 * functional",  # large gradients
            "if accelerator.sync_gradients:": "if False:",  # clipping wants unscaled gradients
            "        for x, y in loader:\n":
                "        accelerator.print('scale', accelerator.scaler.get_scale())\n"
                "        for x, y in loader:\n"})
        scales = re.findall(r"^scale (.*)$", self.said, re.MULTILINE)
        self.assertLess(float(scales[1]), float(scales[0]))
        self.assertNotIn("no optimizer has stepped", self.said)

    def test_what_cannot_be_is_refused(self) -> None:
        digits = EXAMPLES / "accelerate_digits.py"
        with self.subTest("programs that do not know their rank"):
            command = self._job(digits)
            command[-1] = "--worker_command=unset RANK CAPSTAN_RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE; exec " \
                f"{sys.executable} {digits}"
            self._expect_refusal("before ct.attach, WORLD_SIZE was taken to be 1", command)
        with self.subTest("other numbers of batches"):
            program = self._program("accelerate_digits.py", {"Accelerator(cpu=True": (
                "Accelerator(dataloader_config=__import__('accelerate').DataLoaderConfiguration("
                "even_batches=False), cpu=True")})
            self._expect_refusal("even_batches: expected True", self._job(program))
        with self.subTest("a second training"):
            program = self._program("trainer.py", {"    trainer.train()\n": (
                "    trainer.train()\n    trainer.train()\n")})
            self._expect_refusal("a job trains one model once", self._job(
                program, of_program=f"--output_dir={self.folder}/out --epochs=1"))
        with self.subTest("no training"):
            self._expect_refusal("the program has done no step",
                                 self._job(EXAMPLES / "lightning_digits.py", of_program="--epochs=0"))

    def test_a_jobs_own_checkpoint_is_not_gone_on_with(self) -> None:
        flags = [f"--checkpoint_dir={self.folder}/kept", "--checkpoint_steps=20", "--steps=44"]
        command = self._job(EXAMPLES / "accelerate_digits.py", *flags, of_program="--epochs=1")
        self._expect_good_end(command)
        self._expect_refusal("the library's loop begins anew", [*command, "--restore=latest"])

    def test_without_a_job_one_process_trains_alone(self) -> None:
        for example in ("accelerate_digits.py", "lightning_digits.py"):
            with self.subTest(example):
                said = self._expect_good_end([sys.executable, str(EXAMPLES / example)])
                self.assertRegex(said, r"test accuracy 0\.9")

    def test_trainer(self) -> None:
        self._expect_equal("trainer.py", 4, "output_dir")
        losses = [float(loss) for loss in re.findall(r"^loss ([0-9.]+)", self.said, re.MULTILINE)]
        self.assertEqual(len(losses), 2)
        self.assertLess(max(losses), 4.0)  # at chance: 5.5
        self.assertEqual(*losses)  # over both workers' samples

    def test_lightning(self) -> None:
        self._expect_equal("lightning_digits.py", 16, "save")
        self.assertRegex(self.said, r"test accuracy 0\.9")

    def test_lightning_with_several_batches_a_step(self) -> None:
        self._expect_equal("lightning_digits.py", 8, "save", "--accumulate=2", "--epochs=2")


if __name__ == "__main__":
    unittest.main()
