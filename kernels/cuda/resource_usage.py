#!/usr/bin/env python3
"""Compares what ptxas says that kernels use with the budgets beside the kernels.

Usage: resource_usage.py FILE...

Each FILE.cu.cc has kernels, and each FILE.usage is the output of nvcc -Xptxas -v for one. The
comment before a kernel ends with its budget, for all its instances on all GPUs:

    // At most 48 registers and 7168 bytes of shared memory.

Fails if an instance uses more, spills registers, has a stack frame, or if a kernel has no budget.
Prints a line for each kernel: the most that it uses, and on how many registers its budget is.

Usage: resource_usage.py FILE.usage... FILE.sass

FILE.sass is the output of cuobjdump -sass for one GPU. Nothing is compared. Prints a line for each
instance of a kernel: registers, bytes of shared memory, bytes spilled, instructions, and how many
of them each loop has, from the first loop to the last. A loop counts for the loops around it, too.
"""

import collections
import os
import re
import subprocess
import sys

Usage = collections.namedtuple("Usage", "kernel gpu registers shared stack spilled")

KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\(.*\)\s+)?(\w+)\(")
BUDGET = re.compile(r"At most (\d+) registers(?: and (\d+) bytes of shared memory)?\.")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
TARGET = re.compile(r"\.target\s+(\w+)")
FUNCTION = re.compile(r"Function : (\w+)")
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(.+?)\s*;")
BRANCH = re.compile(r"\bBRA\b.* 0x([0-9a-f]+)")
INSTRUCTION_BYTES = 16
# The unnamed namespace of a file, as a mangled name has it.
UNNAMED = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\d+_(\w+)_cu_cc_")
PARAMETERS_AND_SCOPES = re.compile(
    r"^void |\(anonymous namespace\)::|\((?:\w+::)*\w+\)(?=\d)|\w+::|\(.*")


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


def code_of(output):
    """The GPU, and {kernel: {address: instruction}} without what only fills up the code."""
    gpu = TARGET.search(output).group(1)
    kernels = {}
    for line in output.splitlines():
        if found := FUNCTION.search(line):
            code = kernels[found.group(1)] = {}
        elif (found := INSTRUCTION.match(line)) and found.group(2) != "NOP":
            code[int(found.group(1), 16)] = found.group(2)
    return gpu, kernels


def loops_of(code):
    """Instructions in each loop. What is behind the kernel's end are rare parts of it."""
    ends = {}
    for address, instruction in code.items():
        if instruction == "EXIT":
            break
        found = BRANCH.search(instruction)
        if found and int(found.group(1), 16) < address:
            ends[int(found.group(1), 16)] = address
    return [(end - begin) // INSTRUCTION_BYTES + 1 for begin, end in sorted(ends.items())]


def print_table(usages, gpu, kernels):
    names = subprocess.run(["c++filt", *kernels], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    used = {usage.kernel: usage for usage in usages if usage.gpu == gpu}
    rows = []
    for name, (kernel, code) in zip(names, kernels.items()):
        file = UNNAMED.search(kernel).group(1)
        short = re.sub(PARAMETERS_AND_SCOPES, "", name)
        usage = used[kernel]
        rows.append(f"{file + ': ' + short:64} {usage.registers:4} {usage.shared:6} {usage.spilled:4} "
                    f"{len(code):6}  {' '.join(map(str, loops_of(code)))}")
    print(f"{gpu:64} regs shared spill instrs  loops", *sorted(rows), sep="\n")


def main(paths):
    budgets, usages, code = {}, [], None
    for path in paths:
        with open(path, encoding="utf-8") as file:
            if path.endswith(".sass"):
                code = code_of(file.read())
            elif path.endswith(".usage"):
                usages += usages_of(file.read())
            else:
                budgets[os.path.basename(path)] = budgets_of(file.read())
    if code is not None:
        print_table(usages, *code)
        return
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
