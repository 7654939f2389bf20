"""Refuses modules that the servers' training would break, by their names."""

from __future__ import annotations

from typing import Any, Iterator, Optional

import torch

from capstan._errors import InvalidArgument

_EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)


def expect_trainable_modules(model: torch.nn.Module, trained: set[int]) -> None:
    """Raises InvalidArgument, and says what to do. trained: the ids of the trained parameters."""
    for name, module in model.named_modules():
        if getattr(module, "sparse", False) is True:
            raise InvalidArgument(f"{name} makes sparse gradients, and tables are dense; make it "
                                  "with sparse=False")
        reason = _reason_against(module)
        if reason is not None and any(id(one) in trained for one in module.parameters()):
            raise InvalidArgument(f"{name or 'the model'} ({type(module).__name__}) {reason}")


def _reason_against(module: torch.nn.Module) -> Optional[str]:
    if isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
        return ("wraps a module that the servers train, and would exchange gradients by itself; "
                "attach model.module, and leave the wrapper out")
    if type(module).__name__ == "FullyShardedDataParallel":
        return "is FSDP1, whose parameters are no DTensors; use torch.distributed.fsdp.fully_shard"
    if isinstance(module, _EMBEDDINGS) and module.max_norm is not None:
        return ("has max_norm, so that its forward changes weights, which the servers hold; make "
                "it with max_norm=None, and bound the vectors that it returns, as by torch.renorm")
    if isinstance(module, torch.jit.ScriptModule):
        return ("is compiled by torch.jit, and so its forward waits for no values; attach the "
                "model before torch.jit.script or trace, and script a copy of it after ct.finish()")
    if any(_is_fullgraph(context) for context in _compilations(module)):
        return ("is compiled with fullgraph=True, but forward waits for values between the parts "
                "of a model; call torch.compile without fullgraph")
    return None


def _compilations(module: torch.nn.Module) -> Iterator[Any]:
    """What torch.compile(module) and module.compile() have left."""
    if "dynamo_ctx" in vars(module):
        yield vars(module)["dynamo_ctx"]
    for cell in getattr(getattr(module, "_compiled_call_impl", None), "__closure__", None) or ():
        yield cell.cell_contents


def _is_fullgraph(compilation: Any) -> bool:
    if hasattr(compilation, "fullgraph"):
        return bool(compilation.fullgraph)
    # Before torch 2.9 only the class of what is called says so.
    callback = getattr(compilation, "callback", None)
    while callback is not None and "Assert" not in type(callback).__name__:
        callback = getattr(callback, "_torchdynamo_orig_callable", None)
    return callback is not None
