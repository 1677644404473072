"""The processes that train together. The loop is handed one of these and never sees Horovod itself."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from nmt.errors import TrainingError

Tensor = Any
Thing = TypeVar("Thing")


class Ranks(Protocol):
    """What the loop needs of the others."""

    rank: int
    size: int

    def sum(self, gradients: list[Tensor], figures: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Each tensor summed over all ranks; figures always to the last bit, gradients perhaps in 16 bits."""

    def broadcast(self, variables: list[Any]) -> None:
        """Give every rank the first one's values."""

    def share(self, thing: Thing) -> Thing:
        """The first rank's thing, on every rank."""

    def gather(self, thing: Thing) -> list[Thing]:
        """The things of all ranks, in their order, on every rank."""


class Alone:
    """One process, no Horovod needed."""

    rank = 0
    size = 1

    def sum(self, gradients: list[Tensor], figures: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The tensors themselves."""
        return gradients, figures

    def broadcast(self, variables: list[Any]) -> None:
        """Nobody to tell."""

    def share(self, thing: Thing) -> Thing:
        """The thing itself."""
        return thing

    def gather(self, thing: Thing) -> list[Thing]:
        """The thing itself."""
        return [thing]


class Horovod:
    """Ranks started by horovodrun or mpirun."""

    def __init__(self, size: int, fp16_compression: bool) -> None:
        import horovod.tensorflow as hvd

        hvd.init()
        if hvd.size() != size:
            raise TrainingError(
                f"{size} ranks were started and Horovod knows of {hvd.size()}: it was built without what started them. "
                "For train.launcher: mpi, install Open MPI (mpicxx must be on the PATH) and run make setup again."
            )
        self.hvd = hvd
        self.rank, self.size = hvd.rank(), size
        self.local_rank = hvd.local_rank()
        self.fp16_compression = fp16_compression

    def sum(self, gradients: list[Tensor], figures: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Each tensor summed over all ranks; Horovod fuses them into few messages."""
        if not self.fp16_compression:
            summed = self.hvd.grouped_allreduce([*gradients, *figures], op=self.hvd.Sum)
            return summed[: len(gradients)], summed[len(gradients) :]
        # One group holds one type; figures are counts, which 16 bits would round.
        figures = self.hvd.grouped_allreduce(figures, op=self.hvd.Sum)
        if gradients:
            fp16 = self.hvd.Compression.fp16
            packed, contexts = zip(*map(fp16.compress, gradients), strict=True)
            summed = self.hvd.grouped_allreduce(list(packed), op=self.hvd.Sum)
            gradients = [fp16.decompress(tensor, context) for tensor, context in zip(summed, contexts, strict=True)]
        return gradients, figures

    def broadcast(self, variables: list[Any]) -> None:
        """Give every rank the first one's values."""
        self.hvd.broadcast_variables(variables, root_rank=0)

    def share(self, thing: Thing) -> Thing:
        """The first rank's thing, on every rank."""
        shared: Thing = self.hvd.broadcast_object(thing, root_rank=0)
        return shared

    def gather(self, thing: Thing) -> list[Thing]:
        """The things of all ranks, in their order, on every rank."""
        things: list[Thing] = self.hvd.allgather_object(thing)
        return things
