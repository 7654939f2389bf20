"""A checkpoint of an earlier version: the job goes on from it with the same bits."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import PROGRAMS, TESTS, TIMEOUT_SECONDS

OLD = TESTS / "old_checkpoint"
# What program.py printed with the version that wrote the checkpoint, commit 79e3e61, in a job that
# nothing disturbed.
END = "dfec184337e1b997108483a9409a749d65019cd4543021c6038ddcfddf81ee50"


def run_capstan(*arguments: str) -> str:
    """What it prints. Fails unless it exits with 0."""
    done = subprocess.run([PROGRAMS / "capstan", *arguments], text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise AssertionError(f"capstan {arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class OldCheckpointTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def _end(self, *flags: str) -> str:
        """The hash at the end of a job of program.py."""
        end = self.folder / "end"
        program = f"{sys.executable} {OLD / 'program.py'} {end}"
        run_capstan("run", f"--worker_command={program}", "--steps=12", "--shard_count=4",
                    "--push_codec=int8", "--field=codec.min_bytes=0", "--quiet",
                    f"--run_dir={self.folder / 'run'}", *flags)
        return end.read_text()

    def test_goes_on_with_the_same_bits(self) -> None:
        # A dense table with the moments of AdamW and the residuals of int8, and rows.
        for servers in (1, 3):
            kept = self.folder / f"kept-{servers}"
            shutil.copytree(OLD / "checkpoint-000001", kept / "checkpoint-000001")
            self.assertEqual(self._end(f"--num_servers={servers}", f"--checkpoint_dir={kept}",
                                       "--restore=latest"), END)

    def test_so_does_a_job_from_the_start(self) -> None:
        self.assertEqual(self._end(), END)

    def test_verifies_and_has_the_rows(self) -> None:
        output = run_capstan("checkpoint", f"--verify={OLD / 'checkpoint-000001'}")
        self.assertIn("step 6", output)
        rows = run_capstan("get", "--table=rows", "--row_keys=0,39",
                           f"--checkpoint={OLD / 'checkpoint-000001'}")
        self.assertEqual(rows, "key 0: 0.100000001 0.100000001 -0.100000001\nkey 39: no row\n")


if __name__ == "__main__":
    unittest.main()
