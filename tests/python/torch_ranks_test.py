"""Workers that are several ranks of torch.distributed: 2 x 2 processes with Gloo."""

from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile
import unittest

import torch
import torch_ranks_cases
from harness import PROGRAMS, Workers
from torch_state_cases import tensors_in

try:
    from torch.distributed.fsdp import fully_shard as _SHARDS
except (ImportError, ValueError):  # Debian's torch does not fit its Python
    _SHARDS = None
PAIRS = (2, 2)
README = pathlib.Path(__file__).parents[2] / "worker/python/README.md"


class TorchRanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_ranks_cases", num_workers=4)
        cls.addClassCleanup(cls.workers.close)

    def test_replicas_equal_workers_in_one_process(self) -> None:
        summary = self.workers.run("takes_local_steps", ranks=PAIRS, sharded=False)
        self.assertEqual(summary["steps"], torch_ranks_cases.ROUNDS)
        self.assertEqual(summary["test_loss"], 0.5)
        self.workers.run("takes_local_steps", ranks=PAIRS, sharded=False, fragments=2,
                         fragment_sync_delay=1)
        for wrapped in (False, True):
            self.workers.run("trains_here", ranks=PAIRS, sharded=False, wrapped=wrapped)

    @unittest.skipIf(_SHARDS is None, "this torch has no FSDP2")
    def test_shards_equal_workers_in_one_process(self) -> None:
        for settings in ({}, {"fragments": 2, "fragment_sync_delay": 1},
                         {"fragment_update_alpha": 0.25}):
            with self.subTest(settings):
                self.workers.run("takes_local_steps", "--slice_bytes=4096", ranks=PAIRS,
                                 num_servers=2, sharded=True, **settings)
        for wrapped in (False, True):
            self.workers.run("trains_here", ranks=PAIRS, sharded=True, wrapped=wrapped)

    @unittest.skipIf(_SHARDS is None, "this torch has no FSDP2")
    def test_the_readmes_loop_is_that_of_torch(self) -> None:
        summary = self.workers.run("trains_as_the_readme_says", ranks=PAIRS, readme=str(README))
        self.assertEqual((summary["steps"], summary["test_accuracy"]), (4, 0.25))

    def test_operations_are_of_all_ranks(self) -> None:
        self.workers.run("works_together", ranks=PAIRS)

    def test_a_restored_job_has_the_bits_of_an_undisturbed_one(self) -> None:
        for sharded in (False,) if _SHARDS is None else (False, True):
            for how in ("local", "here"):
                with self.subTest(sharded=sharded, how=how), tempfile.TemporaryDirectory() as folder:
                    self._expect_same_bits(pathlib.Path(folder), sharded, how)

    def _expect_same_bits(self, folder: pathlib.Path, sharded: bool, how: str) -> None:
        flags = [f"--checkpoint_steps={torch_ranks_cases.CUTS}", "--keep=10",
                 f"--steps={torch_ranks_cases.STEPS}"]
        case = {"ranks": PAIRS, "sharded": sharded, "how": how, "path": str(folder / "state")}
        self.workers.run("keeps", f"--checkpoint_dir={folder}/kept", *flags, restored_from=0, **case)
        cuts = {int(re.search(r"^step: (\d+)", one.read_text(), re.M)[1]): one.parent
                for one in (folder / "kept").glob("checkpoint-*/manifest")}
        step = min(cuts)
        self.assertLess(step, torch_ranks_cases.STEPS)
        self.workers.run("keeps", f"--checkpoint_dir={folder}/again", *flags,
                         f"--restore={cuts[step]}", restored_from=step, **case)

    @unittest.skipIf(_SHARDS is None, "this torch has no FSDP2")
    def test_files_have_whole_tensors(self) -> None:
        # The servers' default limits let in every rank of three.
        for how, workers, ranks in (("local", self.workers, PAIRS), ("here", self.apart(6), (3, 3))):
            with self.subTest(how), tempfile.TemporaryDirectory() as name:
                self._expect_whole_tensors(pathlib.Path(name), how, workers, ranks)

    def apart(self, num_workers: int) -> Workers:
        """Processes of this test alone."""
        workers = Workers("torch_ranks_cases", num_workers=num_workers)
        self.addCleanup(workers.close)
        return workers

    def _expect_whole_tensors(self, folder: pathlib.Path, how: str, workers: Workers,
                              ranks: tuple[int, ...]) -> None:
        initial = ""
        for number in range(2):
            output, exported = folder / f"{number}.safetensors", folder / f"{number}.exported"
            flags = ["--output_optimizer_state"] if how == "local" else []
            if initial:
                flags.append(f"--initial={initial}")
            summary = workers.run(
                "writes_files", f"--steps={torch_ranks_cases.STEPS}", f"--output={output}",
                f"--checkpoint_dir={folder}/kept-{number}", "--checkpoint_steps=2",
                "--slice_bytes=4096", "--push_codec=int8", "--field=codec.min_bytes=0", *flags,
                ranks=ranks, num_servers=2, how=how, initial=initial,
                path=str(folder / "saved"))
            self.assertEqual(summary["steps"], torch_ranks_cases.STEPS - 1)
            self.assertNotIn("parameters_xxh3", summary)  # no rank has all
            subprocess.run([PROGRAMS / "capstan", "export", f"--checkpoint={folder}/kept-{number}",
                            f"--output={exported}"], check=True, capture_output=True)
            saved, of_job = torch.load(folder / "saved"), tensors_in(str(output))
            names = {name for name in of_job if not name.startswith("optimizer.")}
            self.assertEqual(names, set(saved))
            self.assertEqual(len(of_job), len(saved) * (3 if how == "local" else 1))
            for tensors in (of_job, tensors_in(str(exported))):
                for name, values in saved.items():
                    self.assertEqual(tensors[name].shape, values.shape)
                    self.assertTrue(torch.equal(tensors[name], values), name)
            if how == "local":
                momentum = of_job[f"optimizer.{next(iter(saved))}.momentum_buffer"]
                self.assertGreater(float(momentum.abs().min()), 0)
            initial = str(output)

    def test_what_it_cannot_do_is_refused(self) -> None:
        self.workers.run("refuses", ranks=PAIRS)
        self.workers.run("hears_the_jobs_refusal", "--consistency=async", ranks=PAIRS)

    @unittest.skipIf(_SHARDS is None, "this torch has no FSDP2")
    def test_shards_elsewhere_are_refused(self) -> None:
        self.workers.run("refuses_shards", ranks=PAIRS)

    def test_unequal_ranks_are_refused(self) -> None:
        for mode in ("bsp", "async"):
            with self.subTest(mode):
                self._expect_refused(mode, (2, 1), False, "is 1 rank where the first worker is 2 ranks;")

    @unittest.skipIf(_SHARDS is None, "this torch has no FSDP2")
    def test_other_shards_are_refused(self) -> None:
        self._expect_refused("async", PAIRS, True,
                             "is 2 ranks where the first worker is 2 ranks with shards ")

    def _expect_refused(self, mode: str, ranks: tuple[int, ...], sharded: bool, text: str) -> None:
        summary = self.workers.run("needs_equal_ranks", f"--consistency={mode}", ranks=ranks,
                                   sharded=sharded, text=text)
        self.assertEqual(summary["outcome"], "failed")

    def test_a_lost_rank_is_the_workers_loss(self) -> None:
        with self.assertRaisesRegex(AssertionError, "the worker has died"):
            self.apart(4).run("loses_a_rank", ranks=PAIRS)

    @unittest.skipIf(_SHARDS is None, "this torch has no FSDP2")
    def test_a_rank_that_is_asked_to_end_ends_the_job(self) -> None:
        with self.assertRaisesRegex(AssertionError, "a rank of the worker was asked to end"):
            self.apart(4).run("loses_a_rank", ranks=PAIRS, sharded=True, how="SIGTERM")


if __name__ == "__main__":
    unittest.main()
