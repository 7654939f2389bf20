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

    def _expect_good_end(self, command: list[str]) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True,
                              timeout=300, cwd=self.folder)
        logs = "\n".join(log.read_text(errors="replace")[-3000:]
                         for log in self.folder.glob("run/worker-*.log"))
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}{logs}")
        return done.stdout + logs

    def _expect_equal(self, example: str, batch_size: int, save: str, *flags: str) -> None:
        """To one process without Capstan."""
        order = IN_ORDER if example == "lightning_digits.py" else {}
        alone = self._program(example, LIBRARIES[example], order)
        self.assertLessEqual(sum(len(old.splitlines()) for old in LIBRARIES[example]), 4)
        self._expect_good_end([sys.executable, str(alone), f"--batch_size={2 * batch_size}",
                               f"--{save}={self.folder / 'one'}", *flags])
        job = self._program(example, order)
        said = self._expect_good_end(
            [sys.executable, "-m", "capstan", "run", "--num_workers=2", f"--run_dir={self.folder}/run",
             f"--worker_command={sys.executable} {job} --batch_size={batch_size} "
             f"--{save}={self.folder}/two {' '.join(flags)}"])
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
