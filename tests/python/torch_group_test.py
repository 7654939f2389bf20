"""Several models in one job, each with its optimizer, beside plain torch."""

from __future__ import annotations

import pathlib
import re
import tempfile
import unittest
from typing import Callable
from unittest import mock

import torch
from torch import nn

import capstan
import capstan.torch as ct
import torch_group_cases
from harness import Workers
from torch_group_cases import ITERATIONS, Gan
from torch_models import joined_batch, part_of


class TorchGroupTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_group_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_a_gan_trains_as_in_one_process(self) -> None:
        for is_same in (True, False):
            for options in ({}, {"goes_on": True}, {"overlap": False}):
                with self.subTest(is_same=is_same, **options):
                    summary = self.workers.run("trains_a_gan", num_servers=2, is_same=is_same,
                                               **options)
                    self.assertEqual(summary["outcome"], "finished")

    @unittest.skipIf(not torch_group_cases.HAS_SCALER, "this torch has no GradScaler for a CPU")
    def test_both_may_have_one_scaler(self) -> None:
        self.workers.run("trains_a_gan_with_a_scaler")

    def test_one_backward_may_serve_two_steps(self) -> None:
        self.workers.run("steps_both_after_one_backward")

    def test_values_of_other_models_may_change_unless_bsp_keeps_them(self) -> None:
        for flags in (["--consistency=async"], ["--consistency=ssp", "--staleness=2"],
                      ["--pull_codec=auto"]):
            with self.subTest(flags):
                self.workers.run("trains_under_ssp", *flags)

    def test_a_missing_zero_grad_is_noticed(self) -> None:
        self.workers.run("warns_of_a_missing_zero_grad")

    def test_workers_may_have_different_numbers_of_batches(self) -> None:
        self.workers.run("joins")

    def test_a_restored_job_has_the_bits_of_an_undisturbed_one(self) -> None:
        cases = torch_group_cases
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/gan"
            flags = [f"--checkpoint_steps={cases.CUTS}", "--keep=10", f"--steps={2 * ITERATIONS}"]
            self.workers.run("goes_on_from_a_checkpoint", f"--checkpoint_dir={path}-kept", *flags,
                             path=path, restored_from=0)
            steps = {int(re.search(r"^step: (\d+)", one.read_text(), re.M)[1]): one.parent
                     for one in pathlib.Path(f"{path}-kept").glob("checkpoint-*/manifest")}
            cuts = sorted(step for step in steps if step < 2 * ITERATIONS)
            self.assertTrue(cuts, steps)
            for step in cuts:
                self.workers.run("goes_on_from_a_checkpoint", f"--checkpoint_dir={path}-{step}",
                                 *flags, f"--restore={steps[step]}", path=path, restored_from=step)


class AloneGroupTest(unittest.TestCase):
    def setUp(self) -> None:
        attached = mock.patch.object(ct, "_attached", None)
        attached.start()
        self.addCleanup(attached.stop)

    def test_a_gan_trains_alone_as_plain_torch(self) -> None:
        expected, gan = Gan(), Gan()
        gan.attach()
        for iteration in range(ITERATIONS):
            batches = [part_of(joined_batch(iteration), 0)]
            expected.iterate(batches, is_attached=False)
            gan.iterate(batches, is_attached=True)
        self.assertEqual(ct.next_step(), 2 * ITERATIONS)
        self.assertTrue(ct.finish())
        gan.expect_equal(expected)

    def refuses(self, kind: type[Exception], text: str, call: Callable[[], object]) -> None:
        with self.assertRaisesRegex(kind, text):
            call()

    def test_mistakes_are_refused(self) -> None:
        gan = Gan()
        gan.attach()
        self.refuses(capstan.WrongOrder, "name the optimizer that steps", ct.step)
        other = torch.optim.SGD(gan.maker.parameters(), lr=1.0)
        self.refuses(capstan.InvalidArgument, "given to ct.attach",
                     lambda: ct.step(optimizer=other))
        self.refuses(capstan.WrongOrder, "within one `with ct.attach_together", gan.attach)
        self.refuses(capstan.WrongOrder, "within one `with ct.attach_together",
                     lambda: ct.attach(gan.maker, gan.of_maker))
        self.refuses(capstan.WrongOrder, r"call ct.step\(\) instead", gan.of_judge.step)
        ct.finish()
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        self.refuses(capstan.InvalidArgument, "only within ct.attach_together",
                     lambda: ct.attach(model, optimizer, name="a"))
        ct.attach(model, optimizer)
        self.refuses(capstan.InvalidArgument, "given to ct.attach",
                     lambda: ct.step(optimizer=other))
        ct.step(optimizer=optimizer)
        ct.finish()

    def test_models_that_cannot_be_together_are_refused(self) -> None:
        def attach_all(*models: nn.Module, names: tuple = (None, None), **options: object) -> None:
            with ct.attach_together():
                for model, name in zip(models, names):
                    ct.attach(model, torch.optim.SGD(model.parameters(), lr=1.0), name=name,
                              **options)

        def nested() -> None:
            with ct.attach_together():
                attach_all(nn.Linear(2, 2))

        one, other = nn.Linear(2, 2), nn.Linear(2, 2)
        bag = nn.Sequential(ct.EmbeddingBag("items", dim=2), nn.Linear(2, 1))
        for text, call in [
                ("expected a ct.attach within", attach_all),
                ("1.0.weight is the same parameter as 0.weight",
                 lambda: attach_all(one, nn.Sequential(one, other))),
                ("two models are called a", lambda: attach_all(one, other, names=("a", "a"))),
                ("name: expected text", lambda: attach_all(one, names=("capstan",))),
                ("EmbeddingBag items", lambda: attach_all(one, bag)),
                ("job: give it to ct.attach_together", lambda: attach_all(one, job=5))]:
            with self.subTest(text):
                self.refuses(capstan.InvalidArgument, text, call)
        self.refuses(capstan.WrongOrder, "within ct.attach_together", nested)
        attach_all(one, other)  # nothing is left of the others
        ct.finish()


if __name__ == "__main__":
    unittest.main()
