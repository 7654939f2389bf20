"""What all workers begin with as rank 0 has it."""

from __future__ import annotations

import ctypes
import zlib
from typing import Any, Sequence

import torch

from capstan._errors import InvalidArgument

Named = Sequence[tuple[str, torch.Tensor]]


class SharedState:
    """Buffers, which are to begin with rank 0's bits, and frozen parameters, which are to be equal.

    Sparse and quantized buffers stay as each worker made them.
    """

    def __init__(self, buffers: Named, frozen: Named) -> None:
        self._buffers = [(name, one) for name, one in buffers
                         if one.layout is torch.strided and not one.is_quantized]
        self._frozen = frozen
        layout = [(name, str(one.dtype), tuple(one.shape)) for name, one in self._buffers]
        checksum = 0
        for name, tensor in frozen:
            bits = bits_of(tensor)
            checksum = zlib.crc32(view_of(bits), zlib.crc32(name.encode(), checksum))
        self._checksums = torch.tensor([zlib.crc32(repr(layout).encode()), checksum],
                                       dtype=torch.int64, device="cpu")

    @property
    def is_empty(self) -> bool:
        return not self._frozen and all(one.numel() == 0 for _, one in self._buffers)

    def floats(self) -> torch.Tensor:
        """The state as one row of float32: each has 16 bits, as a whole number. Servers would
        refuse the bits themselves where they are those of NaN or infinity."""
        bits = torch.cat([bits_of(self._checksums), *(bits_of(one) for _, one in self._buffers)])
        padding = torch.zeros(len(bits) % 2, dtype=torch.uint8, device="cpu")
        return torch.cat([bits, padding]).view(torch.int16).to(torch.float32)

    def take(self, floats: torch.Tensor) -> None:
        """Gives the buffers the bits of `floats`, which are rank 0's, where they have others.

        Raises InvalidArgument if the frozen parameters are not equal to rank 0's, or buffers have
        other types.
        """
        bits = floats.to(torch.int16).view(torch.uint8)
        own = bits_of(self._checksums)
        layout, checksum = bits[:len(own)].clone().view(torch.int64).tolist()
        if layout != int(self._checksums[0]):
            raise InvalidArgument("the buffers have not the names, dtypes and shapes of those of "
                                  "rank 0; make the same model in all workers")
        if checksum != int(self._checksums[1]):
            names = ", ".join(name for name, _ in self._frozen[:3])
            raise InvalidArgument(
                f"the frozen parameters ({names}, ...) are not equal to those of rank 0; load the "
                "same in all workers, or call torch.manual_seed(0) before the model is made")
        start = len(own)
        for _, buffer in self._buffers:
            own = bits_of(buffer)
            end = start + len(own)
            if not torch.equal(own, bits[start:end]):
                of_rank_0 = bits[start:end].clone().view(buffer.dtype).view(buffer.shape)
                with torch.no_grad():
                    buffer.copy_(of_rank_0)
            start = end


def whole_of(tensor: Any) -> torch.Tensor:
    """Without its history; of a sharded tensor (DTensor), for which all ranks ask, the whole."""
    whole = tensor.detach()
    result: torch.Tensor = whole.full_tensor() if hasattr(whole, "full_tensor") else whole
    return result


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its bytes, row by row, in the CPU's memory; of a sharded tensor those of the whole."""
    whole = whole_of(tensor)
    memory = torch.empty(whole.shape, dtype=whole.dtype, device="cpu")
    return memory.copy_(whole).reshape(-1).view(torch.uint8)


def view_of(bits: torch.Tensor) -> memoryview:
    """The bytes, without a copy. They must outlive the result."""
    return memoryview((ctypes.c_ubyte * len(bits)).from_address(bits.data_ptr())).cast("B")
