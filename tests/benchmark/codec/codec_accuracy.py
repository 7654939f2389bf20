#!/usr/bin/env python3
"""Trains with and without codecs, and compares the test accuracy.

Trains handwritten digits, and a network of 2.1 million parameters that learns from a synthetic
teacher, once for each seed and each setting of codecs. Prints a line of means for each, in percent,
and their distance from float32 in points. A setting passes if it is at most --bound points below
float32; the exit status tells.

float32 is always measured, with the same learning rate and the same steps. The optimizer is
momentum. With dgc the workers compute the momentum, and the servers' optimizer is sgd.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

# The names that --codecs takes: the name in the output, and the flags of `capstan run`.
CODECS = {
    "float32": ("float32", []),
    "int8_bfloat16": ("int8 pushes, bfloat16 pulls",
                      ["--push_codec=int8", "--pull_codec=bfloat16"]),
    "topk_pushes": ("topk:0.01 pushes", ["--push_codec=topk:0.01"]),
    "int8": ("int8 both ways", ["--push_codec=int8", "--pull_codec=int8"]),
    "topk": ("topk:0.01 both ways", ["--push_codec=topk:0.01", "--pull_codec=topk:0.01"]),
    "dgc": ("dgc, topk:0.001 both ways",
            ["--push_codec=topk:0.001", "--pull_codec=topk:0.001", "--dgc", "--optimizer=sgd"]),
}

# The teacher: 8 features and 2 classes, a network of 8-1024-2000-2, so 2,063,218 parameters.
JOBS = {
    "digits": ["--field=codec.min_bytes=0"],
    "teacher": [
        "--data_format=synthetic", "--field=data.synthetic.samples=50000",
        "--field=data.synthetic.features=8", "--field=data.synthetic.teacher_hidden=8",
        "--field=data.synthetic.classes=2", "--hidden=1024,2000", "--batch_size=32",
        "--learning_rate=0.01",
    ],
}


def accuracy(program, job, flags, seed):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        command = [program, "run", f"--seed={seed}", f"--run_dir={run}", *job, *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed: {done.stderr}")
        return json.loads((run / "summary.json").read_text())["test_accuracy"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="bazel-bin/deploy/cli/capstan")
    parser.add_argument("--jobs", default=",".join(JOBS), help="of " + ", ".join(JOBS))
    parser.add_argument("--codecs", default=",".join(CODECS), help="of " + ", ".join(CODECS))
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1 ... SEEDS")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--digits_epochs", type=int, default=20)
    parser.add_argument("--teacher_steps", type=int, default=2000)
    parser.add_argument("--job_flags", default="",
                        help="more flags of all jobs, as in --job_flags=--batch_size=16")
    parser.add_argument("--bound", type=float, default=0.5, help="in percent points")
    options = parser.parse_args()
    codecs = ["float32"] + [name for name in options.codecs.split(",") if name != "float32"]
    jobs = options.jobs.split(",")
    for flag, names, known in ("--jobs", jobs, JOBS), ("--codecs", codecs, CODECS):
        for name in names:
            if name not in known:
                parser.error(f"{flag}: expected some of {', '.join(known)}, got '{name}'")

    has_passed = True
    for name in jobs:
        length = {"digits": f"--epochs={options.digits_epochs}",
                  "teacher": f"--steps={options.teacher_steps}"}
        job = JOBS[name] + [length[name], f"--num_workers={options.workers}",
                            "--optimizer=momentum", *options.job_flags.split()]
        means = {}
        for codec in codecs:
            text, flags = CODECS[codec]
            # float32 has no use for the smallest encoded table.
            of_job = [flag for flag in job if flags or not flag.startswith("--field=codec.min_bytes")]
            values = [100 * accuracy(options.program, of_job, flags, seed)
                      for seed in range(1, options.seeds + 1)]
            means[codec] = statistics.mean(values)
            distance = means[codec] - means["float32"]
            has_passed = has_passed and distance >= -options.bound
            print(f"{name}, {text}: {means[codec]:.2f} % ({distance:+.2f}), seeds "
                  + " ".join(f"{value:.2f}" for value in values), flush=True)
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
