"""Samples of one host's CPU, memory, network and GPUs, one JSON object a line."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import psutil

LOOPBACK = "lo"


class Sampler:
    """Appends a sample to a file every `interval` seconds while the `with` block runs."""

    def __init__(self, path: Path, interval: float = 5.0) -> None:
        self.path, self.interval = path, interval
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True, name="monitor")
        self.gpus = gpu_handles()

    def __enter__(self) -> Sampler:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def work(self) -> None:
        """Sample until told to stop."""
        psutil.cpu_percent()  # the first call only starts the count
        before, then = psutil.net_io_counters(pernic=True), time.monotonic()
        with self.path.open("a", encoding="utf-8") as file:
            while not self.stop.wait(self.interval):
                now, counters = time.monotonic(), psutil.net_io_counters(pernic=True)
                row = sample(before, counters, now - then) | {"gpus": [gpu_sample(gpu) for gpu in self.gpus]}
                file.write(json.dumps(row) + "\n")
                file.flush()
                before, then = counters, now


def sample(before: dict[str, Any], after: dict[str, Any], seconds: float) -> dict[str, Any]:
    """CPU, memory and network rates since the last sample."""
    memory, links = psutil.virtual_memory(), psutil.net_if_stats()
    interfaces = {
        name: {
            "sent": (after[name].bytes_sent - before[name].bytes_sent) / seconds,
            "received": (after[name].bytes_recv - before[name].bytes_recv) / seconds,
            "speed_mbit": links[name].speed or None if name in links else None,
        }
        for name in after.keys() & before.keys()
    }
    outside = [rates for name, rates in interfaces.items() if name != LOOPBACK]
    return {
        "time": time.time(),
        "host": socket.gethostname(),
        "cpu_percent": psutil.cpu_percent(),
        "memory_used_bytes": memory.total - memory.available,
        "memory_total_bytes": memory.total,
        "sent_bytes_per_second": sum(rates["sent"] for rates in outside),
        "received_bytes_per_second": sum(rates["received"] for rates in outside),
        "interfaces": interfaces,
    }


def gpu_handles() -> list[Any]:
    """NVIDIA's handles of the GPUs here; none where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []


def gpu_sample(handle: Any) -> dict[str, Any]:
    """What one GPU is doing."""
    import pynvml

    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {
        "name": str(pynvml.nvmlDeviceGetName(handle)),
        "utilization": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_used_bytes": memory.used,
        "memory_total_bytes": memory.total,
        "power_watts": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    }
