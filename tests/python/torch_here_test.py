"""ct.attach(..., optimizer_runs="here"): each worker steps its own optimizer with the mean."""

from __future__ import annotations

import pathlib
import re
import tempfile
import unittest

import torch_here_cases
from harness import Workers


class TorchHereTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_here_cases")
        cls.addClassCleanup(cls.workers.close)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_each_optimizer_of_torch_equals_one_process_on_the_joined_batch(self) -> None:
        for name in torch_here_cases.optimizers():
            with self.subTest(name):
                self.workers.run("equals_one_process", name=name)

    def test_over_other_transports_and_codecs(self) -> None:
        for flags in (["--transport=grpc"], ["--transport=ucx", "--slice_bytes=4096"]):
            with self.subTest(flags):
                self.workers.run("has_ddp_gradients", *flags, num_servers=2)
        self.workers.run("equals_one_process", "--push_codec=int8", "--pull_codec=int8",
                         name="SGD", tolerance=0.05)

    def test_workers_may_have_different_numbers_of_batches(self) -> None:
        self.workers.run("joins", num_servers=2)

    def test_activations_may_be_checkpointed(self) -> None:
        for is_whole in (False, True):
            with self.subTest(is_whole=is_whole):
                self.workers.run("checkpoints_activations", is_whole=is_whole)

    def test_workers_with_other_parameters_are_warned(self) -> None:
        self.workers.run("warns_of_different_parameters")

    def test_what_it_cannot_do_is_refused(self) -> None:
        self.workers.run("refuses")
        for flags, text in ((["--consistency=async"], "--consistency=bsp"),
                            (["--pull_codec=topk:0.1"], "no topk of means"),
                            (["--dgc", "--push_codec=topk:0.1", "--optimizer=sgd"], "no --dgc")):
            with self.subTest(flags):
                self.workers.run("needs", *flags, text=text)

    def test_the_servers_hold_what_rank_0_says(self) -> None:
        self.workers.run("keeps_many_arrays")

    def test_a_restored_job_has_the_bits_of_an_undisturbed_one(self) -> None:
        for name in ("NAdam", "Adafactor", "Muon", "another"):
            if name not in torch_here_cases.optimizers():
                continue  # an older torch
            with self.subTest(name):
                self._expect_same_bits(name)

    def _expect_same_bits(self, name: str) -> None:
        path, kept = self.folder / name, self.folder / f"{name}-kept"
        flags = [f"--checkpoint_steps={torch_here_cases.CUTS}", "--keep=10", "--slice_bytes=65536",
                 f"--steps={torch_here_cases.KEPT_STEPS}"]
        output = self.folder / f"{name}.safetensors"
        self.workers.run("trains", f"--checkpoint_dir={kept}", f"--output={output}", *flags,
                         path=str(path), name=name, restored_from=0)
        steps = {int(re.search(r"^step: (\d+)", one.read_text(), re.M)[1]): one.parent
                 for one in kept.glob("checkpoint-*/manifest")}
        cuts = sorted(step for step in steps if step < torch_here_cases.KEPT_STEPS)
        self.assertTrue(cuts, steps)
        for number, step in enumerate(cuts):
            again = self.folder / f"{name}-{step}.safetensors"
            self.workers.run("trains", f"--checkpoint_dir={kept}-{step}", f"--output={again}",
                             *flags, f"--restore={steps[step]}", path=str(path), name=name,
                             restored_from=step, num_servers=1 + number % 2)
            self.assertEqual(again.read_bytes(), output.read_bytes())

    def test_a_program_trains_alone(self) -> None:
        torch_here_cases.trains_alone()


if __name__ == "__main__":
    unittest.main()
