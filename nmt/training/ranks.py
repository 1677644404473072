"""The processes that train together. The loop is handed one of these and never sees Horovod itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, TypeVar

import tensorflow as tf

from nmt.config import TrainSettings
from nmt.errors import TrainingError
from nmt.training.shared import Shape, SharedSum, path_of, reserve

Tensor = Any
Thing = TypeVar("Thing")
FIGURES = 3  # loss, negative log-likelihood and pieces travel with the gradients


class Ranks(Protocol):
    """What the loop needs of the others."""

    rank: int
    size: int
    local_rank: int  # among those on the same machine

    def prepare(self, shapes: list[Shape]) -> None:
        """Make ready to sum gradients of these shapes."""

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
    local_rank = 0

    def prepare(self, shapes: list[Shape]) -> None:
        """Nothing to do."""

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

    def __init__(self, settings: TrainSettings) -> None:
        import horovod.tensorflow as hvd

        hvd.init()
        size = settings.ranks
        if hvd.size() != size:
            raise TrainingError(
                f"{size} ranks were started and Horovod knows of {hvd.size()}: it was built without what started them. "
                "For train.launcher: mpi, install Open MPI (mpicxx must be on the PATH) and run make setup again."
            )
        self.hvd = hvd
        self.rank, self.size = hvd.rank(), size
        self.local_rank = hvd.local_rank()
        self.compression = hvd.Compression.fp16 if settings.fp16_compression else hvd.Compression.none
        self.gpus = bool(tf.config.list_physical_devices("GPU"))
        # GPUs sum by themselves.
        self.may_share = settings.sums_in_memory and not self.gpus and hvd.local_size() == size
        self.shared: SharedSum | None = None

    def prepare(self, shapes: list[Shape]) -> None:
        """Where all ranks are on the CPUs of one machine, gradients and figures are summed in its memory."""
        if not self.may_share:
            return
        shapes = [*shapes, (FIGURES,)]
        handle = reserve(self.size, shapes) if self.rank == 0 else 0
        path = self.share(path_of(handle))
        trouble = ""
        try:
            self.shared = SharedSum(Path(path), self.rank, self.size, shapes)
        except OSError as error:  # some systems keep processes from each other
            trouble = str(error)
        troubles = [*filter(None, self.gather(trouble))]  # now all have it open, or cannot
        if self.rank == 0:
            os.close(handle)
        if troubles:
            self.shared = None
            if self.rank == 0:
                print(f"gradients are summed by Horovod, for memory cannot be shared: {troubles[0]}", flush=True)

    def sum(self, gradients: list[Tensor], figures: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Each tensor summed over all ranks. Figures are counts, which 16 bits would round."""
        if self.gpus:  # what is ready travels while the rest is still being computed
            summed = [self.summed(tensor, self.compression) for tensor in gradients]
        elif self.shared and gradients:  # not the figures alone, of an evaluation
            *summed, together = in_memory(self.shared, [*gradients, tf.stack(figures)])
            return summed, tf.unstack(together)
        elif self.compression is self.hvd.Compression.none:
            *summed, together = self.at_once([*gradients, tf.stack(figures)])
            return summed, tf.unstack(together)
        else:
            summed = self.at_once(gradients)
        # Ready since the forward pass, they would be sent after all else: with one thread TensorFlow does first what
        # became ready last. Held back until the last gradient they travel with it, and no update waits for them alone.
        with tf.control_dependencies(gradients):
            together = tf.stack(figures)
        return summed, tf.unstack(self.summed(together, self.hvd.Compression.none))

    def summed(self, tensor: Tensor, compression: Any) -> Tensor:
        """A tensor summed over all ranks."""
        return self.hvd.allreduce(tensor, op=self.hvd.Sum, compression=compression)

    def at_once(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors summed in one message, always in the same order.

        On CPUs sending takes the very cores that compute, so nothing is gained by sending some earlier; and Horovod is
        busy with a hundred tensors, however small, for as long as with 10 MB.
        """
        if not tensors:
            return []
        flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
        flat = self.summed(flat, self.compression)
        parts = tf.split(flat, tf.stack([tf.size(tensor) for tensor in tensors]), num=len(tensors))
        return [tf.reshape(part, tf.shape(tensor)) for part, tensor in zip(parts, tensors, strict=True)]

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


def in_memory(shared: SharedSum, tensors: list[Tensor]) -> list[Tensor]:
    """Tensors summed in shared memory. TensorFlow reads the sums where they lie, and never writes there."""
    sums: list[Tensor] = tf.numpy_function(shared, tensors, [tensor.dtype for tensor in tensors])
    return [tf.ensure_shape(total, tensor.shape) for total, tensor in zip(sums, tensors, strict=True)]
