"""Figures as a reader wants them: few digits, thousands apart, with their unit."""

from __future__ import annotations

TIMES = "\N{MULTIPLICATION SIGN}"


def span(seconds: float) -> str:
    """A time to read at a glance: `12.3 s`, `4 min 05 s`, `22 h 12 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(count: float) -> str:
    """Bytes as MB (10^6), or as kB and bytes where a MB says nothing."""
    if count >= 100_000:
        return f"{count / 1e6:,.1f} MB"
    return f"{count / 1e3:,.1f} kB" if count >= 1_000 else f"{count:,.0f} bytes"


def rate(bytes_per_second: float) -> str:
    """Traffic as MB/s and, as links are sold, Mbit/s."""
    megabits = bytes_per_second * 8 / 1e6
    return f"{size(bytes_per_second)}/s ({megabits:,.{0 if megabits >= 10 else 1}f} Mbit/s)"


def short(seconds: float) -> str:
    """A step's time, to three digits: `0.312 s`, `1.62 s`, `30.1 s`."""
    digits = 3 if seconds < 1 else 2 if seconds < 10 else 1
    return f"{seconds:.{digits}f} s"


def percent(share: float) -> str:
    """A share of one as `12.3 %`; whole percents from ten up."""
    return f"{share * 100:.0f} %" if share >= 0.1 or share == 0 else f"{share * 100:.2g} %"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def plural(count: int, noun: str) -> str:
    """`1 rank`, `4 ranks`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def way_down(ends: int) -> str:
    """How the learning rate falls, given `train.rate_ends`."""
    return f"in a straight line (train.rate_ends = {ends:,})" if ends else "with the inverse square root"
