#!/usr/bin/env python3
"""Compares local steps with BSP: the held-out loss at equal samples, and the bytes.

A character transformer of 230,000 parameters learns this repository's C++ sources, from the same
seed, with the same AdamW and the same schedule: under BSP with an exchange of float32 in each step
(the inner optimizer steps in the workers, with the mean of the gradients), and with rounds of
--sync_every local steps. A ratio is the mean over --seeds. Prints a table, and with --json one line:

  loss, bsp_loss   held-out loss a character, means over seeds
  bytes_ratio      bytes that BSP has sent, pushes and pulls, over those of local steps
  stall_s          seconds that a worker of local steps has waited for values, over all its rounds:
                   of the worker that has waited most
  stall_share      the same, as a share of the time of all rounds
  round_s          seconds of a round, with computing
  diloco_loss      with --peer: of a plain DiLoCo over Gloo's all-reduce, which sends float32

The Python that runs this needs torch and Capstan's package.
"""

import argparse
import json
import math
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional

SOURCES = pathlib.Path(__file__).resolve().parents[3]
LENGTH, WIDTH, HELD_OUT = 48, 96, 100_000
RATE, WARM_UP = 3e-3, 100


class Transformer(nn.Module):
    """Two layers; input and output share the characters' vectors."""

    def __init__(self, characters):
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True,
                                       norm_first=True) for _ in range(2)
        ])
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1))

    def forward(self, text):
        hidden = self.embedding(text) + self.position
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask)
        return functional.linear(self.norm(hidden), self.embedding.weight)


def read_text(options):
    """The training text, the held-out one, and the number of characters."""
    files = [options.text] if options.text else sorted(
        path for folder in ("common", "server", "worker") for path in (SOURCES / folder).rglob("*.cc"))
    random.Random(0).shuffle(files)
    text = "".join(path.read_text() for path in files)
    characters = sorted(set(text))
    numbers = {one: number for number, one in enumerate(characters)}
    whole = torch.tensor([numbers[one] for one in text])
    held_out = min(HELD_OUT, len(whole) // 10)
    return whole[:-held_out], whole[-held_out:], len(characters)


def loss_of(model, text, starts):
    parts = torch.stack([text[start:start + LENGTH + 1] for start in starts])
    return functional.cross_entropy(model(parts[:, :-1]).flatten(0, 1), parts[:, 1:].flatten())


def held_out_loss(model, text):
    model.eval()
    with torch.no_grad():
        starts = range(0, len(text) - LENGTH, LENGTH)
        losses = [loss_of(model, text, starts[first:first + 64]) for first in range(0, len(starts), 64)]
    return float(torch.stack(losses).mean())


class Bsp:
    """Each step exchanges."""

    def __init__(self, model, optimizer, options):
        import capstan.torch as ct

        self._ct = ct
        ct.attach(model, optimizer, optimizer_runs="here")
        self._optimizer = optimizer
        self.stall = 0.0

    def step(self, model, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self._optimizer.step()
        self._ct.step(loss)

    def finish(self):
        return self._ct.finish()


class Local:
    """Rounds of local steps on Capstan."""

    def __init__(self, model, optimizer, options):
        import capstan
        import capstan.torch as ct

        self._ct = ct
        by_time = options.round_seconds is not None
        self._local = ct.LocalSteps(model, optimizer,
                                    sync_every=None if by_time else options.sync_every,
                                    round_seconds=options.round_seconds,
                                    fragments=options.fragments,
                                    fragment_sync_delay=options.fragment_sync_delay,
                                    fragment_update_alpha=options.fragment_update_alpha,
                                    outer=capstan.SGD(options.outer_learning_rate,
                                                      momentum=options.outer_momentum,
                                                      nesterov=options.outer_momentum > 0))
        self._optimizer = optimizer

    @property
    def stall(self):
        return self._local.seconds_waiting

    @property
    def rounds(self):
        return self._local.rounds

    def step(self, model, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self._ct.step(loss)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def finish(self):
        return self._ct.finish()


class DiLoCo:
    """Rounds of local steps by an all-reduce of torch.distributed, without Capstan."""

    def __init__(self, model, optimizer, options):
        import torch.distributed

        torch.distributed.init_process_group("gloo")
        self._options = options
        self._optimizer = optimizer
        for one in model.parameters():
            torch.distributed.broadcast(one.data, 0)
        self._base = [one.detach().clone() for one in model.parameters()]
        self._outer = torch.optim.SGD(self._base, lr=options.outer_learning_rate,
                                      momentum=options.outer_momentum,
                                      nesterov=options.outer_momentum > 0)
        self._steps = 0
        self.stall = 0.0

    def step(self, model, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._steps += 1
        if self._steps % self._options.sync_every:
            return
        began = time.monotonic()
        with torch.no_grad():
            for base, one in zip(self._base, model.parameters()):
                base.grad = (base - one) / torch.distributed.get_world_size()
                torch.distributed.all_reduce(base.grad)
            self._outer.step()
            for base, one in zip(self._base, model.parameters()):
                one.copy_(base)
        self.stall += time.monotonic() - began

    def finish(self):
        is_evaluator = torch.distributed.get_rank() == 0
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        return is_evaluator


def run_worker(options):
    """Trains, and writes the figures of the worker that evaluates into options.figures."""
    torch.set_num_threads(1)
    training, held_out, characters = read_text(options)
    torch.manual_seed(options.seed)
    model = Transformer(characters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    steps = options.sync_every * options.rounds
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, 0.5 * (1 + math.cos(math.pi * step / steps))))
    trainer = {"bsp": Bsp, "local": Local, "diloco": DiLoCo}[options.role](model, optimizer, options)
    rank = int(os.environ["RANK"])
    generator = torch.Generator().manual_seed(1000 * options.seed + rank)
    began = time.monotonic()
    done = 0
    while done < steps if options.round_seconds is None else trainer.rounds < options.rounds:
        step_began = time.monotonic()
        starts = torch.randint(len(training) - LENGTH, (options.batch,), generator=generator)
        loss = loss_of(model, training, starts.tolist())
        if rank == 0 and options.slow > 1:
            time.sleep(3 * (options.slow - 1) * (time.monotonic() - step_began))  # backward is twice that
        trainer.step(model, loss)
        schedule.step()
        done += 1
    seconds = time.monotonic() - began
    is_evaluator = trainer.finish()
    figures = {"stall_s": trainer.stall, "round_s": seconds / options.rounds, "local_steps": done}
    if is_evaluator:
        figures["loss"] = held_out_loss(model, held_out)
        figures["parameters"] = sum(one.numel() for one in model.parameters())
    pathlib.Path(f"{options.figures}-{rank}").write_text(json.dumps(figures))
    if not is_evaluator:
        return
    if options.role != "diloco":
        trainer._ct.report(test_loss=figures["loss"])


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def measure(role, seed, options):
    """The figures of one training, with the bytes of its summary."""
    with tempfile.TemporaryDirectory() as folder:
        figures = pathlib.Path(folder) / "figures"
        worker = [sys.executable, __file__, f"--role={role}", f"--seed={seed}",
                  f"--figures={figures}"]
        for name in ("sync_every", "rounds", "batch", "fragments", "fragment_sync_delay",
                     "outer_learning_rate", "outer_momentum"):
            worker.append(f"--{name}={getattr(options, name)}")
        for name in ("fragment_update_alpha", "round_seconds", "slow", "text"):
            if (role == "local" or name == "text") and getattr(options, name) is not None:
                worker.append(f"--{name}={getattr(options, name)}")
        if role == "diloco":
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                     "WORLD_SIZE": str(options.workers), "GLOO_SOCKET_IFNAME": "lo"}
            commands = [(worker, {**os.environ, **place, "RANK": str(rank)})
                        for rank in range(options.workers)]
        else:
            codec = options.codec if role == "local" else "float32"
            command = [sys.executable, "-m", "capstan", "run", f"--num_workers={options.workers}",
                       "--num_servers=1", f"--run_dir={folder}/run", f"--push_codec={codec}",
                       f"--pull_codec={codec}", f"--worker_command={' '.join(worker)}"]
            commands = [(command, dict(os.environ))]
        started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True)
                   for command, environment in commands]
        said = [process.communicate()[0] for process in started]
        of_workers = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("figures-*")]
        if any(process.returncode for process in started) or len(of_workers) != options.workers:
            sys.exit(f"{role} failed: " + "\n".join(one[-3000:] for one in said))
        found = {name: max(one[name] for one in of_workers if name in one)
                 for name in ("loss", "parameters", "stall_s", "round_s")}
        summary = pathlib.Path(folder) / "run" / "summary.json"
        if summary.exists():
            read = json.loads(summary.read_text())
            found["bytes"] = read["bytes_pushed"] + read["bytes_pulled"]
        return found


def mean(runs, name):
    return statistics.mean(run[name] for run in runs)


def compare(options):
    roles = ["bsp", "local"] + (["diloco"] if options.peer else [])
    runs = {role: [] for role in roles}
    for seed in range(1, options.seeds + 1):
        for role in roles:
            runs[role].append(measure(role, seed, options))
    local, bsp = runs["local"], runs["bsp"]
    figures = {
        "workers": options.workers, "sync_every": options.sync_every, "rounds": options.rounds,
        "codec": options.codec, "fragments": options.fragments,
        "fragment_sync_delay": options.fragment_sync_delay, "parameters": local[0]["parameters"],
        "loss": mean(local, "loss"), "bsp_loss": mean(bsp, "loss"),
        "loss_ratio": mean(local, "loss") / mean(bsp, "loss"),
        "bytes_ratio": mean(bsp, "bytes") / mean(local, "bytes"),
        "stall_s": mean(local, "stall_s"), "round_s": mean(local, "round_s"),
        "stall_share": mean(local, "stall_s") / options.rounds / mean(local, "round_s"),
    }
    if options.peer:
        figures["diloco_loss"] = mean(runs["diloco"], "loss")
        figures["diloco_round_s"] = mean(runs["diloco"], "round_s")
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:20} {value:.4g}" if isinstance(value, float) else f"{name:20} {value}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4, help="4")
    parser.add_argument("--sync_every", type=int, default=50,
                        help="local steps of a round, or the next number that --fragments divide; 50")
    parser.add_argument("--rounds", type=int, default=80, help="80")
    parser.add_argument("--codec", default="int8", help="of pushes and pulls of local steps; int8")
    parser.add_argument("--fragments", type=int, default=1, help="1")
    parser.add_argument("--fragment_sync_delay", type=int, default=0, help="0")
    parser.add_argument("--fragment_update_alpha", type=float, help="as of ct.LocalSteps; none")
    parser.add_argument("--outer_learning_rate", type=float, default=0.7, help="0.7")
    parser.add_argument("--outer_momentum", type=float, default=0.9, help="Nesterov's; 0.9")
    parser.add_argument("--round_seconds", type=float, help="rounds by time, of local steps; none")
    parser.add_argument("--slow", type=float, default=1,
                        help="worker 0's step takes about so many times as long, with local steps; 1")
    parser.add_argument("--batch", type=int, default=8, help="samples of a worker's step; 8")
    parser.add_argument("--text", type=pathlib.Path, help="another text; the C++ sources")
    parser.add_argument("--seeds", type=int, default=2, help="2")
    parser.add_argument("--peer", action="store_true", help="a plain DiLoCo over Gloo, too")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", choices=["bsp", "local", "diloco"], help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--figures", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.sync_every = -(-options.sync_every // options.fragments) * options.fragments
    return options


def main():
    options = parse()
    if options.role:
        run_worker(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
