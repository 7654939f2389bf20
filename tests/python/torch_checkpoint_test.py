"""A worker's own state survives a restart: buffers, schedulers, places in the data, generators."""

from __future__ import annotations

import pathlib
import re
import tempfile
import unittest

import torch
import torch_checkpoint_cases
from harness import Workers


class TorchCheckpointTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_checkpoint_cases")
        cls.addClassCleanup(cls.workers.close)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def _expect_same_bits(self, name: str, **arguments: object) -> None:
        cases = torch_checkpoint_cases
        path = self.folder / name
        kept = self.folder / f"{name}-kept"
        flags = [f"--checkpoint_steps={cases.CUTS}", "--keep=10", f"--steps={cases.STEPS}"]
        self.workers.run("trains", f"--checkpoint_dir={kept}", *flags, path=str(path),
                         restored_from=0, **arguments)
        steps = {int(re.search(r"^step: (\d+)", one.read_text(), re.M)[1]): one.parent
                 for one in kept.glob("checkpoint-*/manifest")}
        cuts = sorted(step for step in steps if step < cases.STEPS)
        self.assertTrue(cuts, steps)
        for number, step in enumerate(cuts):
            # With another number of servers.
            self.workers.run("trains", f"--checkpoint_dir={kept}-{step}", *flags,
                             f"--restore={steps[step]}", path=str(path), restored_from=step,
                             num_servers=1 + number % 2, **arguments)

    def test_a_restored_job_has_the_bits_of_an_undisturbed_one(self) -> None:
        for loader in ("shuffled", "distributed", "generator", "ahead"):
            with self.subTest(loader):
                self._expect_same_bits(loader, loader=loader)

    def test_models_whose_forward_is_not_seen_have_checkpoints(self) -> None:
        self._expect_same_bits("evaluating", loader="shuffled", kind="evaluating")

    def test_schedulers_go_on_with_their_momenta(self) -> None:
        self._expect_same_bits("one_cycle", loader="shuffled", kind="one cycle")

    @unittest.skipIf(not hasattr(torch, "compile"), "this torch compiles nothing")
    def test_compiled_models_have_checkpoints(self) -> None:
        self._expect_same_bits("compiled", loader="shuffled", kind="compiled")

    def test_batches_of_steps_that_had_not_ended_are_given_again(self) -> None:
        self._expect_same_bits("parts", loader="shuffled", accumulates=2)

    @unittest.skipIf(not torch_checkpoint_cases.HAS_SCALER, "this torch has no GradScaler for a CPU")
    def test_a_scaler_goes_on_with_its_scale(self) -> None:
        self._expect_same_bits("scaler", loader="shuffled", has_scaler=True)

    def test_what_cannot_be_kept_is_refused(self) -> None:
        for flags in ([], [f"--checkpoint_dir={self.folder / 'kept'}", "--checkpoint_steps=1"]):
            self.workers.run("refuses", "--steps=1", *flags)

    def test_a_program_keeps_pieces_of_bytes(self) -> None:
        flags = [f"--checkpoint_dir={self.folder / 'kept'}", "--checkpoint_steps=2"]
        self.workers.run("keeps_pieces", *flags, "--steps=5", first=0, steps=5)
        # The last checkpoint is that of the end.
        self.workers.run("keeps_pieces", *flags, "--steps=8", "--restore=latest", first=5, steps=8)


if __name__ == "__main__":
    unittest.main()
