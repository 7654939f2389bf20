"""Cases of torch_read_test.py, as those of torch_cases.py. Values are on their way for long: in
each step one worker's gradients are late, and the other has no new values before."""

from __future__ import annotations

import copy
import io
import time
import warnings
from typing import Any, Callable, Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_models import BATCH, DEVICE, Mlp, expect_equal, joined_batch, part_of, seeded

STEPS = 12
LATE_SECONDS = 0.05
Read = Callable[[], torch.Tensor]


class Net(nn.Module):
    """Forward can read parameters at its start, as that of MoCo and BYOL does."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = Mlp()
        self.at_start: Any = None  # what forward has read

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if self.at_start is not None:
            self.at_start = torch.cat([one.data.flatten() for one in self.parameters()])
        return self.mlp.loss(batch)

    def all(self) -> torch.Tensor:
        """A method other than forward."""
        return torch.cat([one.reshape(-1) for one in self.parameters()])


def _all(tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    """A copy of all their values. They do not wait."""
    return torch.cat([one.detach().reshape(-1) for one in tensors]).clone()


def _averaged(model: Net) -> Read:
    average = torch.optim.swa_utils.AveragedModel(
        model, avg_fn=lambda average, new, count: new.clone())

    def read() -> torch.Tensor:
        average.update_parameters(model)
        return _all(average.module.parameters())

    return read


def _saved(model: Net) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(dict(model.named_parameters()), file)
    file.seek(0)
    loaded: dict[str, torch.Tensor] = torch.load(file)
    return _all(iter(loaded.values()))


def _at_start_of_forward(model: Net) -> torch.Tensor:
    model.at_start = 0
    with torch.enable_grad():
        model(joined_batch(0))
    read, model.at_start = model.at_start, None
    return read


def _by_output(model: Net, call: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Read:
    """Outputs instead of values."""
    return lambda: call(model.mlp.layers, torch.ones(1, 6, device=DEVICE))


def _functional_call(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    if hasattr(torch, "func"):
        return torch.func.functional_call(module, dict(module.named_parameters()), (x,))
    from torch.nn.utils.stateless import functional_call

    return functional_call(module, dict(module.named_parameters()), (x,))


def _replica(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """As DataParallel does on GPUs, it looks at each device first."""
    expect(all(one.device == x.device for one in module.parameters()), "expected one device")
    return nn.DataParallel(module)(x)


def _without_forward(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = functional.linear(x, module[0].weight, module[0].bias).tanh()
    x = functional.linear(x, module[2].weight, bias=module[2].bias).tanh()
    return functional.linear(x, module[4].weight, bias=module[4].bias)


def _views(model: Net) -> Read:
    """Made before the first step."""
    views = [one.detach() for one in model.parameters()]
    arrays = [one.cpu().numpy() for one in views] if DEVICE.type == "cpu" else views
    return lambda: torch.cat([torch.as_tensor(one).reshape(-1) for one in arrays]).clone()


READS: dict[str, Callable[[Net], Read]] = {
    "average": _averaged,
    "deepcopy": lambda model: lambda: _all(copy.deepcopy(model).parameters()),
    "vector": lambda model: lambda: parameters_to_vector(model.parameters()),
    "clones": lambda model: lambda: _all(iter([one.clone() for one in model.parameters()])),
    "data": lambda model: lambda: torch.cat([one.data.flatten() for one in model.parameters()]),
    "list": lambda model: lambda: torch.tensor(
        [value for one in model.parameters() for value in one.flatten().tolist()], device=DEVICE),
    "method": lambda model: model.all,
    "state_dict": lambda model: lambda: _all(iter(model.state_dict().values())),
    "state_dict of variables": lambda model: lambda: torch.cat(
        [one.flatten() for one in model.state_dict(keep_vars=True).values()]),
    "save": lambda model: lambda: _saved(model),
    "start of forward": lambda model: lambda: _at_start_of_forward(model),
    "functional_call": lambda model: _by_output(model, _functional_call),
    "replica": lambda model: _by_output(model, _replica),
    "without forward": lambda model: _by_output(model, _without_forward),
    "views": _views,
}


def _train_late(trainer: ct.Trainer, model: nn.Module, rank: int, step: int) -> None:
    loss = model(part_of(joined_batch(step), rank))
    if step % 2 == rank:
        time.sleep(LATE_SECONDS)
    loss.backward()
    trainer.step(loss, BATCH)


def reads(job: Job, rank: int, kind: str) -> None:
    """Each worker reads right after a step, and compares with what it reads after a wait."""
    expected = seeded(Net)
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    model = seeded(Net)
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job)
    read = READS[kind](model)
    before = torch.zeros(())
    for step in range(2 * STEPS):
        plain.zero_grad()
        expected(joined_batch(step)).backward()
        plain.step()
        _train_late(trainer, model, rank, step)
        with torch.no_grad():
            got = read()
            trainer.wait()
            right = read()
        expect(torch.equal(got, right), f"{kind}: old values after step {step}")
        expect(not torch.equal(right, before), f"{kind}: expected new values in step {step}")
        before = right
        expect_equal(model, expected)
    _end(trainer)


def _end(trainer: ct.Trainer) -> None:
    if trainer.finish():
        trainer.job.report(test_loss=0.0, samples=1)


def trains_compiled(job: Job, rank: int) -> None:
    expected = seeded(Net)
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    model = seeded(Net)
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job)
    compiled = torch.compile(model, backend="aot_eager")
    for step in range(STEPS):
        plain.zero_grad()
        expected(joined_batch(step)).backward()
        plain.step()
        # The first steps are not compiled.
        _train_late(trainer, model if step < 2 else compiled, rank, step)
    trainer.wait()
    expect_equal(model, expected)
    _end(trainer)


def does_not_wait_without_reads(job: Job, rank: int) -> None:
    """What a plain loop does between steps waits for nothing."""
    model = seeded(Net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = ct.Trainer(model, optimizer, job)
    waits: list[str] = []
    for one in trainer._parameters:
        one.wait = lambda one=one: waits.append(one.name) or one.table._layer.wait()
    for step in range(STEPS):
        model(part_of(joined_batch(step), rank)).backward()
        trainer.step()
        waits.clear()
        optimizer.zero_grad()
        model.zero_grad()
        model.train()
        expect(sum(one.numel() for one in model.parameters() if one.requires_grad) > 0, "")
        expect(all(isinstance(one, nn.Parameter) for one in model.parameters()), "")
        expect(not waits, f"expected no wait, got {waits}")
    expect(all(type(one) is nn.Parameter for one in copy.deepcopy(model).parameters()), "")
    expect(all(type(one) is nn.Parameter for one in model.parameters()), "")
    _end(trainer)


def notices_changes(job: Job, rank: int, kind: str, overlap: bool) -> None:
    """After a step that is no power of two; without overlap, in any place."""
    model = seeded(Net)
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job, overlap=overlap)
    weight = model.mlp.layers[2].weight
    for step in range(3):
        model(part_of(joined_batch(step), rank)).backward()
        trainer.step()
    if kind == "data":
        weight.data.clamp_(-0.01, 0.01)
    elif kind == "array":
        weight.detach().numpy()[0] = 0
    else:
        trainer.wait()
        weight.data[0, 0] += 1
    expect_raises(capstan.WrongOrder, "would be lost",
                  lambda: (model(part_of(joined_batch(3), rank)).backward(), trainer.step()))


def notices_habits(job: Job, rank: int) -> None:
    """A change of each step in a place where nobody looks otherwise: within forward."""
    model = seeded(Net)
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job)
    weight = model.mlp.layers[0].weight

    def change(*unused: object) -> None:
        weight.data.add_(1)

    model.mlp.layers[1].register_forward_pre_hook(change)
    expect_raises(capstan.WrongOrder, "would be lost",
                  lambda: (model(part_of(joined_batch(0), rank)).backward(), trainer.step()))


def warns_of_early_reads(job: Job, rank: int) -> None:
    """Once, and not of reads in other places. An early one gets the values of the next step."""
    model = seeded(Net)
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(3):
            expect_equal(copy.deepcopy(model), model)
            _train_late(trainer, model, rank, step)
            trainer.wait()
        expect(not caught, f"expected no warning, got {[str(one.message) for one in caught]}")
        for step in range(2):
            model(part_of(joined_batch(step), rank)).backward()
            early = _all(iter([model.mlp.layers[0].bias.clone()]))
            trainer.step()
            expect(torch.equal(early, model.mlp.layers[0].bias), "expected the next values")
    texts = [str(one.message) for one in caught]
    expect(len(texts) == 1 and texts[0].startswith("mlp.layers.0.bias was read after its gradient"),
           f"got {texts}")
    _end(trainer)


def keeps_old_values_without_overlap(job: Job, rank: int) -> None:
    """As with a plain optimizer, values are old before the step and new after it."""
    model = seeded(Net)
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), job, overlap=False)
    for step in range(STEPS):
        before = _all(model.parameters())
        loss = model(part_of(joined_batch(step), rank))
        loss.backward()
        expect(torch.equal(_all(model.parameters()), before), "expected old values")
        trainer.step(loss, BATCH)
        expect(all(one.is_current for one in trainer._parameters), "expected new values")
    _end(trainer)
