"""The processes that train together. The loop is handed one of these and never sees Horovod itself."""

from __future__ import annotations

from typing import Any, Protocol

Tensor = Any


class Ranks(Protocol):
    """What the loop needs of the others."""

    rank: int
    size: int

    def sum(self, tensors: list[Tensor]) -> list[Tensor]:
        """Each tensor summed over all ranks."""

    def broadcast(self, variables: list[Any]) -> None:
        """Give every rank the first one's values."""

    def any(self, flag: bool) -> bool:
        """Whether any rank says yes."""


class Alone:
    """One process, no Horovod needed."""

    rank = 0
    size = 1

    def sum(self, tensors: list[Tensor]) -> list[Tensor]:
        """The tensors themselves."""
        return tensors

    def broadcast(self, variables: list[Any]) -> None:
        """Nobody to tell."""

    def any(self, flag: bool) -> bool:
        """The flag itself."""
        return flag


class Horovod:
    """Ranks started by horovodrun."""

    def __init__(self, fp16_compression: bool) -> None:
        import horovod.tensorflow as hvd

        hvd.init()
        self.hvd = hvd
        self.rank, self.size = hvd.rank(), hvd.size()
        self.local_rank = hvd.local_rank()
        self.compression = hvd.Compression.fp16 if fp16_compression else hvd.Compression.none

    def sum(self, tensors: list[Tensor]) -> list[Tensor]:
        """Each tensor summed over all ranks; Horovod fuses them into few messages."""
        import tensorflow as tf

        packed, contexts = zip(*(self.compression.compress(tf.convert_to_tensor(t)) for t in tensors), strict=True)
        summed = self.hvd.grouped_allreduce(list(packed), op=self.hvd.Sum)
        return [self.compression.decompress(t, context) for t, context in zip(summed, contexts, strict=True)]

    def broadcast(self, variables: list[Any]) -> None:
        """Give every rank the first one's values."""
        self.hvd.broadcast_variables(variables, root_rank=0)

    def any(self, flag: bool) -> bool:
        """Whether any rank says yes."""
        import tensorflow as tf

        return bool(self.hvd.allreduce(tf.constant(float(flag)), op=self.hvd.Sum, name="any") > 0)
