#!/usr/bin/env python3
"""Compares what ptxas says that kernels use with the budgets beside the kernels.

Usage: resource_usage.py FILE...

Each FILE.cu.cc has kernels, and each FILE.usage is the output of nvcc -Xptxas -v for one. The
comment before a kernel ends with its budget, for all its instances on all GPUs:

    // At most 48 registers and 7168 bytes of shared memory.

Fails if an instance uses more, spills registers, has a stack frame, or if a kernel has no budget.
Prints a line for each kernel: the most that it uses, and on how many registers its budget is.
"""

import collections
import os
import re
import sys

Usage = collections.namedtuple("Usage", "kernel gpu registers shared stack spilled")

KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\(.*\)\s+)?(\w+)\(")
BUDGET = re.compile(r"At most (\d+) registers(?: and (\d+) bytes of shared memory)?\.")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def budgets_of(source):
    """(registers, bytes of shared memory) by kernel; None without a budget."""
    budgets = {}
    end = 0
    for kernel in KERNEL.finditer(source):
        before = source[end:kernel.start()].replace("\n// ", " ")
        stated = BUDGET.findall(before)
        budgets[kernel.group(1)] = (
            (int(stated[-1][0]), int(stated[-1][1] or 0)) if stated else None)
        end = kernel.end()
    return budgets


def usages_of(output):
    """What ptxas says of each kernel and GPU."""
    usages = []
    entry = stack = None
    for line in output.splitlines():
        if found := ENTRY.search(line):
            entry, stack = found.groups(), None
        elif found := STACK.search(line):
            stack = [int(number) for number in found.groups()]
        elif (found := USED.search(line)) and entry:
            shared = re.search(r"(\d+) bytes smem", line)
            usages.append(Usage(entry[0], entry[1], int(found.group(1)),
                                int(shared.group(1)) if shared else 0, stack[0],
                                stack[1] + stack[2]))
            entry = None
    return usages


def check(name, budget, usages):
    """The errors of one kernel. Prints its line."""
    if budget is None:
        return [f"{name}: expected a budget in the comment before it"]
    if not usages:
        return [f"{name}: expected what ptxas says of it, got nothing"]
    registers = max(usage.registers for usage in usages)
    shared = max(usage.shared for usage in usages)
    print(f"{name:50} {registers:4} of {budget[0]:4} registers, {shared:6} of {budget[1]:6} bytes")
    return [
        f"{name} for {usage.gpu}: expected at most {budget[0]} registers and {budget[1]} bytes of "
        f"shared memory, no stack and no spills, got {usage.registers}, {usage.shared}, "
        f"{usage.stack} and {usage.spilled}: {usage.kernel}"
        for usage in usages
        if (usage.registers > budget[0] or usage.shared > budget[1] or usage.stack or usage.spilled)
    ]


def main(paths):
    budgets, usages = {}, []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            if path.endswith(".usage"):
                usages += usages_of(file.read())
            else:
                budgets[os.path.basename(path)] = budgets_of(file.read())
    errors = []
    for file, of_file in sorted(budgets.items()):
        # The unnamed namespace has the file's name in it, and the parts of a mangled name have their
        # lengths before them.
        own_file = "_" + file.replace(".", "_") + "_"
        own = [usage for usage in usages if own_file in usage.kernel]
        for name, budget in of_file.items():
            of_kernel = [usage for usage in own if f"{len(name)}{name}" in usage.kernel]
            errors += check(f"{file}: {name}", budget, of_kernel)
    if not budgets or not usages:
        errors.append(__doc__)
    sys.exit("\n".join(errors) or 0)


if __name__ == "__main__":
    main(sys.argv[1:])
