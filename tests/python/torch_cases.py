"""Cases of torch_test.py. Each runs in both workers of a job, with `job` not started yet, and fails
by an exception. `rank` is the worker's."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import io
import threading
import warnings
from typing import Callable
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_models import (BATCH, DEVICE, STEPS, TOLERANCE, WORKERS, Mlp, Zoo, expect_equal,
                          joined_batch, part_of, seeded)

# What a torch 1.13 on the CPU lacks is not tried there.
HAS_SCALER = hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler")


def _groups(model: nn.Module) -> list[dict[str, object]]:
    """Biases without weight decay and with twice the learning rate."""
    biases = [one for name, one in model.named_parameters() if name.endswith("bias")]
    others = [one for name, one in model.named_parameters() if not name.endswith("bias")]
    return [{"params": others}, {"params": biases, "weight_decay": 0.0, "lr": 0.02}]


# Some gradients of attention are 0, except for rounding. A large eps keeps Adam from scaling them.
OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01),
    "momentum": lambda model: torch.optim.SGD(_groups(model), lr=0.05, momentum=0.9,
                                              weight_decay=0.01),
    "nesterov": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9,
                                              nesterov=True, weight_decay=0.01),
    "adagrad": lambda model: torch.optim.Adagrad(_groups(model), lr=0.05, eps=1e-3),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3, betas=(0.8, 0.9),
                                           weight_decay=0.1),
    "adamw": lambda model: torch.optim.AdamW(_groups(model), lr=0.01, eps=1e-3, weight_decay=0.1),
    "damped, up": lambda model: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9,
                                                dampening=0.3, weight_decay=0.01, maximize=True),
    "amsgrad": lambda model: torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3,
                                              betas=(0.8, 0.9), weight_decay=0.1, amsgrad=True),
    "amsgradw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3,
                                                betas=(0.8, 0.9), amsgrad=True, maximize=True),
    "rmsprop": lambda model: torch.optim.RMSprop(_groups(model), lr=0.01, eps=1e-3,
                                                 weight_decay=0.1),
    "centered": lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, alpha=0.9, eps=1e-2,
                                                  momentum=0.8, centered=True),
    # Not with attention: a sign of what is 0 except for rounding is any.
    "lion": lambda model: ct.Lion(model.parameters(), lr=0.01, weight_decay=0.1),
}


def _train_plain(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS,
                 scheduler=None) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        getattr(model, "loss", model)(joined_batch(step)).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def _train(trainer: ct.Trainer, model: nn.Module, rank: int, steps: int = STEPS,
           scheduler=None) -> None:
    for step in range(steps):
        loss = getattr(model, "loss", model)(part_of(joined_batch(step), rank))
        loss.backward()
        trainer.step(loss, BATCH)
        if scheduler is not None:
            scheduler.step()


def _finish(trainer: ct.Trainer, rank: int) -> None:
    """Each rank's model has the values after the last step."""
    trainer.wait()
    values = [one.detach().clone() for one in trainer._model.parameters()]
    if trainer.finish():
        for one, before in zip(trainer._model.parameters(), values):
            expect(torch.equal(one, before), "expected the evaluator to have the final values")
        trainer.job.report(test_loss=0.0, samples=1)


def equals_one_process(job: Job, rank: int, optimizer: str) -> None:
    """An MLP, a ConvNet and a Transformer, with a scheduler."""
    make, kind = Mlp if optimizer == "lion" else Zoo, OPTIMIZERS[optimizer]
    expected = seeded(make)
    plain = kind(expected)
    _train_plain(expected, plain, scheduler=torch.optim.lr_scheduler.StepLR(plain, 2, 0.5))

    model = seeded(make, seed=1 + rank)  # rank 0's values count
    attached = kind(model)
    trainer = ct.Trainer(model, attached, job)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*lr_scheduler.*")
        _train(trainer, model, rank,
               scheduler=torch.optim.lr_scheduler.StepLR(attached, 2, 0.5))
    _finish(trainer, rank)
    expect_equal(model, expected)


def accumulates(job: Job, rank: int) -> None:
    """no_sync, with zero_grad of both kinds, a forward pass before the step's end, and a learning
    rate that begins with 0."""
    def rate(step: int) -> float:
        return min(step / 2, 1.0)

    expected = seeded(Zoo)
    plain = OPTIMIZERS["momentum"](expected)
    plain_scheduler = torch.optim.lr_scheduler.LambdaLR(plain, rate)
    model = seeded(Zoo)
    attached = OPTIMIZERS["momentum"](model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(attached, rate)
    trainer = ct.Trainer(model, attached, job)
    for step in range(STEPS):
        plain.zero_grad()
        for part in (0, 10):
            (expected(joined_batch(step + part)) / 2).backward()
        plain.step()
        plain_scheduler.step()

        attached.zero_grad(set_to_none=step % 2 == 0)
        with trainer.no_sync():
            (model(part_of(joined_batch(step), rank)) / 2).backward()
        (model(part_of(joined_batch(step + 10), rank)) / 2).backward()
        if step % 2 == 1:
            with torch.no_grad():
                model(part_of(joined_batch(step), rank))
        trainer.step()
        scheduler.step()
    _finish(trainer, rank)
    expect_equal(model, expected)


def sends_gradients_of_the_program(job: Job, rank: int) -> None:
    """Gradients that no backward has made: assigned, changed in place, and none at all."""
    def give(model: nn.Module, step: int) -> None:
        for i, one in enumerate(model.parameters()):
            gradient = torch.full_like(one, float(i + step))
            if step % 3 == 0 or one.grad is None and step % 3 == 1:
                one.grad = gradient
            elif step % 3 == 1:
                one.grad.copy_(gradient)

    expected = seeded(Mlp)
    plain = OPTIMIZERS["momentum"](expected)
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job)
    for step in range(STEPS):
        plain.zero_grad(set_to_none=True)
        give(expected, step)
        plain.step()
        give(model, step)
        trainer.step()
    _finish(trainer, rank)
    expect_equal(model, expected)


def clips(job: Job, rank: int) -> None:
    """Each worker's own gradient is clipped, the mean of both is not."""
    bound = 0.5
    expected = seeded(Mlp)
    plain = OPTIMIZERS["momentum"](expected)
    for step in range(STEPS):
        sums = [torch.zeros_like(one) for one in expected.parameters()]
        for other in range(WORKERS):
            expected.zero_grad()
            (10 * expected.loss(part_of(joined_batch(step), other))).backward()
            nn.utils.clip_grad_norm_(expected.parameters(), bound)
            for total, one in zip(sums, expected.parameters()):
                total += one.grad
        for total, one in zip(sums, expected.parameters()):
            one.grad = total / WORKERS
        plain.step()

    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job, max_norm_per_worker=bound)
    for step in range(STEPS):
        (10 * model.loss(part_of(joined_batch(step), rank))).backward()
        trainer.step()
    _finish(trainer, rank)
    expect_equal(model, expected)


def names_the_parameter_of_a_nan(job: Job, rank: int) -> None:
    """In both workers, with what helps in a program of torch."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)

    def train() -> None:
        model.loss(part_of(joined_batch(0), rank)).backward()
        trainer.step()
        with trainer.no_sync():
            model.loss(part_of(joined_batch(1), rank)).backward()
        if rank == 1:
            model.layers[4].bias.grad.fill_(float("nan"))
        for _ in range(STEPS):
            trainer.step()
        trainer.wait()

    for text in ("table layers.4.bias", "the gradient of worker 1 at step 1 holds a NaN",
                 "Try a smaller lr of the optimizer, or ct.attach(..., max_norm_per_worker"):
        expect_raises(capstan.JobFailed, text, train)


class Branches(nn.Module):
    """A frozen layer, a layer that only rank 1 uses, and a layer and a number that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(6, 6)
        self.shared = nn.Linear(6, 6)
        self.sometimes = nn.Linear(6, 6)
        self.never = nn.Linear(6, 6)
        self.number = nn.Parameter(torch.tensor(2.0))
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor, uses_all: bool) -> torch.Tensor:
        x = self.shared(torch.tanh(self.shared(self.frozen(x))))
        return (self.sometimes(x) if uses_all else x).square().mean()


def has_unused_parameters(job: Job, rank: int) -> None:
    expected = seeded(Branches)
    plain = OPTIMIZERS["adamw"](expected)
    for step in range(STEPS):
        plain.zero_grad()
        for other in range(WORKERS):
            x = part_of(joined_batch(step), other)["x"]
            (expected(x, other == 1) / WORKERS).backward()
        plain.step()

    model = seeded(Branches)
    trainer = ct.Trainer(model, OPTIMIZERS["adamw"](model), job)
    for step in range(STEPS):
        model(part_of(joined_batch(step), rank)["x"], rank == 1).backward()
        trainer.step()
    _finish(trainer, rank)
    expect_equal(model, expected)
    expect(torch.equal(model.never.weight, seeded(Branches).never.weight),
           "expected no weight decay of what nobody used")


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.weighted = nn.utils.weight_norm(nn.Linear(6, 6))
        self.output = nn.Linear(6, 3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        x = torch.tanh(self.weighted(self.norm(batch["x"])))
        return functional.cross_entropy(self.output(x), batch["label"])


class Gan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Linear(6, 6)
        self.judge = nn.Sequential(nn.Linear(6, 130), nn.Tanh(), nn.Linear(130, 130), nn.Tanh(),
                                   nn.Linear(130, 1))

    def judged(self, x: torch.Tensor, is_real: bool) -> torch.Tensor:
        odds = self.judge(x)
        return functional.binary_cross_entropy_with_logits(
            odds, torch.full_like(odds, float(is_real)))


def trains_two_models_in_turn(job: Job, rank: int) -> None:
    """One optimizer with two groups does what two optimizers do. What the maker has made in the
    judge's step is used in its own."""
    expected = seeded(Gan)
    of_maker = torch.optim.Adam(expected.maker.parameters(), lr=0.01, eps=1e-3)
    of_judge = torch.optim.Adam(expected.judge.parameters(), lr=0.02, eps=1e-3)
    model = seeded(Gan)
    trainer = ct.Trainer(model, torch.optim.Adam(
        [{"params": model.maker.parameters()}, {"params": model.judge.parameters(), "lr": 0.02}],
        lr=0.01, eps=1e-3), job)
    for step in range(STEPS):
        for one, batch in [(expected, joined_batch(step)),
                           (model, part_of(joined_batch(step), rank))]:
            of_judge.zero_grad()
            made = one.maker(batch["x"])
            (one.judged(batch["x"], True) + one.judged(made.detach(), False)).backward()
            of_judge.step() if one is expected else (trainer.step(), trainer.wait())
            one.judge.requires_grad_(False)
            of_maker.zero_grad()
            one.judged(made, True).backward()
            of_maker.step() if one is expected else trainer.step()
            one.judge.requires_grad_(True)
    _finish(trainer, rank)
    expect_equal(model, expected)


def refuses_an_old_graph(job: Job, rank: int) -> None:
    """The values of its forward are those of a step before."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    loss = model.loss(part_of(joined_batch(0), rank))
    trainer.step()
    expect_raises(capstan.WrongOrder, "before the last ct.step()", loss.backward)


def takes_buffers_of_rank_0(job: Job, rank: int) -> None:
    model = seeded(Norm, seed=1 + rank)
    model.norm.running_mean.fill_(3.0 if rank == 0 else 5.0)
    model.norm.num_batches_tracked.fill_(7 if rank == 0 else 9)
    model.register_buffer("mask", torch.zeros(3, device=DEVICE))
    if rank == 0:
        model.mask.fill_(torch.finfo(torch.float32).min)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job)
    expect(bool((model.norm.running_mean == 3.0).all()), "expected rank 0's running mean")
    expect(int(model.norm.num_batches_tracked) == 7, "expected rank 0's number of batches")
    expect(bool((model.mask == torch.finfo(torch.float32).min).all()), f"got {model.mask}")
    for step in range(STEPS):
        batch = part_of(joined_batch(step), rank)
        before = model.norm.running_mean.clone()
        model(batch).backward()
        trainer.step()
        expect(torch.allclose(model.norm.running_mean, 0.9 * before + 0.1 * batch["x"].mean(0)),
               "expected the running mean of this worker's batches")
    _finish(trainer, rank)


def refuses_other_frozen_parameters(job: Job, rank: int) -> None:
    model = seeded(Branches, seed=1 + rank)
    optimizer = OPTIMIZERS["sgd"](model)
    if rank == 1:
        expect_raises(capstan.InvalidArgument, "not equal to those of rank 0",
                      lambda: ct.Trainer(model, optimizer, job))
        return

    def train() -> None:
        trainer = ct.Trainer(model, optimizer, job)
        while True:
            model(joined_batch(0)["x"], True).backward()
            trainer.step()

    expect_raises(capstan.JobFailed, "", train)


def reads_parameters(job: Job, rank: int) -> None:
    """Between steps: state_dict of the model and of a part, wait, evaluation, and copies."""
    expected = seeded(Zoo)
    plain = OPTIMIZERS["adam"](expected)
    model = seeded(Zoo)
    trainer = ct.Trainer(model, OPTIMIZERS["adam"](model), job)
    for step in range(STEPS):
        _train_plain(expected, plain, 1)
        model(part_of(joined_batch(0), rank)).backward()
        trainer.step()
        part = model.parts[0].state_dict()
        reference = expected.parts[0].state_dict()
        expect(all(torch.allclose(part[name], reference[name], atol=TOLERANCE) for name in part),
               "expected a part's state_dict to be complete")
        if step % 2 == 0:
            model.eval()
            expected.eval()
            with torch.no_grad():
                losses = [float(one(joined_batch(0))) for one in (model, expected)]
            expect(abs(losses[0] - losses[1]) < 1e-4, f"expected equal losses, got {losses}")
            model.train()
            expected.train()
        else:
            trainer.wait()
        copied = copy.deepcopy(model)
        expect_equal(copied, expected)
        copied(joined_batch(0)).backward()  # its hooks do nothing
    names = {name for name, _ in model.named_parameters()}
    other = seeded(Zoo, seed=7)
    other.load_state_dict(ct.without_module_prefix(
        {f"module.{name}": tensor for name, tensor in model.state_dict().items()}))
    expect_equal(other, expected)
    expect(names <= set(model.state_dict()), "expected all names")
    _finish(trainer, rank)


def recomputes(job: Job, rank: int) -> None:
    """Checkpointing of activations: parts of forward run again in backward."""
    from torch.utils.checkpoint import checkpoint

    def loss_of(model: nn.Module, batch: dict[str, torch.Tensor], recomputes: bool):
        layers = model.layers
        x = batch["x"].clone().requires_grad_(True)
        hidden = checkpoint(layers[0], x, use_reentrant=False) if recomputes else layers[0](x)
        return functional.cross_entropy(layers[2](layers[1](hidden)), batch["label"])

    expected = seeded(Mlp)
    plain = OPTIMIZERS["momentum"](expected)
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job)
    for step in range(STEPS):
        plain.zero_grad()
        loss_of(expected, joined_batch(step), recomputes=False).backward()
        plain.step()
        loss_of(model, part_of(joined_batch(step), rank), recomputes=True).backward()
        trainer.step()
    _finish(trainer, rank)
    expect_equal(model, expected)


def trains_alone_afterwards(job: Job, rank: int, closes: bool) -> None:
    """After finish, or after the job's close, model and optimizer are as before ct.attach."""
    model = seeded(Mlp)
    before = [(len(one._forward_pre_hooks), len(one._state_dict_hooks),
               len(one._load_state_dict_pre_hooks)) for one in model.modules()]
    optimizer = OPTIMIZERS["momentum"](model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    trainer = ct.Trainer(model, optimizer, job)
    _train(trainer, model, rank)
    if closes:
        trainer.wait()
        job.close()
    elif trainer.finish():
        job.report()
    after = [(len(one._forward_pre_hooks), len(one._state_dict_hooks),
              len(one._load_state_dict_pre_hooks)) for one in model.modules()]
    expect(before == after, f"expected no hooks of the job, got {after}")
    expect_raises(capstan.WrongOrder, "optimizer.step() to train alone", trainer.step)
    expected = copy.deepcopy(model)
    plain = OPTIMIZERS["momentum"](expected)
    plain.load_state_dict(optimizer.state_dict())
    _train_plain_mlp(expected, plain)
    _train_plain_mlp(model, optimizer)
    scheduler.step()
    expect_equal(model, expected, tolerance=0)
    torch.save(model, io.BytesIO())
    model.load_state_dict(expected.state_dict())
    job.close()
    model.loss(joined_batch(0)).backward()


def _train_plain_mlp(model: Mlp, optimizer: torch.optim.Optimizer) -> None:
    for step in range(STEPS):
        optimizer.zero_grad()
        model.loss(joined_batch(step)).backward()
        optimizer.step()


def works_with_other_defaults(job: Job, rank: int, dtype: str) -> None:
    """The program's defaults for new tensors are not those of this package."""
    model = seeded(Mlp)
    expected = seeded(Mlp)
    batches = [joined_batch(step) for step in range(STEPS)]
    _train_plain_mlp(expected, OPTIMIZERS["momentum"](expected))
    model.register_buffer("scale", torch.ones(3))
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0) if HAS_SCALER else None
    torch.set_default_dtype(getattr(torch, dtype))
    if hasattr(torch, "set_default_device"):
        torch.set_default_device("meta")
    try:
        trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job, grad_scaler=scaler)
        for batch in batches:
            loss = model.loss(part_of(batch, rank))
            (loss if scaler is None else scaler.scale(loss)).backward()
            trainer.step(loss)
        _finish(trainer, rank)
    finally:
        torch.set_default_dtype(torch.float32)
        if hasattr(torch, "set_default_device"):
            torch.set_default_device(None)
    expect_equal(model, expected)


def has_one_batch_more(job: Job, rank: int) -> None:
    """Rank 1 has fewer batches than rank 0."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    _train(trainer, model, rank, steps=2)
    if rank == 1:
        expect_raises(capstan.JobFailed, "", trainer.finish)
        return
    expect_raises(capstan.JobFailed, "leave out those that only some workers have",
                  lambda: _train(trainer, model, rank, steps=100))


class Functional(nn.Module):
    """Uses a part's parameters without the part's forward, as MultiheadAttention does."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(6, 3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        x = functional.linear(batch["x"], self.part.weight, self.part.bias)
        return functional.cross_entropy(x, batch["label"])


def uses_parameters_elsewhere(job: Job, rank: int) -> None:
    expected = seeded(Functional)
    plain = OPTIMIZERS["momentum"](expected)
    _train_plain(expected, plain)
    model = seeded(Functional)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job)
    _train(trainer, model, rank)
    _finish(trainer, rank)
    expect_equal(model, expected)


def converts_bfloat16(job: Job, rank: int) -> None:
    """The servers have float32, the model its values rounded."""
    model = seeded(Mlp).bfloat16()
    begin = [one.detach().float() for one in model.parameters()]
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job)
    sums = [torch.zeros_like(one) for one in begin]
    for step in range(STEPS):
        batch = part_of(joined_batch(0), 0)
        batch["x"] = batch["x"].bfloat16()
        trainer.wait()
        loss = model.loss(batch)
        loss.backward()
        for total, one in zip(sums, model.parameters()):
            total += one.grad.float()
        trainer.step(loss)
    _finish(trainer, rank)
    for one, first, total in zip(model.parameters(), begin, sums):
        expect(one.dtype == torch.bfloat16, "expected bfloat16")
        expect(torch.allclose(one.detach().float(), first - 0.1 * total, rtol=0.01, atol=1e-3),
               "expected the sum of all gradients")


def scales(job: Job, rank: int) -> None:
    """Both workers skip the step in which rank 1 finds inf."""
    bad_step = 2
    expected = seeded(Mlp)
    plain = OPTIMIZERS["momentum"](expected)
    model = seeded(Mlp)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job, grad_scaler=scaler,
                         max_norm_per_worker=1000.0)
    for step in range(STEPS):
        if step != bad_step:
            plain.zero_grad()
            expected.loss(joined_batch(step)).backward()
            plain.step()
        factor = float("inf") if step == bad_step and rank == 1 else 1.0
        scaler.scale(factor * model.loss(part_of(joined_batch(step), rank))).backward()
        trainer.step()
        expected_scale = 1024.0 if step < bad_step else 512.0
        expect(scaler.get_scale() == expected_scale, f"got {scaler.get_scale()}")
    _finish(trainer, rank)
    expect_equal(model, expected)


def refuses_what_plain_torch_does(job: Job, rank: int) -> None:
    """What a program for one process has, and must lose."""
    model = seeded(Mlp)
    optimizer = OPTIMIZERS["momentum"](model)
    trainer = ct.Trainer(model, optimizer, job)
    batch = part_of(joined_batch(0), rank)
    expect_raises(capstan.WrongOrder, "call ct.step() instead", optimizer.step)
    with mock.patch.object(ct, "_attached", trainer):
        expect_raises(capstan.WrongOrder, "within one `with ct.attach_together",
                      lambda: ct.attach(model, optimizer))
    expect_raises(capstan.InvalidArgument, "give its mean", lambda: trainer.step(torch.ones(2)))
    expect_raises(capstan.InvalidArgument, "samples: expected", lambda: trainer.step(1.0, 1.5))
    expect_raises(capstan.WrongOrder, "call load_state_dict before",
                  lambda: model.load_state_dict(seeded(Mlp).state_dict()))
    model.loss(batch).backward()
    trainer.step()
    expect_raises(capstan.WrongOrder, "before the first gradient",
                  lambda: optimizer.load_state_dict(optimizer.state_dict()))
    optimizer.param_groups[0]["dampening"] = 0.5
    expect_raises(capstan.InvalidArgument, "dampening of a parameter group",
                  lambda: model.loss(batch).backward())
    optimizer.param_groups[0]["dampening"] = 0
    model.zero_grad(set_to_none=True)
    model.loss(batch).backward()
    expect_raises(capstan.WrongOrder, "with ct.no_sync()", lambda: model.loss(batch).backward())


def sends_and_waits_by_layer(job: Job, rank: int) -> None:
    """Gradients leave while backward goes on, the last layer's first, and a module's forward waits
    for its own values alone."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    trainer.job._has_all_values = lambda: False  # else one look serves all
    events: list[str] = []

    def note(text: str, call: Callable[..., object]) -> Callable[..., object]:
        return lambda *arguments: (events.append(text), call(*arguments))[1]

    for one in trainer._parameters:
        one.wait = note(f"wait {one.name}", one.wait)
        one.push = note(f"push {one.name}", one.push)
    for name in ("0", "2", "4"):
        layer = getattr(model.layers, name)
        layer.register_forward_hook(note(f"forward {name}", lambda *unused: None))
    for _ in range(2):
        events.clear()
        model.loss(part_of(joined_batch(0), rank)).backward()
        events.append("backward is done")
        trainer.step()
    names = [f"layers.{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")]
    waits = {name: events.index(f"wait {name}") for name in names}
    pushes = {name: events.index(f"push {name}") for name in names}
    for name in names:
        begins = events.index(f"forward {name.split('.')[1]}")
        expect(waits[name] < begins, f"expected {name} before its forward: {events}")
    expect(min(waits[name] for name in names[2:4]) > events.index("forward 0"), f"{events}")
    expect(min(waits[name] for name in names[4:]) > events.index("forward 2"), f"{events}")
    expect(max(pushes[name] for name in names[4:]) < min(pushes[name] for name in names[2:4])
           and max(pushes[name] for name in names[2:4]) < min(pushes[name] for name in names[:2])
           and (DEVICE.type == "cuda"  # where a thread waits for the copies
                or max(pushes.values()) < events.index("backward is done")), f"{events}")
    if trainer.finish():
        job.report()


def shares_memory(job: Job, rank: int) -> None:
    """On the CPU parameters and large gradients are views of the library's buffers."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    model.loss(part_of(joined_batch(0), rank)).backward()
    for one in trainer._parameters:
        expect(one.tensor.data_ptr() == ctypes.addressof(one.table.values_buffer()), one.name)
        is_view = one.tensor.grad.data_ptr() == ctypes.addressof(one.table.gradient_buffer())
        expect(is_view == (one.name == "layers.2.weight"), f"the gradient of {one.name}")
    trainer.step()
    if trainer.finish():
        job.report()


def refuses_other_groups(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    optimizer = OPTIMIZERS["sgd"](model)
    trainer = ct.Trainer(model, optimizer, job)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    expect_raises(capstan.InvalidArgument, "after ct.attach", trainer.step)


def _halve(weight: nn.Parameter) -> None:
    weight.grad = weight.grad / 2


# Changes of one gradient. Those past torch's versions are noticed in steps that are powers of two.
CHANGES: dict[str, Callable[[nn.Parameter], object]] = {
    "norm": lambda weight: nn.utils.clip_grad_norm_([weight], 1e-4),
    "value": lambda weight: nn.utils.clip_grad_value_([weight], 1e-4),
    "data": lambda weight: weight.grad.data.mul_(0.5),
    "assigned": _halve,
}


def refuses_changed_gradients(job: Job, rank: int, kind: str, name: str) -> None:
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    _train(trainer, model, rank, steps=4 if kind in ("value", "data") else 3)
    model.loss(part_of(joined_batch(0), rank)).backward()
    CHANGES[kind](dict(model.named_parameters())[name])
    expect_raises(capstan.WrongOrder, "within `with ct.no_sync():`", trainer.step)


def sends_changed_gradients(job: Job, rank: int, kind: str) -> None:
    """What has not left may be changed."""
    expected = seeded(Mlp)
    plain = OPTIMIZERS["momentum"](expected)
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job)
    for step in range(STEPS):
        plain.zero_grad()
        expected.loss(joined_batch(step)).backward()
        with trainer.no_sync():
            model.loss(joined_batch(step)).backward()
        for one in (*expected.parameters(), *model.parameters()):
            CHANGES[kind](one)
        plain.step()
        trainer.step()
    _finish(trainer, rank)
    expect_equal(model, expected)


def refuses_changed_parameters(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    model.loss(part_of(joined_batch(0), rank)).backward()
    with torch.no_grad():
        model.layers[0].weight.mul_(2.0)
    expect_raises(capstan.WrongOrder, "before ct.attach", trainer.step)
    part = model.layers[2]
    expect_raises(capstan.WrongOrder, "load_state_dict before ct.attach",
                  lambda: part.load_state_dict(part.state_dict()))


def refuses_moved_parameters(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    model.loss(part_of(joined_batch(0), rank)).backward()
    model.layers[0].weight.data = model.layers[0].weight.detach().clone()
    expect_raises(capstan.WrongOrder, "before ct.attach", trainer.step)


def refuses_to_unfreeze(job: Job, rank: int) -> None:
    model = seeded(Branches)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    model.frozen.requires_grad_(True)
    model(part_of(joined_batch(0), rank)["x"], True).backward()
    expect_raises(capstan.InvalidArgument, "was frozen", trainer.step)


def refuses_replaced_layers(job: Job, rank: int) -> None:
    """The servers would train the old ones. What has no parameters may be replaced."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    layers = model.layers
    layers[1] = nn.ReLU()
    trainer.step()
    old = layers[2]
    layers[2] = nn.Linear(130, 130)
    expect_raises(capstan.WrongOrder, "layers.2.weight is no longer in the model", trainer.step)
    layers[2] = old
    model.more = nn.Linear(3, 3)
    expect_raises(capstan.WrongOrder, "more.weight was not in the model", trainer.step)
    del model.more
    trainer.step()
    bias = old.bias
    old.bias = nn.Parameter(torch.zeros(130))
    expect_raises(capstan.WrongOrder, "layers.2.bias is no longer in", trainer.step)
    old.bias = bias
    old.scale = nn.Parameter(torch.ones(1))
    expect_raises(capstan.WrongOrder, "layers.2.scale was not in", trainer.step)
    del old.scale
    trainer.step()


def refuses_to_be_saved(job: Job, rank: int) -> None:
    """An attached model has hooks into the job."""
    model = seeded(Mlp)
    torch.save(model, io.BytesIO())
    ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    for part in (model, model.layers[0]):
        expect_raises(capstan.WrongOrder, "save model.state_dict()",
                      lambda: torch.save(part, io.BytesIO()))
        torch.save(part.state_dict(), io.BytesIO())


class Samples(torch.utils.data.Dataset):
    """What a DataLoader's processes see of the job."""

    def __init__(self, trainer: ct.Trainer) -> None:
        self.trainer = trainer

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            self.trainer.job.end_step()
        except capstan.Forked:
            return torch.full((6,), float(index))
        raise AssertionError("expected the job to be the parent's")


def loads_data_in_processes(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    seen = 0.0
    for x in torch.utils.data.DataLoader(Samples(trainer), batch_size=2, num_workers=2):
        seen += float(x[:, 0].sum())
        model.layers(x.to(DEVICE)).square().mean().backward()
        trainer.step()
    expect(seen == sum(range(8)), f"expected all samples, got {seen}")
    _finish(trainer, rank)


def goes_on(job: Job, rank: int, first: int) -> None:
    """Trains STEPS steps. With a `first` above 0, the job goes on from a checkpoint: what the
    program's model begins with does not count."""
    model = seeded(Mlp, seed=1 if first == 0 else 9)
    trainer = ct.Trainer(model, OPTIMIZERS["momentum"](model), job)
    expect(job.step == first, f"expected step {first}, got {job.step}")
    for step in range(job.step, first + STEPS):
        model.loss(part_of(joined_batch(step), rank)).backward()
        trainer.step()
    _finish(trainer, rank)
    expected = seeded(Mlp)
    plain = OPTIMIZERS["momentum"](expected)
    for step in range(first + STEPS):
        plain.zero_grad()
        expected.loss(joined_batch(step)).backward()
        plain.step()
    expect_equal(model, expected)


class OnlyDlpack:
    """A tensor of a library without data_ptr."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.shape = tensor.shape

    def __dlpack__(self, stream=None):
        return self._tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def in_thread(call: Callable[[], None]) -> None:
    """Makes a call in a thread of its own, which must not raise."""
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(call() is None))
    thread.start()
    thread.join()
    expect(ended == [True], "the call has raised")


def exchanges_tensors(job: Job, rank: int) -> None:
    """Without a model: a table's gradients and values are tensors of the device."""
    table = job.table("w", torch.zeros(4), optimizer=capstan.SGD(lr=1.0))
    job.start()
    streams = [None]
    if DEVICE.type == "cuda":
        streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    got = torch.empty(4, device=DEVICE)
    steps = 0
    for stream in streams:
        address = None if stream is None else stream.cuda_stream
        for kind in (lambda tensor: tensor, OnlyDlpack):
            with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
                if stream is not None:
                    torch.cuda._sleep(100_000_000)  # the gradient is late, by some 50 ms
                gradient = torch.full((4,), float(rank), device=DEVICE) + 1
                # In a thread that has never used the GPU.
                in_thread(lambda: table.push_pull(kind(gradient), stream=address))
                job.end_step()
                in_thread(lambda: table.read(kind(got), stream=address))
            steps += 1
            expect(got.tolist() == [-1.5 * steps] * 4, f"step {steps}: got {got}")
    if job.finish():
        job.report()


def learns(job: Job, rank: int) -> None:
    """In any mode, many steps on the same samples make the loss small."""
    model = seeded(Mlp)
    trainer = ct.Trainer(model, torch.optim.Adam(model.parameters(), lr=0.05), job)
    for _ in range(100):
        loss = model.loss(part_of(joined_batch(0), rank))
        loss.backward()
        trainer.step(loss, BATCH)
    if trainer.finish():
        final = model.loss(part_of(joined_batch(0), rank)).item()
        expect(final < 0.2, f"expected a small loss, got {final}")
        trainer.job.report(test_loss=final)


def write_safetensors(path: str) -> None:
    """A model's state, by PyPI's library."""
    import safetensors.torch

    safetensors.torch.save_file(seeded(Mlp, seed=5).state_dict(), path)


def begins_with_file(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    trainer = ct.Trainer(model, OPTIMIZERS["sgd"](model), job)
    expect_equal(model, seeded(Mlp, seed=5), tolerance=0)
    model.loss(part_of(joined_batch(0), rank)).backward()
    trainer.step()
    _finish(trainer, rank)


def expect_safetensors(path: str) -> None:
    """What the job wrote is the model after its step, by PyPI's library."""
    import safetensors.torch

    expected = seeded(Mlp, seed=5)
    plain = OPTIMIZERS["sgd"](expected)
    expected.loss(joined_batch(0)).backward()
    plain.step()
    model = seeded(Mlp)
    model.load_state_dict(safetensors.torch.load_file(path))
    expect_equal(model, expected)
