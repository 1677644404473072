"""Spreading a stage's work over a Dask cluster, by Prefect's Dask runner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nmt.config import ClusterSettings
from nmt.corpus.blocks import elsewhere
from nmt.errors import MachineError


@contextmanager
def spread(settings: ClusterSettings) -> Iterator[None]:
    """Inside the block, work by blocks of lines is done by a Dask cluster's workers, if the settings name one."""
    if settings.dask is None:
        yield
        return
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise MachineError("cluster.dask needs the package prefect-dask. Fix: pip install 'wmtflow[dask]'") from None
    local = settings.dask == "local"
    # One thread a worker: the work is Python's own, and threads would wait for each other.
    here = {"n_workers": settings.workers or None, "threads_per_worker": 1}
    try:
        with DaskTaskRunner(cluster_kwargs=here) if local else DaskTaskRunner(address=settings.dask) as runner:
            cores = sum(runner.client.ncores().values())
            with elsewhere(runner.client.get_executor(), cores):
                yield
    except OSError as error:
        raise MachineError(f"the Dask scheduler at {settings.dask} does not answer: {error}") from error
