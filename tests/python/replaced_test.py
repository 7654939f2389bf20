"""A lost worker's program is started again, and does its open step again: the same bits."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

import capstan
import capstan.torch as ct
from harness import PROGRAMS, TESTS, TIMEOUT_SECONDS
from torch_models import Mlp


class ReplacedTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def _run(self, kind: str, losses: str, *flags: str) -> tuple[str, str]:
        """The hash at the end, and what `capstan run` prints."""
        end = self.folder / f"{kind}-{losses.replace(',', '_')}"
        program = f"{sys.executable} {TESTS / 'replaced_program.py'} {kind} {end} {losses or '-'}"
        done = subprocess.run(
            [PROGRAMS / "capstan", "run", f"--worker_command={program}", "--num_workers=2",
             "--num_servers=2", "--shard_count=5", "--slice_bytes=256", "--quiet",
             f"--run_dir={end}-run", "--steps=20" if kind == "torch" else "--steps=10", *flags],
            text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS,
            check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return end.read_text(), done.stdout + done.stderr

    def test_the_bits_are_those_of_an_undisturbed_job(self) -> None:
        for kind in ("numpy", "torch"):
            with self.subTest(kind):
                whole, _ = self._run(kind, "")
                losses = "1-0-begin,0-2-within,1-4-end,1-5-within,0-6-asked,0-9-within,1-9-end"
                end, said = self._run(kind, losses, "--restart=on_failure")
                self.assertEqual(end, whole)
                self.assertIn("7 workers replaced", said)
                self.assertNotIn("restarted", said)
                self.assertNotIn("(exit code 1)", said)
                self.assertRegex(said, "worker 1 was lost at step 5 and replaced after .* s; nothing")
                # Or later, as the signal may come to another thread first. Step 6 is done.
                self.assertRegex(said, "worker 0 was lost at step [78] and replaced")

    def test_a_lost_worker_with_local_steps(self) -> None:
        whole, _ = self._run("local", "")
        kept = f"--checkpoint_dir={self.folder / 'kept'}"
        end, said = self._run("local", "1-5-within,0-8-begin", "--restart=on_failure", kept,
                              "--checkpoint_steps=2")
        self.assertEqual(end, whole)
        self.assertIn("restarted 2 times", said)
        _, said = self._run("local", "1-5-within", "--consistency=async", "--num_workers=4")
        self.assertRegex(said, "workers lost +1")

    def test_a_model_with_a_state_of_its_own_is_refused(self) -> None:
        model = torch.nn.Sequential(Mlp(), torch.nn.BatchNorm1d(3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertRaisesRegex(capstan.InvalidArgument, "1, a BatchNorm1d"):
            ct.attach(model, optimizer, replaceable=True)
        with self.assertRaisesRegex(capstan.InvalidArgument, "optimizer_runs"):
            ct.attach(Mlp(), optimizer, optimizer_runs="here", replaceable=True)


if __name__ == "__main__":
    unittest.main()
