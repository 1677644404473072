"""What oneDNN, which multiplies matrices for TensorFlow on CPUs, must know of the processor before it begins."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

TILES = 0x1D  # the leaf of CPUID that describes AMX's tiles


def keep_off_hidden_tiles(cpuinfo: Path = Path("/proc/cpuinfo"), env: MutableMapping[str, str] = os.environ) -> None:
    """Keep oneDNN off AMX on a machine that has it and does not describe it, as some virtual machines do not.

    There oneDNN takes tiles to be of no size, and the first product in bfloat16 would end the process (SIGILL).
    """
    first, _, _ = cpuinfo.read_text().partition("\n\n") if cpuinfo.exists() else ("", "", "")
    facts = {name.strip(): value for name, _, value in (line.partition(":") for line in first.splitlines())}
    if "amx_tile" in facts.get("flags", "").split() and int(facts.get("cpuid level", TILES)) < TILES:
        env.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
