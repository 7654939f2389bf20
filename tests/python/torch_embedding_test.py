"""ct.EmbeddingBag, in jobs of two workers and beside a table that notes calls."""

from __future__ import annotations

import tempfile
import unittest

import numpy
import torch
from torch import nn

import capstan
import capstan.torch as ct
import torch_cases
import torch_embedding_cases
from capstan._torch_plan import Plan
from capstan._torch_rows import Rows
from harness import Workers


class EmbeddingBagTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_embedding_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_two_workers_equal_one_process_on_the_joined_batch(self) -> None:
        for optimizer in torch_embedding_cases.OPTIMIZERS:
            for mode in ("sum", "mean", "max"):
                with self.subTest(optimizer=optimizer, mode=mode):
                    summary = self.workers.run("equals_one_process", num_servers=2,
                                               optimizer=optimizer, mode=mode)
                    self.assertEqual(summary["outcome"], "finished")

    def test_a_padding_counts_in_no_bag(self) -> None:
        for mode in ("sum", "mean", "max"):
            with self.subTest(mode=mode):
                self.workers.run("equals_one_process", num_servers=2, optimizer="adagrad", mode=mode,
                                 padding=-1)

    def test_an_embedding_equals_torchs(self) -> None:
        for padding in (None, 12):
            with self.subTest(padding=padding):
                self.workers.run("embeds", num_servers=2, padding=padding)

    def test_the_dense_part_may_be_the_programs(self) -> None:
        for mode in ("mean", "max"):
            with self.subTest(mode), tempfile.TemporaryDirectory() as folder:
                summary = self.workers.run("leaves_the_dense_part", num_servers=2, mode=mode,
                                           meeting=f"file://{folder}/ranks")
                self.assertEqual(summary["steps"], torch_embedding_cases.STEPS)
        self.assertEqual(self.workers.run("trains_bags_alone")["steps"], 2)

    def test_gradients_accumulate_and_may_be_missing(self) -> None:
        self.workers.run("accumulates")

    def test_rows_count_for_the_norm(self) -> None:
        self.workers.run("clips")

    @unittest.skipUnless(torch_cases.HAS_SCALER, "this torch scales on GPUs only")
    def test_a_step_with_inf_is_skipped_by_all(self) -> None:
        self.workers.run("scales")

    def test_every_optimizer_trains_in_every_mode(self) -> None:
        for optimizer, flags in [("FTRL", []), ("RowAdagrad", ["--consistency=async"]),
                                 ("Adam", ["--consistency=ssp", "--staleness=2"])]:
            with self.subTest(optimizer):
                self.workers.run("learns", *flags, optimizer=optimizer)

    def test_keys_are_any_integers(self) -> None:
        self.workers.run("takes_any_keys", num_workers=1)

    def test_rows_follow_the_learning_rate(self) -> None:
        self.workers.run("follows_the_learning_rate", num_workers=1)

    def test_idle_rows_are_forgotten(self) -> None:
        # A shard looks for idle rows when it gets a push.
        self.workers.run("forgets_idle_rows", "--shard_count=1", num_workers=1)

    def test_copies_and_other_bags_are_refused(self) -> None:
        for case in ("refuses_copies", "refuses_another_bag"):
            with self.subTest(case):
                self.workers.run(case, num_workers=1)


class NotingTable:
    """Stands in for a SparseTable. All rows are 0."""

    dim = 2

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def pull(self, keys: numpy.ndarray) -> numpy.ndarray:
        self.calls.append(("pull", keys.tolist()))
        return numpy.zeros((len(keys), self.dim), dtype=numpy.float32)

    def push(self, keys, gradients, *, next_keys=None) -> None:
        self.calls.append(("push", keys.tolist(), gradients.tolist(),
                           None if next_keys is None else next_keys.tolist()))


class RowsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.table = NotingTable()
        self.rows = Rows("items", self.table, -1)

    def _forward(self, *keys: int) -> torch.Tensor:
        return self.rows.pull(self.rows.keys_of(torch.tensor(keys)))

    def _end_step(self) -> None:
        self.rows.merge()
        self.rows.push()

    def test_each_key_travels_once_and_the_next_ones_with_the_gradients(self) -> None:
        self._forward(5, -3, 5).sum().backward()
        (2 * self._forward(5, 8)).sum().backward()
        self.rows.prefetch(torch.tensor([9, 1, 9]))
        self._end_step()
        self._forward(9, 1, 9)
        self.assertEqual(self.table.calls, [
            ("pull", [-3, 5]), ("pull", [5, 8]),
            ("push", [-3, 5, 8], [[1, 1], [3, 3], [2, 2]], [1, 9]), ("pull", [1, 9])])

    def test_a_padding_is_not_pushed(self) -> None:
        self.rows.padding = 5
        keys = self.rows.keys_of(torch.tensor([7, 5, -3]))
        self.assertEqual(self.rows.place_of_padding(keys), 1)
        self.assertIsNone(self.rows.place_of_padding(self.rows.keys_of(torch.tensor([7]))))
        self._forward(7, 5, -3).sum().backward()
        self._end_step()
        self.assertEqual(self.table.calls[1], ("push", [-3, 7], [[1, 1], [1, 1]], None))

    def test_keys_are_fetched_ahead_without_a_gradient_too(self) -> None:
        self.rows.prefetch(torch.tensor([4]))
        self._end_step()
        self._end_step()
        self.assertEqual(self.table.calls, [("push", [], [], [4])])

    def test_keys_in_memory_that_is_used_again_are_noticed(self) -> None:
        keys = torch.tensor([4, 5])
        self.rows.prefetch(keys)
        self._end_step()
        keys[0] = 6
        self.rows.pull(self.rows.keys_of(keys))
        self.assertEqual(self.table.calls[1:], [("pull", [5, 6])])

    def test_nothing_is_pushed_without_gradients(self) -> None:
        with torch.no_grad():
            self.assertFalse(self._forward(1).requires_grad)
        self._forward(2)
        self._end_step()
        self.assertEqual(self.table.calls, [("pull", [1]), ("pull", [2])])


class RefusalsTest(unittest.TestCase):
    def test_the_dense_part_is_the_programs_alone(self) -> None:
        linear = nn.Linear(2, 1)
        model = nn.Sequential(ct.EmbeddingBag("items", 2), linear)
        for attached, settings, text in [
                (linear, {}, "expected a model with ct.EmbeddingBag"),
                (model, {}, "give it an optimizer of its own"),
                (model, {"optimizer_runs": "here"}, "leave out all other arguments"),
                (model, {"dense": "here"}, "got 'here'")]:
            with self.assertRaisesRegex(capstan.InvalidArgument, text):
                ct.attach(attached, None, **{"dense": "local", **settings})

    def test_arguments_are_checked(self) -> None:
        for arguments, settings, text in [
                ((1000, 16), {}, "there is no num_embeddings"),
                (("items", 16), {"padding_idx": 2**63}, "padding_idx: expected a key"),
                (("items", 16), {"mode": "median"}, "expected mode sum, mean or max"),
                (("items", 16), {"optimizer": "sgd"}, "capstan.Adagrad")]:
            with self.assertRaisesRegex(capstan.InvalidArgument, text):
                ct.EmbeddingBag(*arguments, **settings)

    def test_an_optimizer_that_rows_cannot_have_is_refused(self) -> None:
        model = nn.Sequential(ct.EmbeddingBag("items", 2), nn.Linear(2, 1))
        for optimizer in (torch.optim.AdamW(model.parameters(), lr=0.1),
                          torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)):
            with self.assertRaisesRegex(capstan.InvalidArgument, "give it one of its own"):
                Plan(model, optimizer)
        model[0].optimizer = capstan.FTRL(lr=0.1)
        self.assertEqual(model[0].initial_stddev(), 0)
        Plan(model, torch.optim.AdamW(model.parameters(), lr=0.1))

    def test_two_bags_have_two_names(self) -> None:
        model = nn.Sequential(ct.EmbeddingBag("items", 2), ct.EmbeddingBag("items", 2),
                              nn.Linear(2, 1))
        with self.assertRaisesRegex(capstan.InvalidArgument, "got items twice"):
            Plan(model, torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    unittest.main()
