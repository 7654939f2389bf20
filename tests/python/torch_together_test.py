"""What all workers do together: operations, ends of loops, and different numbers of batches."""

from __future__ import annotations

import tempfile
import unittest

from harness import Workers


class TorchTogetherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_together_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_values_of_all_kinds_are_combined(self) -> None:
        for flags in (["--transport=grpc", "--steps=5"], ["--transport=ucx"]):
            with self.subTest(flags):
                summary = self.workers.run("reduces", *flags, num_servers=2)
                self.assertEqual(summary["outcome"], "finished")

    def test_they_need_bsp(self) -> None:
        for flags in (["--consistency=async"], ["--consistency=ssp", "--staleness=1"]):
            with self.subTest(flags):
                self.workers.run("needs_bsp", *flags)

    def test_workers_that_differ_hear_what_each_does(self) -> None:
        for how in ("size", "shape", "operation", "leaves it out", "finishes"):
            with self.subTest(how):
                summary = self.workers.run("differs", how=how)
                shape = "2x3" if how == "shape" else "2"
                self.assertIn(f"worker 0 calls the mean of {shape} float32", summary["reason"])
                if how == "shape":
                    self.assertIn("worker 1 calls the mean of 3x2 float32", summary["reason"])
        # The others then wait in another place: for what a checkpoint needs.
        with tempfile.TemporaryDirectory() as folder:
            summary = self.workers.run("differs", f"--checkpoint_dir={folder}/kept",
                                       "--checkpoint_steps=100", "--steps=9", how="leaves it out")
            self.assertIn("worker 1 has ended step 1", summary["reason"])
        summary = self.workers.run("joins_alone")
        self.assertIn("worker 1 has joined, but worker 0", summary["reason"])

    def test_workers_may_have_different_numbers_of_batches(self) -> None:
        for reduces_losses in (False, True):
            with self.subTest(reduces_losses=reduces_losses):
                summary = self.workers.run("joins", reduces_losses=reduces_losses)
                self.assertEqual(summary["outcome"], "finished")
        self.workers.run("joins_with_arrays")

    def test_one_workers_early_stop_ends_all_after_the_same_step(self) -> None:
        self.workers.run("stops_early")

    def test_a_job_that_has_announced_its_steps_may_end_earlier_and_go_on_later(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            # The first checkpoint would be that of step 50. What is pushed leaves a residual.
            flags = ["--steps=100", f"--checkpoint_dir={folder}/kept", "--checkpoint_steps=50",
                     "--push_codec=topk:0.3"]
            arguments = {"path": f"{folder}/end"}
            whole = self.workers.run("stops_early", *flags, last=7, **arguments)
            self.assertEqual(whole["outcome"], "finished")
            flags[1] += "_again"
            self.workers.run("stops_early", *flags, last=4, path=f"{folder}/other")
            self.workers.run("stops_early", *flags, "--restore=latest", first=4, last=7,
                             compares=True, **arguments)


if __name__ == "__main__":
    unittest.main()
