"""capstan.torch without a job, beside a job of one worker."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import os
import subprocess
import sys
import unittest
import weakref
from typing import Callable
from unittest import mock

import torch
from torch import nn

import capstan
import capstan.torch as ct
from capstan import _alone_job
from harness import Workers
from torch_cases import HAS_SCALER, OPTIMIZERS
from torch_models import DEVICE, Mlp, joined_batch, seeded

PROGRAM = """
import torch
import capstan.torch as ct

for _ in range(2):
    model = torch.nn.Linear(3, 1)
    ct.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(5):
        loss = model(torch.ones(4, 3)).square().mean()
        loss.backward()
        ct.step(loss, 4)
    if ct.finish():
        ct.report(test_loss=0.5)
print(ct.next_step(), ct.rank(), ct.world_size())
"""


class JobOfOneTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_alone_cases", num_workers=1)
        cls.addClassCleanup(cls.workers.close)

    def test_it_equals_a_job_of_one_worker(self) -> None:
        for optimizer in OPTIMIZERS:
            with self.subTest(optimizer):
                self.workers.run("trains_as_alone", num_workers=1, optimizer=optimizer)
        self.workers.run("trains_as_alone", num_workers=1, optimizer="momentum",
                         max_norm_per_worker=0.5)

    def test_gradients_accumulate(self) -> None:
        self.workers.run("accumulates_as_alone", num_workers=1)

    def test_narrow_parameters_are_rounded(self) -> None:
        self.workers.run("rounds_as_alone", num_workers=1, dtype="bfloat16")

    @unittest.skipUnless(HAS_SCALER, "this torch scales on GPUs only")
    def test_a_step_with_inf_is_skipped(self) -> None:
        self.workers.run("scales_as_alone", num_workers=1)

    def test_a_coordinator_in_the_environment_is_asked(self) -> None:
        self.workers.run("attaches_with_a_coordinator", num_workers=1)


class AloneTest(unittest.TestCase):
    def setUp(self) -> None:
        patches = [mock.patch.dict(os.environ), mock.patch.object(ct, "_attached", None),
                   mock.patch.dict(_alone_job._told, clear=True)]
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("CAPSTAN_COORDINATOR", "RANK", "WORLD_SIZE"):
            os.environ.pop(name, None)
        self.stderr = io.StringIO()
        redirect = contextlib.redirect_stderr(self.stderr)
        redirect.__enter__()
        self.addCleanup(redirect.__exit__, None, None, None)

    def attach(self, optimizer: str = "momentum", **options: object) -> Mlp:
        model = seeded(Mlp)
        self.optimizer = OPTIMIZERS[optimizer](model)
        return ct.attach(model, self.optimizer, **options)

    def refuses(self, kind: type[Exception], text: str, call: Callable[[], object]) -> None:
        with self.assertRaisesRegex(kind, text):
            call()

    def test_a_program_says_once_that_it_trains_alone(self) -> None:
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                              check=True)
        self.assertEqual(done.stdout, "5 0 1\n")
        said = done.stderr.splitlines()
        self.assertEqual(said[0], "capstan: there is no job (CAPSTAN_COORDINATOR is not set): this "
                         "program trains alone; \"capstan run --worker_command='python train.py'\" "
                         "starts one")
        self.assertEqual(said[1:], ["capstan: test loss 0.5"] * 2)

    def test_other_workers_without_a_coordinator_are_refused(self) -> None:
        for variable, value in [("WORLD_SIZE", "2"), ("RANK", "1")]:
            with mock.patch.dict(os.environ, {variable: value}):
                self.refuses(capstan.InvalidArgument,
                             f"{variable} is {value}, but CAPSTAN_COORDINATOR is not set",
                             self.attach)
        with mock.patch.dict(os.environ, WORLD_SIZE="1", RANK="0"):
            self.attach()

    def test_a_job_that_is_asked_for_is_not_left_out(self) -> None:
        self.refuses(capstan.InvalidArgument, "coordinator: expected HOST:PORT, got nothing; name",
                     capstan.connect)
        with mock.patch.dict(os.environ, CAPSTAN_COORDINATOR="nowhere"):
            self.refuses(capstan.InvalidArgument, "CAPSTAN_COORDINATOR: expected", self.attach)
        self.assertEqual(self.stderr.getvalue(), "")

    def test_embedding_bags_are_refused(self) -> None:
        model = nn.ModuleList([ct.EmbeddingBag("items", dim=4), nn.Linear(4, 1)])
        self.refuses(capstan.InvalidArgument, "EmbeddingBag items .*no job.*capstan run --worker",
                     lambda: ct.attach(model, torch.optim.SGD(model.parameters(), lr=0.1)))
        self.assertEqual(self.stderr.getvalue(), "")

    def test_what_servers_cannot_do_is_refused(self) -> None:
        model = seeded(Mlp)
        for optimizer, text in [
                (torch.optim.NAdam(model.parameters()), "the servers have no NAdam"),
                (torch.optim.Adagrad(model.parameters(), lr_decay=0.1), "have no lr_decay=0.1")]:
            self.refuses(capstan.InvalidArgument, text, lambda: ct.attach(model, optimizer))
        for options in ({"max_norm_per_worker": -1.0}, {"max_norm": 1.0}, {"grad_scaler": 5}):
            self.refuses(capstan.InvalidArgument, next(iter(options)),
                         lambda: self.attach(**options))
        self.attach()

    def test_mistakes_of_a_step_are_refused(self) -> None:
        model = self.attach()
        loss = model.loss(joined_batch(0))
        loss.backward(retain_graph=True)
        self.refuses(capstan.WrongOrder, "a second gradient of .*no_sync", loss.backward)
        model.zero_grad(set_to_none=False)
        self.refuses(capstan.WrongOrder, "changed after it had left.*max_norm_per_worker", ct.step)
        self.refuses(capstan.InvalidArgument, "give its mean", lambda: ct.step(torch.ones(2)))
        self.refuses(capstan.InvalidArgument, "samples: expected", lambda: ct.step(1.0, 1.5))
        self.refuses(capstan.WrongOrder, r"call ct.step\(\) instead", self.optimizer.step)
        self.refuses(capstan.WrongOrder, "within one `with ct.attach_together", self.attach)

    def test_changes_after_attach_are_refused(self) -> None:
        model = self.attach()
        group = self.optimizer.param_groups[0]
        group["momentum"] = 0.5
        ct.step()
        group["momentum"] = 1.0
        self.refuses(capstan.InvalidArgument, "momentum from 0 to below 1, got 1.0", ct.step)
        group["momentum"] = 0.9
        group["dampening"] = 0.5
        self.refuses(capstan.InvalidArgument, "dampening of a parameter group", ct.step)
        group["dampening"] = 0
        old, model.layers[2] = model.layers[2], nn.Linear(130, 130)
        self.refuses(capstan.WrongOrder, "layers.2.weight is no longer", ct.step)
        model.layers[2] = old
        ct.step()
        self.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
        self.refuses(capstan.InvalidArgument, "has got parameters or groups", ct.step)
        del self.optimizer.param_groups[-1]
        model.load_state_dict(seeded(Mlp, seed=2).state_dict())
        self.refuses(capstan.WrongOrder, "has changed layers.0.weight", ct.step)

    def test_the_end_is_that_of_a_job(self) -> None:
        model = self.attach()
        self.refuses(capstan.WrongOrder, "finish before report", ct.report)
        self.assertEqual((ct.rank(), ct.world_size(), ct.next_step()), (0, 1, 0))
        ct.step()
        self.assertEqual(ct.next_step(), 1)
        ct.wait()
        self.assertTrue(ct.finish())
        self.refuses(capstan.WrongOrder, "there is no further step", ct.step)
        self.refuses(capstan.WrongOrder, "has finished", ct.barrier)
        self.refuses(capstan.InvalidArgument, "expected 0 to 1", lambda: ct.report(1.5))
        ct.report(test_accuracy=0.5, test_loss=1.25)
        self.assertIn("capstan: test accuracy 0.5, loss 1.25\n", self.stderr.getvalue())
        for _ in range(2):
            model.loss(joined_batch(0)).backward()
            self.optimizer.step()
        self.attach()  # as in a notebook

    def test_the_optimizer_keeps_its_state(self) -> None:
        model = self.attach("adam")
        saved = None
        for step in range(2):
            model.loss(joined_batch(step)).backward()
            ct.step()
            saved = saved or self.optimizer.state_dict()
        self.assertEqual(int(saved["state"][0]["step"]), 2)  # torch's is no copy
        self.optimizer.load_state_dict(saved)
        ct.step()

    def test_operations_of_all_workers_return_the_value(self) -> None:
        self.attach()
        values = torch.tensor([[1.0, 2.0]], device=DEVICE)
        for op in ("mean", "sum", "min", "max"):
            self.assertTrue(torch.equal(ct.all_reduce(values, op), values))
        self.assertIsNot(ct.all_reduce(values), values)
        self.assertEqual(ct.all_reduce(torch.tensor([3], dtype=torch.int8), "sum").dtype,
                         torch.int64)
        self.assertIsInstance(ct.all_reduce(3), float)
        self.assertEqual(ct.all_reduce(True, "sum"), 1)
        self.assertIs(ct.broadcast(True), True)
        self.assertEqual(ct.broadcast(values.half()).dtype, torch.float16)
        self.assertEqual((ct.stop(False), ct.stop(1)), (False, True))
        ct.barrier()
        with ct.join():
            ct.step()
        self.assertEqual(ct.next_step(), 1)
        for call, text in [(lambda: ct.all_reduce(torch.zeros(2**18 + 1)), "1 MiB"),
                           (lambda: ct.all_reduce(torch.ones(1).long()), "mean"),
                           (lambda: ct.all_reduce(1, "product"), "'sum'"),
                           (lambda: ct.all_reduce(torch.zeros(1).cfloat()), "complex64"),
                           (lambda: ct.broadcast(1, root=1), "rank below 1"),
                           (lambda: ct.broadcast(1, root=-1), "root: expected")]:
            self.refuses(capstan.InvalidArgument, text, call)
        ct.all_reduce(torch.zeros(2**18))

    def test_a_gradient_that_is_not_finite_is_refused_as_in_a_job(self) -> None:
        model = self.attach()
        before = copy.deepcopy(model.state_dict())
        (model.loss(joined_batch(0)) * float("inf")).backward()
        self.refuses(capstan.JobFailed, "at step 0 holds a NaN or an infinity", ct.step)
        for name, one in model.state_dict().items():
            self.assertTrue(torch.equal(one, before[name]), name)

    def test_a_model_can_be_copied_and_freed(self) -> None:
        model = self.attach()
        model.loss(joined_batch(0)).backward()
        other = copy.deepcopy(model)
        other.loss(joined_batch(0)).backward()
        ct.step()
        ct.finish()
        ct._attached = None
        freed = weakref.ref(model)
        del model, self.optimizer
        gc.collect()
        self.assertIsNone(freed())


if __name__ == "__main__":
    unittest.main()
