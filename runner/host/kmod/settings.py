"""Environment variables that change how the module runs code, with their flags of a batch (docs/kmod.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.host.kmod import abi

if TYPE_CHECKING:
    from collections.abc import Mapping

UNGUARDED = "UOPSCOPE_UNGUARDED"
MASK_LVT = "UOPSCOPE_MASK_LVT"
CONTIGUOUS = "UOPSCOPE_CONTIGUOUS"
FLAGS = {
    UNGUARDED: abi.BatchFlag.UNGUARDED,
    MASK_LVT: abi.BatchFlag.MASK_LVT,
    CONTIGUOUS: abi.BatchFlag.CONTIGUOUS,
}
OFF = ("", "0")


def flags_of(environment: Mapping[str, str]) -> abi.BatchFlag:
    """Return the flags of those variables that are set to something else than 0."""
    flags = abi.BatchFlag(0)
    for name, flag in FLAGS.items():
        if environment.get(name, "0") not in OFF:
            flags |= flag
    return flags
