"""What has to be known of the processor, by us and by oneDNN, which multiplies matrices for TensorFlow on CPUs."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from nmt.config import TrainSettings

TILES = 0x1D  # the leaf of CPUID that describes AMX's tiles
CPUINFO = Path("/proc/cpuinfo")


def keep_off_hidden_tiles(cpuinfo: Path = CPUINFO, env: MutableMapping[str, str] = os.environ) -> None:
    """Keep oneDNN off AMX on a machine that has it and does not describe it, as some virtual machines do not.

    There oneDNN takes tiles to be of no size, and the first product in bfloat16 would end the process (SIGILL).
    """
    facts = described(cpuinfo)
    if "amx_tile" in facts["flags"].split() and not shows_tiles(facts):
        env.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def is_fast_in_bfloat16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether products of bfloat16 take much less time than those of 32-bit floats.

    They do on AMX, and in AMD's AVX-512; in Intel's, without AMX, a training was a third slower.
    """
    facts = described(cpuinfo)
    flags = facts["flags"].split()
    on_tiles = "amx_bf16" in flags and shows_tiles(facts)
    return on_tiles or ("avx512_bf16" in flags and facts.get("vendor_id") == "AuthenticAMD")


def settled(settings: TrainSettings, gpu: bool, cpuinfo: Path = CPUINFO) -> TrainSettings:
    """The settings with the precision that `auto` means on this machine.

    XLA, and TensorFlow without oneDNN, have no fast products of bfloat16 on a CPU. Where there is AMX, float32 is made
    of products of bfloat16 already (product.h), and how much faster bfloat16 itself would be was not measured.
    """
    if settings.precision != "auto":
        return settings
    slow = settings.xla or os.environ.get("TF_ENABLE_ONEDNN_OPTS", "").lower() in ("0", "false")
    amx = "amx_bf16" in described(cpuinfo)["flags"]
    plain = gpu or slow or amx or settings.products == "highest" or not is_fast_in_bfloat16(cpuinfo)
    return settings.model_copy(update={"precision": "float32" if plain else "bfloat16"})


def described(cpuinfo: Path) -> dict[str, str]:
    """What the kernel says of the first processor."""
    first, _, _ = cpuinfo.read_text().partition("\n\n") if cpuinfo.exists() else ("", "", "")
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    return {"flags": ""} | facts


def shows_tiles(facts: dict[str, str]) -> bool:
    """Whether the size of AMX's tiles can be asked for."""
    return int(facts.get("cpuid level", TILES)) >= TILES
