"""Schedulers that change momenta, in jobs of two workers beside plain torch in one process."""

from __future__ import annotations

import unittest

import capstan
import torch
import torch_schedule_cases
from capstan._torch_optimizers import expect_unchanged, fixed_settings
from harness import Workers
from torch import nn


class SettingsTest(unittest.TestCase):
    def test_a_momentum_may_change_if_there_is_one(self) -> None:
        for make in (torch.optim.SGD, torch.optim.RMSprop):
            (group,) = make([nn.Parameter(torch.zeros(1))], lr=1.0, momentum=0.9).param_groups
            settings = fixed_settings(group)
            group["momentum"] = 0.95
            expect_unchanged(group, settings)
            group["momentum"] = 0.0
            with self.assertRaisesRegex(capstan.InvalidArgument, "momentum .* from 0.9 to 0.0"):
                expect_unchanged(group, settings)
            settings = fixed_settings(group)
            group["momentum"] = 0.95
            with self.assertRaisesRegex(capstan.InvalidArgument, "cycle_momentum=False"):
                expect_unchanged(group, settings)


class TorchScheduleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_schedule_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_two_workers_equal_one_process(self) -> None:
        for kind in torch_schedule_cases.KINDS:
            with self.subTest(kind):
                self.workers.run("equals_one_process", kind=kind, is_late=False)

    def test_schedulers_may_be_made_after_attach(self) -> None:
        for kind in ("momentum", "adam", "cyclic"):
            with self.subTest(kind):
                self.workers.run("equals_one_process", kind=kind, is_late=True)

    def test_a_momentum_needs_a_state(self) -> None:
        self.workers.run("refuses_a_momentum_without_a_state", num_workers=1)

    def test_rows_have_a_fixed_one(self) -> None:
        self.workers.run("refuses_a_momentum_of_rows", num_workers=1)


if __name__ == "__main__":
    unittest.main()
