#!/usr/bin/env python3
"""Compares the figures of the GPU suite's benchmarks with the required ones.

Usage: figures.py kernels KERNEL_LOG
       figures.py step STEP_LOG [TORCH_LOG]   without TORCH_LOG, nothing is compared
       figures.py hidden STEP_LOG

The last JSON object of each log counts; it has a line of its own. Prints a line for each figure:
result (ok, FAILED or "not run"), name, detail; with tabs between.
"""

import json
import sys

MOST_OF_PYTORCH = 1.10  # of the time of the same step in PyTorch
PRECISIONS = ("float32", "tf32", "bfloat16")


def last_object(path):
    """The last line of a log with a JSON object."""
    with open(path, encoding="utf-8", errors="replace") as log:
        objects = [line for line in log if line.startswith("{")]
    if not objects:
        raise ValueError(f"expected a line of JSON in {path}, got none")
    return json.loads(objects[-1])


def print_row(is_enough, what, detail):
    print("ok" if is_enough else "FAILED", what, detail, sep="\t")


def print_kernels(report):
    if report["emulated"]:
        raise ValueError("expected figures of a GPU, got those of the emulator")
    for kernel in report["kernels"]:
        # NaN is not enough.
        is_enough = kernel["share"] >= kernel["required_share"]
        detail = (f"{100 * kernel['share']:.1f} % of the copy's bandwidth, required "
                  f"{100 * kernel['required_share']:.0f} %; {kernel['milliseconds']:.4f} ms")
        print_row(is_enough, f"{kernel['name']}, {kernel['size']}", detail)


def print_step(ours, torch):
    for precision in PRECISIONS:
        what = f"step in {precision}"
        if f"{precision}_ms" not in ours:
            print("not run", what, "this GPU has no such products", sep="\t")
            continue
        milliseconds = ours[f"{precision}_ms"]
        if torch is None:
            print("not run", what, f"{milliseconds:.3f} ms, and no PyTorch to compare with", sep="\t")
            continue
        theirs = torch["milliseconds"][precision]
        ratio = milliseconds / theirs
        detail = (f"{milliseconds:.3f} ms, PyTorch {theirs:.3f} ms: ratio {ratio:.3f}, required at "
                  f"most {MOST_OF_PYTORCH:.2f}")
        print_row(ratio <= MOST_OF_PYTORCH, what, detail)


def print_hidden(step):
    detail = (f"{100 * step['hidden_share']:.1f} % of {step['exchange_ms']:.3f} ms; step "
              f"{step['training_ms']:.3f} ms, computation {step['float32_ms']:.3f} ms")
    print_row(True, "communication hidden", detail)


def main():
    kind, logs = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    counts = {"kernels": (1,), "step": (1, 2), "hidden": (1,)}
    if len(logs) not in counts.get(kind, ()):
        sys.exit(__doc__)
    try:
        objects = [last_object(log) for log in logs]
        if kind == "kernels":
            print_kernels(objects[0])
        elif kind == "step":
            print_step(objects[0], objects[1] if len(objects) > 1 else None)
        else:
            print_hidden(objects[0])
    except KeyError as missing:
        sys.exit(f"figures.py: expected {missing} in the JSON of {', '.join(logs)}")
    except (ArithmeticError, OSError, ValueError) as error:
        sys.exit(f"figures.py: {error}")


if __name__ == "__main__":
    main()
