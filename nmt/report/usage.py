"""What the monitor saw, summed up per host: processors, GPUs, and the network between hosts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nmt.report.facts import Row

LOOPBACK = "lo"
BUSY_GPU = 90.0  # percent; a GPU below this waits for something
SATURATED = 0.8  # of a link's speed: what is left is framing, gaps between updates and evaluations
PORTS = (10, 100, 1_000, 2_500, 10_000, 25_000, 40_000, 100_000)  # Mbit/s that ports are sold at
STEADY = 0.9  # median over peak of a traffic that runs into a ceiling
MEGABIT = 1e6 / 8  # bytes


@dataclass(frozen=True)
class Gpu:
    """One GPU over the training."""

    name: str
    mean: float
    median: float


@dataclass(frozen=True)
class Host:
    """One host over the training; traffic in bytes per second, of the busier direction."""

    name: str
    samples: int
    cpu_mean: float
    memory_peak: int
    memory_total: int
    gpus: list[Gpu]
    interface: str | None
    mean: float
    median: float
    peak: float
    speed: float | None  # what the interface says its link does
    loopback: float

    @property
    def load(self) -> float | None:
        """The peak as a share of the link's speed."""
        return self.peak / self.speed if self.speed else None

    @property
    def ceiling(self) -> float | None:
        """A usual port speed that the traffic keeps running into, whatever the interface claims; else None."""
        near = [port * MEGABIT for port in PORTS if 0.9 <= self.peak / (port * MEGABIT) <= 1.02]
        return near[0] if near and self.median >= STEADY * self.peak else None

    @property
    def limit(self) -> float | None:
        """The speed that held this host up, if one did."""
        if self.load is not None and self.load >= SATURATED:
            return self.speed
        return self.ceiling


def hosts(rows: list[Row]) -> list[Host]:
    """The hosts of a monitor's rows, by name."""
    names = sorted({str(row["host"]) for row in rows})
    return [host(name, [row for row in rows if row["host"] == name]) for name in names]


def host(name: str, rows: list[Row]) -> Host:
    """Sum up the rows of one host."""
    interface = busiest(rows)
    traffic = [busier(row, interface) for row in rows] if interface else [0.0]
    speeds = [row["interfaces"][interface].get("speed_mbit") for row in rows if interface in row.get("interfaces", {})]
    known = [speed for speed in speeds if speed]
    return Host(
        name=name,
        samples=len(rows),
        cpu_mean=float(np.mean([row.get("cpu_percent", 0.0) for row in rows])),
        memory_peak=max(row.get("memory_used_bytes", 0) for row in rows),
        memory_total=max(row.get("memory_total_bytes", 0) for row in rows),
        gpus=gpus(rows),
        interface=interface,
        mean=float(np.mean(traffic)),
        median=float(np.median(traffic)),
        peak=float(np.percentile(traffic, 95)),
        speed=known[-1] * MEGABIT if known else None,
        loopback=float(np.mean([busier(row, LOOPBACK) for row in rows])),
    )


def busiest(rows: list[Row]) -> str | None:
    """The interface that carries most, loopback aside."""
    totals: dict[str, float] = {}
    for row in rows:
        for name in row.get("interfaces", {}).keys() - {LOOPBACK}:
            totals[name] = totals.get(name, 0.0) + busier(row, name)
    return max(sorted(totals), key=totals.__getitem__) if totals else None


def busier(row: Row, interface: str) -> float:
    """Bytes per second of an interface's busier direction: links carry both ways at once."""
    rates = row.get("interfaces", {}).get(interface, {})
    return float(max(rates.get("sent", 0.0), rates.get("received", 0.0)))


def gpus(rows: list[Row]) -> list[Gpu]:
    """Each GPU's utilisation."""
    series: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    for row in rows:
        for number, gpu in enumerate(row.get("gpus") or []):
            series.setdefault(number, []).append(float(gpu["utilization"]))
            names[number] = str(gpu["name"])
    return [Gpu(names[number], float(np.mean(seen)), float(np.median(seen))) for number, seen in sorted(series.items())]


def traffic_per_interval(trains: list[Row], evals: list[Row], rows: list[Row]) -> list[tuple[float, float]]:
    """(step seconds, mean traffic in bytes per second) of each stretch of training that the monitor saw.

    Needs the records' wall-clock `time`; an evaluation ends a stretch, so that its quiet is not counted in.
    """
    ends = sorted([row for row in [*trains, *evals] if "time" in row], key=lambda row: float(row["time"]))
    times = np.array([float(row["time"]) for row in rows])
    # The sampler's own top-level figure already leaves the loopback out.
    rates = np.array(
        [max(row.get("sent_bytes_per_second", 0.0), row.get("received_bytes_per_second", 0.0)) for row in rows]
    )
    found = []
    for before, after in pairwise(ends):
        seen = rates[(times > before["time"]) & (times <= after["time"])]
        if after["kind"] == "train" and len(seen):
            found.append((float(after["step_seconds"]), float(seen.mean())))
    return found
