"""What of a model and an optimizer maps to servers, and what is refused: without a job."""

from __future__ import annotations

import os
import re
import unittest
from unittest import mock

import torch
from torch import nn

import capstan
import capstan.torch as ct
from capstan._torch_optimizers import expect_unchanged, fixed_settings, server_optimizers
from capstan._torch_plan import Plan


def _server_optimizer(kind, **settings):
    (made,) = server_optimizers(kind([nn.Parameter(torch.zeros(2))], **settings))
    return made


class OptimizersTest(unittest.TestCase):
    def test_each_maps_to_its_own(self) -> None:
        optim = torch.optim
        self.assertEqual(_server_optimizer(optim.SGD, lr=0.5), capstan.SGD(0.5))
        self.assertEqual(
            _server_optimizer(optim.SGD, lr=0.5, momentum=0.9, nesterov=True, weight_decay=0.1),
            capstan.SGD(0.5, 0.9, True, 0.1))
        self.assertEqual(_server_optimizer(optim.Adagrad, lr=0.5, eps=1e-3),
                         capstan.Adagrad(0.5, 1e-3, 0))
        self.assertEqual(_server_optimizer(optim.Adam, lr=0.5, betas=(0.5, 0.6), weight_decay=0.1),
                         capstan.Adam(0.5, (0.5, 0.6), 1e-8, 0.1))
        self.assertEqual(_server_optimizer(optim.AdamW, lr=0.5), capstan.AdamW(0.5))

    def test_groups_have_their_own_settings(self) -> None:
        groups = [{"params": [nn.Parameter(torch.zeros(1))]},
                  {"params": [nn.Parameter(torch.zeros(1))], "lr": 2.0, "weight_decay": 0.0}]
        self.assertEqual(
            server_optimizers(torch.optim.AdamW(groups, lr=1.0, weight_decay=0.5)),
            [capstan.AdamW(1.0, weight_decay=0.5), capstan.AdamW(2.0, weight_decay=0.0)])

    def test_a_learning_rate_of_0_is_allowed_at_first(self) -> None:
        self.assertGreater(_server_optimizer(torch.optim.SGD, lr=0.0).lr, 0)

    def test_others_are_refused_with_what_to_do(self) -> None:
        class Own(torch.optim.SGD):
            pass

        optim = torch.optim
        for kind, settings, text in [
                (optim.RMSprop, {"lr": 1.0}, "no RMSprop; use SGD, Adagrad, Adam or AdamW"),
                (Own, {"lr": 1.0}, "no Own; use"),
                (optim.SGD, {"lr": 1.0, "momentum": 0.9, "dampening": 0.1}, "dampening=0.1"),
                (optim.SGD, {"lr": 1.0, "maximize": True}, "leave maximize out"),
                (optim.Adam, {"lr": 1.0, "amsgrad": True}, "leave amsgrad out"),
                (optim.Adagrad, {"lr": 1.0, "lr_decay": 0.1}, "lr_decay"),
                (optim.Adagrad, {"lr": 1.0, "initial_accumulator_value": 0.1}, "initial_acc"),
                (optim.AdamW, {"lr": torch.tensor(1.0), "foreach": False}, "lr=float(...)")]:
            with self.assertRaisesRegex(capstan.InvalidArgument, re.escape(text)):
                _server_optimizer(kind, **settings)

    def test_an_optimizer_with_a_history_is_refused(self) -> None:
        for kind in (torch.optim.Adam, torch.optim.Adagrad,
                     lambda *args, lr: torch.optim.SGD(*args, lr=lr, momentum=0.9)):
            parameter = nn.Parameter(torch.zeros(2))
            optimizer = kind([parameter], lr=1.0)
            server_optimizers(optimizer)
            parameter.grad = torch.ones(2)
            optimizer.step()
            with self.assertRaisesRegex(capstan.InvalidArgument, "that has made no step"):
                server_optimizers(optimizer)

    def test_only_the_learning_rate_may_change(self) -> None:
        (group,) = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0).param_groups
        settings = fixed_settings(group)
        group["lr"] = 2.0
        expect_unchanged(group, settings)
        group["betas"] = (0.5, 0.999)
        with self.assertRaisesRegex(capstan.InvalidArgument, "betas of a parameter group"):
            expect_unchanged(group, settings)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight


class TrainerTest(unittest.TestCase):
    def test_options_are_checked_before_a_job_is_joined(self) -> None:
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for options in ({"max_norm": -1.0}, {"max_norm": float("nan")}, {"max_norm": "1"},
                        {"grad_scaler": 5}):
            with self.subTest(options), self.assertRaises(capstan.InvalidArgument):
                ct.Trainer(model, optimizer, lambda: self.fail("has joined"), **options)


class PlanTest(unittest.TestCase):
    def test_a_shared_parameter_is_one_table(self) -> None:
        model = Tied()
        plan = Plan(model, torch.optim.SGD(model.parameters(), lr=1.0))
        self.assertEqual([one.name for one in plan.parameters],
                         ["first.weight", "first.bias", "second.bias"])
        self.assertFalse(plan.has_shared_state)

    def test_what_the_optimizer_lacks_is_frozen(self) -> None:
        model = Tied()
        optimizer = torch.optim.SGD([model.first.weight], lr=1.0)
        plan = Plan(model, optimizer)
        self.assertEqual([one.name for one in plan.parameters], ["first.weight"])
        with torch.no_grad():
            model.second.bias[1] += 1
        other = Plan(model, optimizer)
        self.assertFalse(torch.equal(other.shared_state(), plan.shared_state()))

    def test_buffers_travel_as_one_row(self) -> None:
        model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
        infinite = torch.tensor([float("inf"), -float("inf"), 1.0])
        model.register_buffer("mask", infinite.clone())
        plan = Plan(model, torch.optim.SGD(model.parameters(), lr=1.0))
        state = plan.shared_state()
        self.assertEqual(state.shape, (9,))
        self.assertTrue(state.isfinite().all())
        model.mask.zero_()
        state[3:7] = torch.tensor([1.0, 2.0, 3.0, 4.0])
        plan.take_shared_state(state)
        self.assertEqual(model.mask.tolist(), infinite.tolist())
        self.assertEqual(model[0].running_mean.tolist(), [1, 2])
        self.assertEqual(model[0].running_var.tolist(), [3, 4])

    def test_models_that_do_not_map_are_refused_with_what_to_do(self) -> None:
        linear = nn.Linear(2, 2)
        for model, parameters, text in [
                (nn.DataParallel(linear), linear.parameters(), "attach model.module"),
                (nn.Linear(2, 2), linear.parameters(), "that the model has not"),
                (nn.Linear(2, 2).double(), None, "call model.float"),
                (nn.Embedding(2, 2, sparse=True), None, "sparse=False"),
                (nn.Linear(2, 0, bias=False), None, "no elements"),
                (nn.Linear(2, 2, device="meta"), None, "expected cpu or cuda"),
                (nn.Linear(2, 2).requires_grad_(False), None, "require a gradient")]:
            optimizer = torch.optim.SGD(parameters or model.parameters(), lr=1.0)
            with self.assertRaisesRegex(capstan.InvalidArgument, text):
                Plan(model, optimizer)


class RankTest(unittest.TestCase):
    def test_samples_chosen_for_another_rank_are_noticed(self) -> None:
        with mock.patch.dict(os.environ), mock.patch.dict(ct._told):
            os.environ.pop("RANK", None)
            os.environ["WORLD_SIZE"] = "2"
            self.assertEqual((ct.rank(), ct.world_size()), (0, 2))
            ct._expect_as_told("RANK", 0)
            ct._expect_as_told("WORLD_SIZE", 2)
            with self.assertRaisesRegex(capstan.WrongOrder, "RANK was .* 0, and now it is 1"):
                ct._expect_as_told("RANK", 1)


if __name__ == "__main__":
    unittest.main()
