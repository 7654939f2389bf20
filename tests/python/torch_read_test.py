"""Reads of an attached model's parameters, in jobs of two workers: their values are never old."""

from __future__ import annotations

import unittest

import torch
import torch_read_cases
from harness import Workers
from torch_models import DEVICE


class TorchReadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_read_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_reads_after_a_step_wait_for_its_values(self) -> None:
        for kind in torch_read_cases.READS:
            with self.subTest(kind):
                self.workers.run("reads", kind=kind)

    @unittest.skipUnless(hasattr(torch, "compile"), "this torch compiles nothing")
    def test_compiled_models_train(self) -> None:
        self.workers.run("trains_compiled")

    def test_what_reads_no_values_does_not_wait(self) -> None:
        self.workers.run("does_not_wait_without_reads")

    def test_changes_past_torch_are_noticed(self) -> None:
        for kind in ("data", "array", "after a wait"):
            for overlap in (True, False):
                if DEVICE.type == "cuda" and (kind == "array" or overlap):
                    continue
                with self.subTest(kind, overlap=overlap):
                    self.workers.run("notices_changes", num_workers=1, kind=kind, overlap=overlap)

    def test_a_change_in_each_step_is_noticed(self) -> None:
        self.workers.run("notices_habits", num_workers=1)

    def test_a_read_between_backward_and_the_steps_end_warns(self) -> None:
        self.workers.run("warns_of_early_reads")

    def test_without_overlap_a_step_is_that_of_a_plain_optimizer(self) -> None:
        self.workers.run("keeps_old_values_without_overlap")


if __name__ == "__main__":
    unittest.main()
