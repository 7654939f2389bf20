#!/usr/bin/env python3
"""Times the training step of gpu_step_benchmark in PyTorch.

The same network, batch and arithmetic: forward, softmax cross-entropy and backward, no optimizer,
because the servers apply it. Prints one line of JSON. For each kind of arithmetic it has the median
time of a step in milliseconds, after warm-up, and the loss: equal losses mean the same work.

  float32            all in float32
  tf32               float32, matrix products may round their inputs to TF32
  bfloat16           float32 parameters; inputs of matrix products are cast to bfloat16, sums are
                     float32; so are results, if this PyTorch can ("bfloat16_results")
  bfloat16_autocast  by torch.autocast: results of matrix products are bfloat16
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch.nn import functional


def can_mix_types(device):
    """Whether torch.mm multiplies bfloat16 to float32 on the device."""
    one = torch.ones(16, 16, device=device, dtype=torch.bfloat16)
    try:
        torch.mm(one, one, out_dtype=torch.float32)
        return True
    except (RuntimeError, TypeError):
        return False


class Bfloat16Linear(torch.autograd.Function):
    """x W^T + b and its gradients, with products of bfloat16 values."""

    mixes_types = False

    @staticmethod
    def product(a, b):
        if Bfloat16Linear.mixes_types:
            return torch.mm(a, b, out_dtype=torch.float32)
        return torch.mm(a, b).float()

    @staticmethod
    def forward(ctx, inputs, weight, bias):
        inputs, weight = inputs.bfloat16(), weight.bfloat16()
        ctx.save_for_backward(inputs, weight)
        return Bfloat16Linear.product(inputs, weight.t()) + bias

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        rounded = gradient.bfloat16()
        input_gradient = None
        if ctx.needs_input_grad[0]:
            input_gradient = Bfloat16Linear.product(rounded, weight)
        return input_gradient, Bfloat16Linear.product(rounded.t(), inputs), gradient.sum(0)


def loss_of(layers, inputs, labels, linear):
    """Mean softmax cross-entropy of the network; ReLU after each layer but the last."""
    values = inputs
    for index, layer in enumerate(layers):
        values = linear(values, layer.weight, layer.bias)
        if index + 1 < len(layers):
            values = torch.relu(values)
    return functional.cross_entropy(values.float(), labels)


def median_milliseconds(step, device, repeats):
    """Time of one call of `step` on the device, after warm-up."""
    times = []
    for repeat in range(5 + repeats):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            step()
            end.record()
            end.synchronize()
            milliseconds = begin.elapsed_time(end)
        else:
            start = time.perf_counter()
            step()
            milliseconds = 1e3 * (time.perf_counter() - start)
        if repeat >= 5:
            times.append(milliseconds)
    return statistics.median(times)


def measure(arithmetic, layers, inputs, labels, repeats):
    """Median time of a step in milliseconds, and its loss."""
    torch.set_float32_matmul_precision("high" if arithmetic == "tf32" else "highest")
    linear = Bfloat16Linear.apply if arithmetic == "bfloat16" else functional.linear
    is_autocast = arithmetic == "bfloat16_autocast"
    loss = None

    def step():
        nonlocal loss
        layers.zero_grad(set_to_none=True)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=is_autocast):
            loss = loss_of(layers, inputs, labels, linear)
        loss.backward()

    milliseconds = median_milliseconds(step, inputs.device, repeats)
    return milliseconds, loss.item()


def flop_count(widths, samples):
    """Of the matrix products: forward, weight gradients, and input gradients but the first."""
    sizes = [a * b for a, b in zip(widths, widths[1:])]
    return 2 * samples * (3 * sum(sizes) - sizes[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--widths", default="4096,8192,8192,4096", help="from input to output")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=21)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_step: PyTorch finds no GPU; --device=cpu runs without one")

    torch.manual_seed(1)
    device = torch.device(args.device)
    widths = [int(width) for width in args.widths.split(",")]
    layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
    layers.to(device)
    inputs = torch.randn(args.samples, widths[0], device=device)
    labels = torch.randint(widths[-1], (args.samples,), device=device)
    Bfloat16Linear.mixes_types = can_mix_types(device)

    result = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "widths": widths,
        "samples": args.samples,
        "bfloat16_results": "float32" if Bfloat16Linear.mixes_types else "bfloat16",
        "milliseconds": {},
        "tflops": {},
        "loss": {},
    }
    for arithmetic in ("float32", "tf32", "bfloat16", "bfloat16_autocast"):
        milliseconds, loss = measure(arithmetic, layers, inputs, labels, args.repeats)
        result["milliseconds"][arithmetic] = round(milliseconds, 3)
        result["tflops"][arithmetic] = round(
            flop_count(widths, args.samples) / milliseconds / 1e9, 1)
        result["loss"][arithmetic] = round(loss, 4)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
