"""The examples, as users start them: by capstan run, with two workers."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import unittest

import torch

import capstan.torch as ct
from harness import PROGRAMS

REPOSITORY = pathlib.Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "worker/python/examples"


def _run(example: str, *flags: str) -> tuple[dict[str, object], str]:
    """The job's summary, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        summary = pathlib.Path(folder) / "summary.json"
        done = subprocess.run(
            [sys.executable, "-m", "capstan", "run", "--num_workers=2", "--num_servers=2",
             f"--worker_command={sys.executable} {EXAMPLES / example}", f"--run_dir={folder}/run",
             f"--summary_json={summary}", *flags], capture_output=True, text=True, timeout=300)
        logs = "\n".join(log.read_text(errors="replace")[-2000:]
                         for log in pathlib.Path(folder).glob("run/worker-*.log"))
        if done.returncode != 0:
            raise AssertionError(f"{example}: {done.stdout}{done.stderr}{logs}")
        return dict(json.loads(summary.read_text())), done.stdout + logs


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class ExamplesTest(unittest.TestCase):
    def test_digits_are_learned_in_every_mode(self) -> None:
        for flags in ([], ["--consistency=ssp", "--staleness=2"], ["--consistency=async"]):
            with self.subTest(flags):
                self.assertGreaterEqual(_run("digits.py", *flags)[0]["test_accuracy"], 0.95)

    def test_a_job_that_goes_on_has_the_bits_of_an_undisturbed_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "kept"
            flags = [f"--checkpoint_dir={kept}", "--checkpoint_steps=100", "--keep=9"]
            whole, said = _run("resume.py", *flags)
            self.assertGreaterEqual(whole["test_accuracy"], 0.95)
            self.assertIn("epoch 19: test accuracy", said)
            first = sorted(kept.glob("checkpoint-*/manifest"))[0].parent
            flags[0] = f"--checkpoint_dir={folder}/again"
            again, said = _run("resume.py", *flags, f"--restore={first}")
            self.assertNotIn("epoch 0: test accuracy", said)
            self.assertEqual(again["parameters_xxh3"], whole["parameters_xxh3"])

    def test_digits_are_learned_with_local_steps(self) -> None:
        summary, said = _run("local_steps.py", "--push_codec=int8", "--pull_codec=int8")
        self.assertGreaterEqual(summary["test_accuracy"], 0.95)
        self.assertEqual(summary["steps"], 30)
        self.assertIn("after 30 rounds", said)

    def test_workers_of_two_clusters_train_as_the_guide_says(self) -> None:
        guide = (REPOSITORY / "deploy/guide/local-steps.md").read_text()
        servers, worker = re.findall(r"```\n(.*?)```", guide, re.DOTALL)[-2:]
        with tempfile.TemporaryDirectory() as folder:
            bin_dir = pathlib.Path(folder) / "bin"
            bin_dir.mkdir()
            # Not a link: one to the Python of an environment is none of that environment.
            (bin_dir / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
            (bin_dir / "python").chmod(0o755)
            (pathlib.Path(folder) / "worker").symlink_to(REPOSITORY / "worker")
            script = "\n".join([
                # Waits too: a coordinator that is told to end still writes into the folder.
                "trap 'kill $(jobs -p); wait' EXIT", servers.replace(" &\n", " >>servers.log 2>&1 &\n"),
                *(f"{worker.strip()} >worker-{rank}.log 2>&1 & workers[{rank}]=$!"
                  for rank in (0, 1)), "wait ${workers[0]} && wait ${workers[1]}"])
            script = script.replace("servers.example.com", "127.0.0.1").replace("0.0.0.0", "127.0.0.1")
            for port in ("4000", "4001"):
                script = script.replace(f":{port}", f":{_free_port()}")
            path = f"{bin_dir}:{PROGRAMS}:{os.environ['PATH']}"
            done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True,
                                  timeout=300, env={**os.environ, "PATH": path})
            logs = {log.name: log.read_text(errors="replace")
                    for log in pathlib.Path(folder).glob("*.log")}
        self.assertEqual(done.returncode, 0, (done, logs))
        accuracies = re.findall(r"test accuracy ([\d.]+) after 30 rounds",
                                logs["worker-0.log"] + logs["worker-1.log"])
        self.assertEqual(len(accuracies), 1, logs)
        self.assertGreaterEqual(float(accuracies[0]), 0.95)

    def test_the_transformer_writes_better_than_chance(self) -> None:
        self.assertLess(_run("char_transformer.py")[0]["test_loss"], 2.7)

    def test_the_regression_finds_its_weights(self) -> None:
        self.assertLess(_run("numpy_regression.py")[0]["test_loss"], 0.02)

    def test_the_sparse_regression_learns_who_clicks(self) -> None:
        # The best possible accuracy is 0.93.
        self.assertGreater(_run("sparse_regression.py")[0]["test_accuracy"], 0.85)

    def test_deepfm_comes_near_the_best_auc(self) -> None:
        said = _run("deepfm.py")[1]
        learned, best = (float(one) for one in re.search(
            r"AUC ([\d.]+); the best possible is ([\d.]+)", said).groups())
        self.assertGreater(best, 0.8)
        self.assertGreater(learned, best - 0.005)

    def test_the_readmes_loop_with_an_optimizer_of_its_own_is_that_of_torch(self) -> None:
        readme = (REPOSITORY / "worker/python/README.md").read_text()
        block = re.search(r"### Any optimizer\n\n```python\n(.*?)```", readme, re.DOTALL)[1]
        criterion = torch.nn.functional.mse_loss
        loader = [(torch.randn(8, 3), torch.randn(8, 2)) for _ in range(4)]

        def parts() -> tuple[torch.nn.Module, torch.optim.Optimizer, object]:
            torch.manual_seed(1)
            model = torch.nn.Linear(3, 2)
            optimizer = torch.optim.NAdam(model.parameters(), lr=0.1)
            return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

        model, optimizer, scheduler = parts()
        exec(block, {"ct": ct, "torch": torch, "model": model, "optimizer": optimizer,
                     "scheduler": scheduler, "criterion": criterion, "loader": loader})
        ct.finish()
        alone, optimizer, scheduler = parts()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(alone(x), y).backward()
            torch.nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        self.assertTrue(torch.equal(model.weight, alone.weight), (model.weight, alone.weight))

    def test_the_readme_names_them(self) -> None:
        readme = (REPOSITORY / "worker/python/README.md").read_text()
        for example in EXAMPLES.glob("*.py"):
            self.assertIn(f"(examples/{example.name})", readme)
            self.assertLess(len(example.read_text().splitlines()), 80)


if __name__ == "__main__":
    unittest.main()
