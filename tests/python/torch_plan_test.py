"""What of a model and an optimizer maps to servers, and what is refused: without a job."""

from __future__ import annotations

import copy
import os
import re
import tempfile
import unittest
from unittest import mock

import torch
import torch.distributed
from torch import nn

import capstan
import capstan.torch as ct
from capstan import _alone_job
from capstan._torch_optimizers import (expect_unchanged, fixed_settings, momentum,
                                       server_optimizers)
from capstan._torch_plan import Plan
from capstan._torch_shared_state import SharedState, bits_of
from capstan._torch_state import OptimizerState


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
        self.assertEqual(_server_optimizer(optim.AdamW, lr=0.5, amsgrad=True, maximize=True),
                         capstan.AdamW(0.5, amsgrad=True, maximize=True))
        self.assertEqual(
            _server_optimizer(optim.SGD, lr=0.5, momentum=0.9, dampening=0.1, maximize=True),
            capstan.SGD(0.5, 0.9, dampening=0.1, maximize=True))
        self.assertEqual(
            _server_optimizer(optim.RMSprop, lr=0.5, alpha=0.9, momentum=0.8, centered=True),
            capstan.RMSprop(0.5, 0.9, momentum=0.8, centered=True))
        self.assertEqual(_server_optimizer(ct.Lion, lr=0.5, weight_decay=0.1),
                         capstan.Lion(0.5, (0.9, 0.99), 0.1))

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
                (optim.Adadelta, {"lr": 1.0}, "no Adadelta; use SGD, Adagrad, Adam, AdamW or RMSprop"),
                (Own, {"lr": 1.0}, "no Own; use"),
                (optim.Adagrad, {"lr": 1.0, "lr_decay": 0.1}, "lr_decay"),
                (optim.Adagrad, {"lr": 1.0, "initial_accumulator_value": 0.1}, "initial_acc"),
                (optim.AdamW, {"lr": torch.tensor(1.0), "foreach": False}, "lr=float(...)")]:
            with self.assertRaisesRegex(capstan.InvalidArgument, re.escape(text)):
                _server_optimizer(kind, **settings)

    def test_a_state_that_the_servers_do_not_keep_is_refused(self) -> None:
        parameter = nn.Parameter(torch.zeros(2))
        adam = torch.optim.Adam([parameter], lr=1.0)
        trained = mock.Mock(tensor=parameter, group=0)
        trained.name = "weight"
        state = OptimizerState(adam, server_optimizers(adam), [trained])
        state.load()
        trained.table.load_optimizer_state.assert_not_called()
        adam.state[parameter] = {"momentum_buffer": torch.ones(2)}
        with self.assertRaisesRegex(
                capstan.InvalidArgument,
                "weight: expected the optimizer's state as exp_avg, exp_avg_sq, step, got momentum"):
            state.load()
        adam.state[parameter] = {"step": torch.tensor(3.0), "exp_avg": torch.ones(2),
                                 "exp_avg_sq": torch.ones(3)}
        with self.assertRaisesRegex(capstan.InvalidArgument, r"exp_avg_sq of shape \(2,\), got"):
            state.load()
        adam.state[parameter]["exp_avg_sq"] = torch.ones(2)
        trained.table.load_optimizer_state.reset_mock()
        state.load()
        self.assertEqual([(call.args[0], call.args[2])
                          for call in trained.table.load_optimizer_state.call_args_list],
                         [(0, 3), (1, 3)])
        state.end_loading()
        with self.assertRaisesRegex(capstan.WrongOrder, "before the first gradient"):
            state.load_state_dict({})

    def test_a_state_is_loaded_whole_or_not_at_all(self) -> None:
        model = nn.Linear(2, 1)
        adam = torch.optim.Adam(model.parameters(), lr=1.0)
        trained = [mock.Mock(tensor=tensor, group=0) for tensor in model.parameters()]
        state = OptimizerState(adam, server_optimizers(adam), trained)
        state.take_over()
        other = nn.Linear(2, 1)
        plain = torch.optim.Adam(other.parameters(), lr=0.5)
        other(torch.ones(1, 2)).sum().backward()
        plain.step()
        saved = plain.state_dict()
        for name, bad, text in [("exp_avg", torch.ones(3), "of shape"),
                                ("exp_avg_sq", -torch.ones(1), "0 or more"),
                                ("exp_avg", torch.full((1,), float("nan")), "finite numbers"),
                                ("step", torch.tensor(float("nan")), "number of steps")]:
            damaged = {**saved, "state": {0: saved["state"][0],
                                          1: {**saved["state"][1], name: bad}}}
            with self.assertRaisesRegex(capstan.InvalidArgument, text):
                adam.load_state_dict(damaged)
            self.assertEqual(adam.param_groups[0]["lr"], 1.0)
            for one in trained:
                one.table.load_optimizer_state.assert_not_called()
        # What JSON or an older torch makes of the settings is the same.
        saved["param_groups"][0]["betas"] = [0.9, 0.999]
        del saved["param_groups"][0]["amsgrad"]
        adam.load_state_dict(saved)
        self.assertEqual(adam.param_groups[0]["lr"], 0.5)
        self.assertFalse(adam.param_groups[0]["amsgrad"])
        for one in trained:
            self.assertEqual(one.table.load_optimizer_state.call_count, 2)

    def test_the_state_of_frozen_parameters_stays_with_the_program(self) -> None:
        model = nn.Linear(2, 1)
        adam = torch.optim.Adam(model.parameters(), lr=1.0)
        model(torch.ones(1, 2)).sum().backward()
        adam.step()
        saved = copy.deepcopy(adam.state_dict())
        trained = [mock.Mock(tensor=model.weight, group=0)]
        trained[0].table.read_optimizer_state.return_value = 1
        state = OptimizerState(adam, server_optimizers(adam), trained)
        state.load()
        state.take_over()
        self.assertEqual(list(adam.state), [model.bias])
        for _ in range(2):
            self.assertEqual(set(adam.state_dict()["state"]), {0, 1})
            self.assertEqual(list(adam.state), [model.bias])
            adam.load_state_dict(saved)
        # After the last step the program may load another one.
        state.end(can_read=True)
        self.assertEqual(set(adam.state_dict()["state"]), {0, 1})
        adam.load_state_dict(torch.optim.Adam(nn.Linear(2, 1).parameters()).state_dict())
        self.assertEqual(adam.state_dict()["state"], {})
        state.release()
        self.assertFalse({"state_dict", "load_state_dict"} & set(vars(adam)))

    def test_an_optimizer_with_anothers_settings_is_refused(self) -> None:
        lion = ct.Lion([nn.Parameter(torch.zeros(1))], lr=1.0)
        saved = lion.state_dict()
        del saved["param_groups"][0]["maximize"]
        lion.load_state_dict(saved)
        server_optimizers(lion)
        del lion.param_groups[0]["betas"]
        with self.assertRaisesRegex(capstan.InvalidArgument, "expected 'betas' in the optimizer's"):
            server_optimizers(lion)

    def test_an_interrupted_read_of_the_state_leaves_nothing(self) -> None:
        model = nn.Linear(2, 1)
        adam = torch.optim.Adam(model.parameters(), lr=1.0)
        trained = [mock.Mock(tensor=tensor, group=0) for tensor in model.parameters()]
        for one in trained:
            one.table.read_optimizer_state.return_value = 1
        state = OptimizerState(adam, server_optimizers(adam), trained)
        trained[1].table.read_optimizer_state.side_effect = KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            state.state_dict()
        self.assertFalse(adam.state)
        trained[1].table.read_optimizer_state.side_effect = None
        self.assertEqual(len(state.state_dict()["state"]), 2)
        self.assertFalse(adam.state)

    def test_learning_rate_and_first_beta_may_change(self) -> None:
        (group,) = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0).param_groups
        settings = fixed_settings(group)
        group["lr"] = 2.0
        group["betas"] = [0.5, 0.999]
        expect_unchanged(group, settings)
        self.assertEqual(momentum(group), 0.5)
        group["betas"] = (0.5, 0.99)
        with self.assertRaisesRegex(capstan.InvalidArgument, "betas of a parameter group"):
            expect_unchanged(group, settings)
        group["betas"] = (1.0, 0.999)
        with self.assertRaisesRegex(capstan.InvalidArgument, "the first of betas from 0 to below"):
            momentum(group)


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
        for options in ({"max_norm_per_worker": -1.0}, {"max_norm_per_worker": float("nan")},
                        {"max_norm_per_worker": "1"}, {"max_norm": 1.0}, {"grad_scaler": 5}):
            with self.subTest(options), self.assertRaises(capstan.InvalidArgument):
                ct.Trainer(model, optimizer, lambda: self.fail("has joined"), **options)

    def test_a_norm_that_is_not_named_is_refused_with_both_choices(self) -> None:
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        both = "max_norm_per_worker=.*optimizer_runs=\"here\".*clip_grad_norm_"
        with self.assertRaisesRegex(capstan.InvalidArgument, both):
            ct.attach(model, optimizer, max_norm=1.0)


class PlanTest(unittest.TestCase):
    def test_a_shared_parameter_is_one_table(self) -> None:
        model = Tied()
        plan = Plan(model, torch.optim.SGD(model.parameters(), lr=1.0))
        self.assertEqual([one.name for one in plan.parameters],
                         ["first.weight", "first.bias", "second.bias"])
        self.assertTrue(plan.shared_state.is_empty)

    def test_what_the_optimizer_lacks_is_frozen(self) -> None:
        model = Tied()
        optimizer = torch.optim.SGD([model.first.weight], lr=1.0)
        plan = Plan(model, optimizer)
        self.assertEqual([one.name for one in plan.parameters], ["first.weight"])
        with torch.no_grad():
            model.second.bias[1] += 1
        other = Plan(model, optimizer)
        with self.assertRaisesRegex(capstan.InvalidArgument, "not equal to those of rank 0"):
            other.shared_state.take(plan.shared_state.floats())

    def test_weights_that_share_memory_are_refused(self) -> None:
        def tie(model: Tied) -> None:
            model.second.weight = nn.Parameter(torch.zeros(3, 3))
            model.second.weight.data = model.first.weight.data

        def view(model: Tied) -> None:
            model.second.bias.data = model.first.weight.data[1]

        def buffer(model: Tied) -> None:
            model.register_buffer("row", model.first.weight.data[2])

        def attribute(model: Tied) -> None:
            model.turned = model.first.weight.detach().t()

        for share, text in [(tie, "second.weight and first.weight share memory"),
                            (view, "second.bias and first.weight share"),
                            (buffer, "row and first.weight share"),
                            (attribute, "(turned and first.weight|first.weight and turned) share")]:
            model = Tied()
            share(model)
            with self.subTest(text), self.assertRaisesRegex(capstan.InvalidArgument, text):
                Plan(model, torch.optim.SGD(model.parameters(), lr=1.0))

    def test_parts_of_one_memory_are_parameters_of_their_own(self) -> None:
        model = Tied()
        both = torch.zeros(4, 3)
        model.first.bias.data, model.second.bias.data = both[0], both[1]
        columns = torch.zeros(3, 6)
        model.first.weight.data = columns[:, ::2]
        model.register_buffer("others", columns[:, 1::2])
        Plan(model, torch.optim.SGD(model.parameters(), lr=1.0))
        normed = nn.Sequential(nn.utils.spectral_norm(nn.Linear(3, 3)), nn.LSTM(3, 3))
        Plan(normed, torch.optim.SGD(normed.parameters(), lr=1.0))

    def test_buffers_have_thebits_of_rank_0(self) -> None:
        nan = torch.tensor([float("nan"), -0.0, 1e-45, -float("inf")])
        nan.view(torch.int32)[0] += 5
        values = {
            "lowest": torch.full((2, 2), torch.finfo(torch.float32).min),
            "odd": nan,
            "of_64_bits": torch.tensor([2.0**24 + 1, 1e300], dtype=torch.float64),
            "of_16_bits": torch.tensor([1.5, float("inf")], dtype=torch.bfloat16),
            "count": torch.tensor(2**53 + 1),
            "mask": torch.tensor([True, False, True]),
            "complex": torch.tensor([1e-30 + 2e30j]),
            "columns": torch.arange(6.0).view(2, 3).t(),
            "index": torch.arange(5).expand(1, -1),
            "none": torch.zeros(0, 3),
        }

        def state(fill: bool) -> tuple[nn.Module, SharedState]:
            model = nn.Linear(1, 1)
            for name, value in values.items():
                model.register_buffer(name, value.clone() if fill else torch.zeros_like(value))
            return model, Plan(model, torch.optim.SGD(model.parameters(), lr=1.0)).shared_state

        first, sent = state(fill=True)
        other, taken = state(fill=False)
        floats = sent.floats()
        self.assertEqual(floats.dtype, torch.float32)
        self.assertTrue(floats.isfinite().all())
        taken.take(floats)
        for name, value in other.named_buffers():
            self.assertTrue(torch.equal(bits_of(value), bits_of(values[name])), name)
        versions = [one._version for one in first.buffers()]
        sent.take(floats)
        self.assertEqual([one._version for one in first.buffers()], versions)  # it keeps its own

    def test_buffers_of_other_types_are_refused(self) -> None:
        states = []
        for dtype in (torch.float32, torch.int32):
            model = nn.Linear(1, 1)
            model.register_buffer("mask", torch.zeros(4, dtype=dtype))
            states.append(Plan(model, torch.optim.SGD(model.parameters(), lr=1.0)).shared_state)
        with self.assertRaisesRegex(capstan.InvalidArgument, "shapes of those of rank 0"):
            states[1].take(states[0].floats())

    def test_modules_that_do_not_train_are_refused_by_name(self) -> None:
        def expanded() -> nn.Module:
            model = nn.Linear(2, 2)
            model.register_buffer("mask", torch.ones(1).expand(4))
            return model

        def expanded_parameter() -> nn.Module:
            model = nn.Linear(2, 2)
            model.bias = nn.Parameter(torch.ones(1).expand(2))
            return model

        cases = [(lambda: nn.Embedding(3, 2, max_norm=1.0), r"0 \(Embedding\) has max_norm"),
                 (lambda: nn.EmbeddingBag(3, 2, max_norm=1.0), r"0 \(EmbeddingBag\) has max_norm"),
                 (lambda: torch.jit.script(nn.Linear(2, 2)), "torch.jit.script or trace"),
                 (lambda: torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)), "script or trace"),
                 (expanded, "buffer 0.mask is an expanded tensor"),
                 (expanded_parameter, "0.bias is an expanded tensor")]
        if hasattr(torch, "compile"):
            def compiled() -> nn.Module:
                model = nn.Linear(2, 2)
                model.compile(fullgraph=True)
                return model

            cases += [(lambda: torch.compile(nn.Linear(2, 2), fullgraph=True), "fullgraph"),
                      (compiled, "without fullgraph")]
            plain = torch.compile(nn.Linear(2, 2))
            Plan(plain, torch.optim.SGD(plain.parameters(), lr=1.0))
        for make, text in cases:
            model = nn.Sequential(make())
            with self.subTest(text), self.assertRaisesRegex(capstan.InvalidArgument, text):
                Plan(model, torch.optim.SGD(model.parameters(), lr=1.0))
            frozen = nn.Sequential(make(), nn.Linear(2, 2))
            if "expanded" not in text:
                Plan(frozen, torch.optim.SGD(frozen[1].parameters(), lr=1.0))

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

    def test_a_model_in_ddp_is_refused_as_a_whole_and_in_part(self) -> None:
        with tempfile.NamedTemporaryFile() as store:
            torch.distributed.init_process_group("gloo", init_method=f"file://{store.name}",
                                                 rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
            for model, text in [(ddp, "the model .*DistributedDataParallel.* attach model.module"),
                                (nn.Sequential(ddp), "^0 .*DistributedDataParallel")]:
                optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
                with self.assertRaisesRegex(capstan.InvalidArgument, text):
                    ct.Trainer(model, optimizer, lambda: self.fail("has joined"))


class RankTest(unittest.TestCase):
    def test_samples_chosen_for_another_rank_are_noticed(self) -> None:
        with mock.patch.dict(os.environ), mock.patch.dict(_alone_job._told):
            os.environ.pop("RANK", None)
            os.environ["WORLD_SIZE"] = "2"
            self.assertEqual((ct.rank(), ct.world_size()), (0, 2))
            _alone_job.expect_places_as_told(mock.Mock(rank=0, num_workers=2))
            with self.assertRaisesRegex(capstan.WrongOrder, "RANK was .* 0, and now it is 1"):
                _alone_job.expect_places_as_told(mock.Mock(rank=1, num_workers=2))


if __name__ == "__main__":
    unittest.main()
