#!/usr/bin/env python3
"""Measures a training step of PyTorch on Capstan beside DistributedDataParallel (DDP) with Gloo.

The model is an MLP of 25 million parameters with SGD and momentum, on 2 workers with a server
beside each. All are measured in turn, --rounds times. A figure is the median over rounds of the
slower worker's median step. Prints a table, and with --json a line for each figure. The Python that
runs this needs torch and Capstan's package.

Without --gbit all processes share this machine's loopback and memory. With --gbit (as root) each
worker and its server are a network namespace, whose link has this rate in each direction. Its time
for the gradients is communication: their bytes as float32 / the rate. --ratio is communication /
compute, and sets the number of samples in a step. Compute is the time of both workers' forward and
backward at once, without communication. The bound is what no schedule can beat: max(compute,
communication).

With --wait layers do not compute, but wait for as long: what a worker's CPU does while a GPU
computes. So compute does not compete with communication for this machine's cores.

--layer_cost measures what the Python layer itself takes for each parameter and step, in CPU time: a
step of many small layers, with a library that does nothing, less the same step without Capstan. The
two take turns, and the figure is the median of their differences.
"""

import argparse
import ctypes
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

WARM_UP = 3
SHAPED_CLUSTER = pathlib.Path(__file__).resolve().parents[1] / "schedule" / "shaped_cluster.sh"
HOSTS = ("worker0", "worker1")

# From names to how a step is made: the system, and its flags or its hook.
CONTENDERS = {
    "alone": ("alone", ""),
    "ddp": ("ddp", ""),
    "ddp_bf16": ("ddp", "bf16"),
    "capstan_grpc": ("capstan", "--transport=grpc"),
    "capstan_ucx": ("capstan", "--transport=ucx"),
    "capstan_grpc_int8_bfloat16":
        ("capstan", "--transport=grpc --push_codec=int8 --pull_codec=bfloat16"),
}
UNSHAPED = ("ddp", "capstan_grpc", "capstan_ucx")
SHAPED = ["ddp", "ddp_bf16", "capstan_grpc", "capstan_grpc_int8_bfloat16"]
if int(torch.__version__.split(".")[0]) < 2:
    SHAPED.remove("ddp_bf16")  # the hook needed NCCL then


class Wait(torch.autograd.Function):
    """Waits in forward, and twice as long in backward. Its gradients are constants."""

    @staticmethod
    def forward(context, x, weight, bias, seconds):
        context.save_for_backward(x, weight, bias)
        context.seconds = seconds
        time.sleep(seconds)
        return x + bias

    @staticmethod
    def backward(context, gradient):
        time.sleep(2 * context.seconds)
        return *(torch.full_like(one, 1e-3) for one in context.saved_tensors), None


class WaitingLayer(nn.Module):
    """A linear layer as Wait sees it."""

    def __init__(self, width, seconds):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, width))
        self.bias = nn.Parameter(torch.zeros(width))
        self._seconds = seconds

    def forward(self, x):
        return Wait.apply(x, self.weight, self.bias, self._seconds)


def make_model(options):
    layers = []
    for _ in range(options.layers):
        if options.wait_seconds:
            layers.append(WaitingLayer(options.width, options.wait_seconds / 3 / options.layers))
        else:
            layers += [nn.Linear(options.width, options.width), nn.ReLU()]
    return nn.Sequential(*layers)


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)


class Ddp:
    """A step with DDP."""

    def __init__(self, model, options):
        import torch.distributed
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        torch.distributed.init_process_group("gloo")
        self.model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        if options.contender == "ddp_bf16":
            self.model.register_comm_hook(None, bf16_compress_hook)
        self._optimizer = make_optimizer(model)

    def step(self):
        self._optimizer.step()
        self._optimizer.zero_grad()

    def finish(self):
        torch.distributed.destroy_process_group()


class Capstan:
    """A step with capstan.torch."""

    def __init__(self, model, options):
        import capstan.torch

        self._capstan = capstan.torch
        self.model = capstan.torch.attach(model, make_optimizer(model))

    def step(self):
        self._capstan.step()

    def finish(self):
        if self._capstan.finish():
            self._capstan.report()


class Alone:
    """A step without communication, and without an optimizer."""

    def __init__(self, model, options):
        self.model = model
        self._optimizer = make_optimizer(model)

    def step(self):
        self._optimizer.zero_grad()

    def finish(self):
        pass


def time_step(trainer, x, clock):
    """The seconds of a step."""
    began = clock()
    trainer.model(x).square().mean().backward()
    trainer.step()
    if x.is_cuda:
        torch.cuda.synchronize()
    return clock() - began


def run_worker(options):
    """One worker's part of a measurement; prints its median step."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    kind = {"alone": Alone, "ddp": Ddp, "capstan": Capstan}[CONTENDERS[options.contender][0]]
    trainer = kind(make_model(options).to(options.device), options)
    x = torch.randn(options.samples, options.width, device=options.device)
    steps = [time_step(trainer, x, time.perf_counter) for _ in range(WARM_UP + options.steps)]
    print(statistics.median(steps[WARM_UP:]), flush=True)
    trainer.finish()


class Machines:
    """Where workers and servers run: here, or in network namespaces with links of `gbit`."""

    def __init__(self, gbit):
        self._name = f"capstan-torch-{os.getpid()}"
        self.addresses = ["10.77.0.10", "10.77.0.11"] if gbit else ["127.0.0.1"] * 2
        self.coordinator = "10.77.0.1" if gbit else "127.0.0.1"
        self._is_shaped = bool(gbit)
        if gbit:
            self._call("cluster_require")
            # If it fails, what it has made is removed.
            self._call(f"trap cluster_remove EXIT; cluster_create {gbit}; trap - EXIT")

    def _call(self, command):
        """Ends the program if this fails, which has printed why."""
        script = f"source {SHAPED_CLUSTER}; cluster_name={self._name}; {command}"
        ended = subprocess.run(["bash", "-euo", "pipefail", "-c", script, "torch_step"])
        if ended.returncode:
            sys.exit(ended.returncode)

    def prefix(self, host):
        """What a command on the host begins with."""
        return ["ip", "netns", "exec", f"{self._name}-{host}"] if self._is_shaped else []

    def interface(self):
        return "eth0" if self._is_shaped else "lo"

    def remove(self):
        if self._is_shaped:
            self._call("cluster_remove")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Processes:
    """Started programs. The end of the block kills what is left."""

    def __init__(self, folder):
        self._folder = folder
        self._all = []

    def start(self, command, **options):
        log = open(self._folder / f"{len(self._all)}.log", "wb")
        self._all.append(subprocess.Popen(command, stderr=log, **{"stdout": log, **options}))
        return self._all[-1]

    def logs(self):
        return "".join(log.read_text(errors="replace")[-500:]
                       for log in sorted(self._folder.glob("*.log")))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self._all:
            process.kill()
            process.wait()


def start_capstan(processes, machines, flags):
    """A coordinator, and a server beside each worker. Returns the workers' environment."""
    import capstan

    programs = pathlib.Path(capstan.__file__).parent / "bin"
    address = f"{machines.coordinator}:{free_port()}"
    processes.start([*machines.prefix("switch"), programs / "capstan_coordinator", "--insecure",
                     "--model=program", f"--listen={address}", "--num_workers=2",
                     "--num_servers=2", *flags.split()])
    for host, ip in zip(HOSTS, machines.addresses):
        processes.start([*machines.prefix(host), programs / "capstan_server", "--insecure",
                         f"--coordinator={address}", f"--listen={ip}:0"])
    return {"CAPSTAN_COORDINATOR": address}


def measure_contender(contender, samples, machines, options):
    """The slower worker's median step, in seconds."""
    with tempfile.TemporaryDirectory() as folder, Processes(pathlib.Path(folder)) as processes:
        system, flags = CONTENDERS[contender]
        environment = {"MASTER_ADDR": machines.addresses[0], "MASTER_PORT": str(free_port()),
                       "GLOO_SOCKET_IFNAME": machines.interface(), "WORLD_SIZE": "2"}
        if system == "capstan":
            environment = start_capstan(processes, machines, flags)
        workers = [
            processes.start(
                [*machines.prefix(host), sys.executable, __file__, f"--contender={contender}",
                 f"--samples={samples}", f"--steps={options.steps}", f"--width={options.width}",
                 f"--layers={options.layers}", f"--device={options.device}",
                 f"--wait_seconds={options.wait_seconds}"],
                env={**os.environ, **environment, "RANK": str(rank)}, stdout=subprocess.PIPE,
                text=True) for rank, host in enumerate(HOSTS)]
        printed = [worker.communicate()[0] for worker in workers]
        if any(worker.returncode for worker in workers):
            sys.exit(f"{contender} failed: {processes.logs()}")
        return max(float(text) for text in printed)


def samples_for(seconds, machines, options):
    """The number of samples whose forward and backward take so long in both workers at once."""
    samples = 32
    for _ in range(3):
        taken = measure_contender("alone", samples, machines, options)
        samples = max(1, round(samples * seconds / taken))
    return samples


def compare(contenders, samples, machines, options):
    """From contenders to their steps, in seconds."""
    rounds = {contender: [] for contender in contenders}
    for _ in range(options.rounds):
        for contender in contenders:
            rounds[contender].append(measure_contender(contender, samples, machines, options))
    return {contender: statistics.median(steps) for contender, steps in rounds.items()}


def show(title, steps, bound, options):
    """Prints a table; `bound` is None without links."""
    print(title)
    for contender, seconds in steps.items():
        print(f"  {contender:28} {1000 * seconds:8.1f} ms, {steps['ddp'] / seconds:5.2f} times "
              "faster than ddp" + (f", {seconds / bound:5.2f} times the bound" if bound else ""))
        if options.json:
            print(json.dumps({"title": title, "contender": contender, "step_s": seconds,
                              "ddp_ratio": steps["ddp"] / seconds, "bound_s": bound}))


def compare_all(options):
    machines = Machines(options.gbit)
    try:
        if not options.gbit:
            samples = options.samples
            show(f"no links, {samples} samples", compare(UNSHAPED, samples, machines, options),
                 None, options)
        for ratio in options.ratio if options.gbit else ():
            parameters = options.layers * options.width * (options.width + 1)
            communication = 4 * parameters * 8 / (options.gbit * 1e9)
            compute = communication / ratio
            if options.wait:
                samples, title = 1, "layers wait"
                options.wait_seconds = compute
            else:
                samples = samples_for(compute, machines, options)
                title = f"{samples} samples"
            show(f"{options.gbit} Gbit/s, communication / compute {ratio}, {title}",
                 compare(SHAPED, samples, machines, options), max(compute, communication), options)
    finally:
        machines.remove()


def silent_library(folder):
    """A library with the functions of capstan.h that does nothing."""
    from capstan import _library

    source, built = folder / "silent.c", folder / "silent.so"
    source.write_text("".join(f"long {name}(void) {{ return 0; }}\n"
                              for name in _library.FUNCTIONS))
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, source], check=True)
    library = ctypes.CDLL(str(built))
    _library.declare(library)
    return library


def print_layer_cost(options):
    """Microseconds of the Python layer for each parameter and step. Its job has one worker."""
    import capstan
    import capstan.torch

    torch.set_num_threads(1)
    options.width, options.layers = 4, 200
    plain = make_model(options)
    attached = make_model(options)
    with tempfile.TemporaryDirectory() as name, Processes(pathlib.Path(name)) as processes:
        address = f"127.0.0.1:{free_port()}"
        programs = pathlib.Path(capstan.__file__).parent / "bin"
        processes.start([programs / "capstan_coordinator", "--model=program", "--num_workers=1",
                         f"--listen={address}", "--num_servers=1"])
        processes.start([programs / "capstan_server", f"--coordinator={address}",
                         "--listen=127.0.0.1:0"])
        job = capstan.connect(address, rank=0)
        trainer = capstan.torch.Trainer(attached, make_optimizer(attached), job)
        library, job._open.library = job._open.library, silent_library(pathlib.Path(name))
        trainer.model = attached
        alone = Alone(plain, options)
        x = torch.randn(1, options.width)
        differences = [time_step(trainer, x, time.thread_time)
                       - time_step(alone, x, time.thread_time)
                       for _ in range(WARM_UP + 10 * options.steps)]
        seconds = statistics.median(differences[WARM_UP:])
        parameters = len(list(attached.parameters()))
        print(f"{1e6 * seconds / parameters:.1f} us for each parameter and step")
        job._open.library = library
        job.fail("all is measured")
        job.close()


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbit", type=float, default=0, help="rate of the links; 0: no links")
    parser.add_argument("--ratio", type=lambda text: [float(one) for one in text.split(",")],
                        help="with --gbit; 1,4")
    parser.add_argument("--wait", action="store_true",
                        help="with --gbit: layers wait for as long as they would compute")
    parser.add_argument("--samples", type=int, default=32, help="without --gbit; 32")
    parser.add_argument("--rounds", type=int, default=5, help="5")
    parser.add_argument("--steps", type=int, default=15,
                        help="counted ones of a round, and 10 times as many with --layer_cost; 15")
    parser.add_argument("--width", type=int, default=2041, help="of each layer; 2041")
    parser.add_argument("--layers", type=int, default=6, help="6")
    parser.add_argument("--device", default="cpu", help="of the models: cpu, cuda or cuda:N; cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--layer_cost", action="store_true")
    parser.add_argument("--contender", choices=CONTENDERS, help="for the worker processes")
    parser.add_argument("--wait_seconds", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for flag in ("wait", "ratio"):
        if getattr(options, flag) and not options.gbit:
            parser.error(f"--{flag}: expected --gbit, too")
    options.ratio = options.ratio or [1.0, 4.0]
    if options.gbit and os.geteuid() != 0:
        parser.error("--gbit: expected to be root, who alone may make network namespaces")
    return options


def main():
    options = parse()
    if options.contender:
        run_worker(options)
    elif options.layer_cost:
        print_layer_cost(options)
    else:
        compare_all(options)


if __name__ == "__main__":
    main()
