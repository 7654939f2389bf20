"""Cases of torch_embedding_test.py, as those of torch_cases.py. The reference is torch's own
EmbeddingBag, with an index for each key."""

from __future__ import annotations

import copy
import io
from typing import Optional

import torch
from torch import distributed, nn
from torch.nn import functional

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_models import BATCH, DEVICE, STEPS, TOLERANCE, WORKERS, seeded

DIM = 3
KEYS = torch.tensor([7, -1, 2**40, 0, -2**63, 2**63 - 1, 12, 13, 14, 15], device=DEVICE)
BAG_SIZES = [2, 0, 3, 1, 1, 4, 2, 1]  # of a worker's samples

# What both sides have: by name, the rows' optimizer, and torch's for all parameters.
OPTIMIZERS = {
    "as the model, sgd": (None, lambda parameters: torch.optim.SGD(parameters, lr=0.3)),
    "as the model, adagrad": (None, lambda parameters: torch.optim.Adagrad(parameters, lr=0.1)),
    "sgd": (capstan.SGD(lr=0.3), lambda parameters: torch.optim.SGD(parameters, lr=0.3)),
    "adagrad": (capstan.Adagrad(lr=0.1, eps=1e-3),
                lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, eps=1e-3)),
}


class Clicks(nn.Module):
    """The bag is used twice: with two keys for each sample, and with some by offsets."""

    def __init__(self, bag: nn.Module) -> None:
        super().__init__()
        self.bag = bag
        self.hidden = nn.Linear(6, 8)
        self.output = nn.Linear(8 + 2 * DIM, 3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = torch.tanh(self.hidden(batch["x"]))
        weights = None
        if self.bag.mode == "sum":
            sizes = torch.tensor(BAG_SIZES * (len(hidden) // BATCH), device=DEVICE)
            weights = batch["of_weights"] * hidden.mean(1).repeat_interleave(sizes)
        parts = [hidden, self.bag(batch["pairs"]),
                 self.bag(batch["history"], batch["offsets"], weights)]
        return functional.cross_entropy(self.output(torch.cat(parts, dim=1)), batch["label"])


def _batch(step: int, ranks: list[int], includes_last: bool = False) -> dict[str, torch.Tensor]:
    """The samples of these workers, with indices of KEYS."""
    parts = []
    for rank in ranks:
        random = torch.Generator().manual_seed(1000 * step + rank)
        parts.append({
            "x": torch.randn(BATCH, 6, generator=random),
            "label": torch.randint(3, (BATCH,), generator=random),
            "pairs": torch.randint(len(KEYS), (BATCH, 2), generator=random),
            "history": torch.randint(len(KEYS), (sum(BAG_SIZES),), generator=random),
            "of_weights": torch.randn(sum(BAG_SIZES), generator=random)})
    batch = {name: torch.cat([part[name] for part in parts]).to(DEVICE) for name in parts[0]}
    ends = torch.tensor([0, *BAG_SIZES * len(ranks)], device=DEVICE).cumsum(0)
    return {**batch, "offsets": ends if includes_last else ends[:-1]}


def _with_keys(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**batch, "pairs": KEYS[batch["pairs"]], "history": KEYS[batch["history"]]}


def _rows(bag: ct.EmbeddingBag) -> torch.Tensor:
    """The rows of KEYS as they are."""
    with torch.no_grad():
        rows = bag(KEYS if isinstance(bag, ct.Embedding) else KEYS.view(-1, 1))
        return rows.clone()


def _pair(job: Job, optimizer: str, bag: ct.EmbeddingBag,
          **options: object) -> tuple[Clicks, torch.optim.Optimizer, Clicks, ct.Trainer]:
    """Plain torch's model and optimizer, and ours with equal values."""
    make = OPTIMIZERS[optimizer][1]
    model = seeded(lambda: Clicks(bag))
    trainer = ct.Trainer(model, make(model.parameters()), job, **options)
    padding = None if bag.padding_idx is None else KEYS.tolist().index(bag.padding_idx)
    plain_bag = nn.EmbeddingBag(len(KEYS), DIM, mode=bag.mode, padding_idx=padding, device=DEVICE)
    plain = seeded(lambda: Clicks(plain_bag))
    initial = _rows(bag)
    expect(0 < initial.std() < 1, f"expected drawn rows, got {initial}")
    with torch.no_grad():
        plain_bag.weight.copy_(initial)
    return plain, make(plain.parameters()), model, trainer


def _finish(trainer: ct.Trainer, model: Clicks, plain: Clicks) -> None:
    if not trainer.finish():
        return
    with torch.no_grad():
        expected = dict(plain.named_parameters())
        for name, one in [*model.named_parameters(), ("bag.weight", _rows(model.bag))]:
            difference = (one - expected[name]).abs().max().item()
            expect(difference < TOLERANCE, f"{name}: expected what plain torch has, {difference} away")
    trainer.job.report()


def equals_one_process(job: Job, rank: int, optimizer: str, mode: str,
                       padding: Optional[int] = None) -> None:
    """Two keys a sample, and bags by offsets, some of them empty; with a scheduler, and an
    evaluation of other keys between steps."""
    includes_last = mode == "sum"
    bag = ct.EmbeddingBag("items", dim=DIM, mode=mode, stddev=0.5,
                          include_last_offset=includes_last, optimizer=OPTIMIZERS[optimizer][0],
                          padding_idx=padding)
    plain, plain_optimizer, model, trainer = _pair(job, optimizer, bag)
    plain_schedule, schedule = (torch.optim.lr_scheduler.StepLR(one, 2, 0.5)
                                for one in (plain_optimizer, trainer._optimizer))
    for step in range(STEPS):
        plain_optimizer.zero_grad()
        plain(_batch(step, [0, 1])).backward()
        plain_optimizer.step()
        plain_schedule.step()

        batch = _with_keys(_batch(step, [rank], includes_last))
        loss = model(batch)
        loss.backward()
        if step % 2 == 0:
            bag.prefetch(_with_keys(_batch(step + 1, [rank]))["pairs"])
        trainer.step(loss, BATCH)
        schedule.step()
        if bag.optimizer is not None:
            bag.learning_rate = schedule.get_last_lr()[0]
        if step == 2:
            model.eval()
            batch = _with_keys(_batch(77, [rank], includes_last))
            for guard in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
                with guard:
                    got, expected = model(batch).item(), plain(_batch(77, [rank])).item()
                expect(abs(got - expected) < 1e-4, f"expected {expected}, got {got}")
            model.train()
    _finish(trainer, model, plain)


class Words(nn.Module):
    """Rows of keys in two dimensions, with an embedding."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.bag = embedding
        self.output = nn.Linear(2 * DIM, 3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        rows = self.bag(batch["pairs"])
        expect(rows.shape == (*batch["pairs"].shape, DIM), f"rows of shape {rows.shape}")
        return functional.cross_entropy(self.output(torch.tanh(rows).flatten(1)), batch["label"])


def embeds(job: Job, rank: int, padding: Optional[int] = None) -> None:
    """As torch.nn.Embedding."""
    embedding = ct.Embedding("words", DIM, padding_idx=padding, stddev=0.5,
                             optimizer=capstan.Adagrad(lr=0.1))
    model = seeded(lambda: Words(embedding))
    trainer = ct.Trainer(model, torch.optim.Adagrad(model.parameters(), lr=0.1), job)
    place = None if padding is None else KEYS.tolist().index(padding)
    plain_embedding = nn.Embedding(len(KEYS), DIM, padding_idx=place, device=DEVICE)
    plain = seeded(lambda: Words(plain_embedding))
    with torch.no_grad():
        plain_embedding.weight.copy_(embedding(KEYS))
    plain_optimizer = torch.optim.Adagrad(plain.parameters(), lr=0.1)
    for step in range(STEPS):
        plain_optimizer.zero_grad()
        plain(_batch(step, [0, 1])).backward()
        plain_optimizer.step()
        model(_with_keys(_batch(step, [rank]))).backward()
        trainer.step()
    _finish(trainer, model, plain)


def leaves_the_dense_part(job: Job, rank: int, meeting: str, mode: str) -> None:
    """To DistributedDataParallel and the program's own optimizer."""
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORKERS)
    bag = ct.EmbeddingBag("items", dim=DIM, mode=mode, stddev=0.5, padding_idx=-1,
                          optimizer=capstan.Adagrad(lr=0.1))
    model = seeded(lambda: Clicks(bag))
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    ct.attach(wrapped, optimizer, job=job, dense="local")
    plain_bag = nn.EmbeddingBag(len(KEYS), DIM, mode=mode, padding_idx=1)
    plain = seeded(lambda: Clicks(plain_bag))
    with torch.no_grad():
        plain_bag.weight.copy_(_rows(bag))
    of_plain = [torch.optim.AdamW([*plain.hidden.parameters(), *plain.output.parameters()], lr=0.01),
                torch.optim.Adagrad(plain_bag.parameters(), lr=0.1)]
    for step in range(STEPS):
        plain.zero_grad()
        plain(_batch(step, [0, 1])).backward()
        for one in of_plain:
            one.step()
        optimizer.zero_grad()
        loss = wrapped(_with_keys(_batch(step, [rank])))
        loss.backward()
        optimizer.step()
        ct.step(loss, BATCH)
    distributed.barrier()
    distributed.destroy_process_group()
    trainer = ct._attached
    _finish(trainer, model, plain)


def trains_bags_alone(job: Job, rank: int) -> None:
    """A model without other parameters."""
    bag = ct.EmbeddingBag("items", dim=1, mode="sum", optimizer=capstan.SGD(lr=0.5))
    ct.attach(bag, None, job=job, dense="local")
    expect_raises(capstan.InvalidArgument, "optimizer: the program steps", lambda: ct.step(
        optimizer=torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)))
    before = bag(KEYS.view(-1, 1)).detach().clone()
    with ct.join():
        for _ in range(1 + rank):  # the mean of a step is over both workers
            bag(KEYS.view(-1, 1)).sum().backward()
            ct.step()
    if ct.finish():
        after = bag(KEYS.view(-1, 1)).detach()
        expect(torch.allclose(after, before - 0.75, atol=1e-6), f"expected 0.75 less, got {after - before}")
        ct.report()


def accumulates(job: Job, rank: int) -> None:
    """Two backward passes a step; a step in which one worker uses the bag, and one in which nobody
    does."""
    bag = ct.EmbeddingBag("items", dim=DIM, stddev=0.5)
    plain, plain_optimizer, model, trainer = _pair(job, "as the model, adagrad", bag)

    def loss_of(one: Clicks, batch: dict[str, torch.Tensor], uses_bag: bool) -> torch.Tensor:
        return one(batch) if uses_bag else one.hidden(batch["x"]).square().mean()

    for step in range(STEPS):
        uses = [step != 3, step not in (2, 3)]
        plain_optimizer.zero_grad(set_to_none=True)
        for other in range(WORKERS):
            for part in (0, 10):
                loss = loss_of(plain, _batch(step + part, [other]), uses[other])
                (loss / 2 / WORKERS).backward()
        plain_optimizer.step()

        with trainer.no_sync():
            (loss_of(model, _with_keys(_batch(step, [rank])), uses[rank]) / 2).backward()
        (loss_of(model, _with_keys(_batch(step + 10, [rank])), uses[rank]) / 2).backward()
        bag.prefetch(KEYS[:3])
        trainer.step()
    _finish(trainer, model, plain)


def clips(job: Job, rank: int) -> None:
    """The norm is that of rows and parameters together."""
    bound = 0.5
    bag = ct.EmbeddingBag("items", dim=DIM, stddev=0.5)
    plain, plain_optimizer, model, trainer = _pair(job, "as the model, sgd", bag,
                                                     max_norm_per_worker=bound)
    for step in range(STEPS):
        sums = [torch.zeros_like(one) for one in plain.parameters()]
        for other in range(WORKERS):
            plain.zero_grad()
            (10 * plain(_batch(step, [other]))).backward()
            norm = nn.utils.clip_grad_norm_(plain.parameters(), bound)
            expect(float(norm) > bound, f"expected a gradient to clip, got a norm of {norm}")
            for total, one in zip(sums, plain.parameters()):
                total += one.grad / WORKERS
        for total, one in zip(sums, plain.parameters()):
            one.grad = total
        plain_optimizer.step()

        (10 * model(_with_keys(_batch(step, [rank])))).backward()
        trainer.step()
    _finish(trainer, model, plain)


def scales(job: Job, rank: int) -> None:
    """Both workers skip the step in which the rows of rank 1 have an infinite gradient."""
    bad_step = 2
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
    bag = ct.EmbeddingBag("items", dim=DIM, stddev=0.5)
    plain, plain_optimizer, model, trainer = _pair(job, "as the model, sgd", bag,
                                                   grad_scaler=scaler,
                                                   max_norm_per_worker=1000.0)
    for step in range(STEPS):
        if step != bad_step:
            plain_optimizer.zero_grad()
            plain(_batch(step, [0, 1])).backward()
            plain_optimizer.step()
        loss = model(_with_keys(_batch(step, [rank])))
        if step == bad_step and rank == 1:
            loss = float("inf") * bag(KEYS[:1].view(1, 1)).sum()  # of rows alone
        scaler.scale(loss).backward()
        bag.prefetch(KEYS)
        trainer.step()
        expected_scale = 1024.0 if step < bad_step else 512.0
        expect(scaler.get_scale() == expected_scale, f"got {scaler.get_scale()}")
    _finish(trainer, model, plain)


def learns(job: Job, rank: int, optimizer: str) -> None:
    """In any mode, many steps on the same samples make the loss small, with the rows' help."""
    kind = getattr(capstan, optimizer)
    bag = ct.EmbeddingBag("items", dim=8, mode="sum", optimizer=kind(lr=0.2), admitting_push=2,
                          max_rows=1 << 20)
    model = seeded(lambda: nn.Sequential(bag, nn.Linear(8, 2)))
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.2), job)
    labels = torch.arange(len(KEYS), device=DEVICE) % 2
    for step in range(100):
        chosen = torch.randint(len(KEYS), (BATCH,),
                               generator=torch.Generator().manual_seed(2 * step + rank)).to(DEVICE)
        loss = functional.cross_entropy(model(KEYS[chosen].view(-1, 1)), labels[chosen])
        loss.backward()
        trainer.step(loss, BATCH)
    if trainer.finish():
        with torch.no_grad():
            loss = functional.cross_entropy(model(KEYS.view(-1, 1)), labels).item()
        expect(loss < 0.2, f"expected a small loss, got {loss}")
        trainer.job.report(test_loss=loss)


def takes_any_keys(job: Job, rank: int) -> None:
    """Of any integer type; none at all; and what is not a key is refused."""
    bag = ct.EmbeddingBag("items", dim=2, mode="sum", stddev=0.5)
    model = seeded(lambda: nn.Sequential(bag, nn.Linear(2, 1)))
    expect_raises(capstan.WrongOrder, "call ct.attach", lambda: bag(KEYS))
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=1.0), job)
    expected = bag(torch.tensor([[1], [2], [200]]))
    for dtype in (torch.uint8, torch.int16, torch.int32, getattr(torch, "uint64", torch.int64)):
        keys = torch.tensor([[1], [2], [200]], dtype=dtype)
        expect(torch.equal(bag(keys), expected), f"expected the same rows for {dtype}")
    bag(torch.tensor([1, 2, 200]), torch.tensor([0, 2], dtype=torch.int32))
    across = torch.tensor([[1, 200], [2, 1]]).t()  # not row by row in memory
    expect(torch.allclose(bag(across), expected[[0, 2]] + expected[[1, 0]]), "expected the sums")
    expect(bag(torch.empty(0, dtype=torch.long), torch.tensor([0, 0])).tolist() == [[0, 0]] * 2,
           "expected 0 for empty bags")
    bag(torch.empty(0, dtype=torch.long), torch.tensor([0, 0])).sum().backward()
    for keys, text in [(torch.tensor([[0.5]]), "float32"), (torch.tensor([[True]]), "bool"),
                       ([[1]], "list")]:
        expect_raises(capstan.InvalidArgument, text, lambda: bag(keys))
    expect_raises(ValueError, "offsets", lambda: bag(torch.tensor([1, 2])))
    model(torch.tensor([[1], [2]], device=DEVICE)).sum().backward()
    trainer.step()
    old = bag(torch.tensor([[1], [2]]))
    trainer.step()
    expect_raises(capstan.WrongOrder, "run forward again", lambda: old.sum().backward())


def follows_the_learning_rate(job: Job, rank: int) -> None:
    """Of the first parameter group, also in steps in which rows alone have a gradient."""
    bag = ct.EmbeddingBag("items", dim=2, mode="sum", stddev=0.5)
    model = nn.Sequential(bag, nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer = ct.Trainer(model, optimizer, job)
    before = bag(KEYS[:1].view(1, 1)).detach()
    for rate in (1.0, 0.5, 0.0):
        optimizer.param_groups[0]["lr"] = rate
        bag(KEYS[:1].view(1, 1)).sum().backward()
        trainer.step()
        rows = bag(KEYS[:1].view(1, 1)).detach()
        expect(torch.allclose(rows, before - rate), f"rate {rate}: {before} became {rows}")
        before = rows


def forgets_idle_rows(job: Job, rank: int) -> None:
    """A row that is pulled stays. One that nobody touches for more steps begins anew."""
    idle_steps = 3
    bag = ct.EmbeddingBag("items", dim=2, mode="sum", stddev=0.5, max_idle_steps=idle_steps)
    model = nn.Sequential(bag, nn.Linear(2, 1))
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=1.0), job)
    _, pulled, pushed = KEYS[:3].view(3, 1, 1)
    initial = bag(KEYS[:3].view(3, 1)).detach()
    bag(KEYS[:3].view(3, 1)).sum().backward()
    trainer.step()
    for _ in range(idle_steps + 1):
        with torch.no_grad():
            bag(pulled)
        bag(pushed).sum().backward()
        trainer.step()
    expected = initial - torch.tensor([[0.0], [1.0], [2.0 + idle_steps]], device=DEVICE)
    got = bag(KEYS[:3].view(3, 1)).detach()
    expect(torch.allclose(got, expected), f"expected {expected}, got {got}")


def refuses_copies(job: Job, rank: int) -> None:
    """Rows are on the servers: a copy would share them."""
    bag = ct.EmbeddingBag("items", dim=2)
    model = nn.Sequential(bag, nn.Linear(2, 1))
    copy.deepcopy(model)  # nothing is shared yet
    ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=1.0), job)
    expect(set(model.state_dict()) == {"1.weight", "1.bias"}, "expected all but the rows")
    for call in (lambda: copy.deepcopy(model), lambda: torch.save(bag, io.BytesIO())):
        expect_raises(capstan.WrongOrder, "save model.state_dict()", call)
    expect_raises(capstan.WrongOrder, "in an attached model already",
                  lambda: ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=1.0), job))


def refuses_another_bag(job: Job, rank: int) -> None:
    model = nn.Sequential(ct.EmbeddingBag("items", dim=2), nn.Linear(2, 1))
    trainer = ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=1.0), job)
    model[0] = ct.EmbeddingBag("others", dim=2)
    expect_raises(capstan.WrongOrder, "add and replace layers before", trainer.step)
