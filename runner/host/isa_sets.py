"""The ISA sets of the CPU at hand: those that CPUID reports and the kernel lets programs use."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from runner.host.cpu import read_cpu
from runner.host.native.cpuid import cpuid
from xed_convert.cpus.cpuid import isa_set_tests

if TYPE_CHECKING:
    from collections.abc import Callable

    from xed_convert.cpus.cpuid import CpuidTest
    from xed_convert.model import InstructionVariant

STATE_FLAGS = (
    (("AVX512", "AVX10"), "avx512f"),
    (("AVX", "FMA", "F16C", "VAES", "VPCLMULQDQ", "XOP"), "avx"),
    (("AMX",), "amx_tile"),
    (("APX",), "apx"),
)
"""ISA sets whose registers the kernel has to save: how their names begin, and Linux' flag for it."""


def lacking(variant: InstructionVariant, cpu: int) -> str:
    """Return the reason why that logical CPU cannot run a variant ("": it can, or CPUID does not tell).

    Raises:
        BackendError: there is no such CPU.
    """
    return "" if has_isa_set(variant.isa_set, cpu) else f"this CPU does not have {variant.isa_set}"


@cache
def has_isa_set(name: str, cpu: int) -> bool:
    """Whether a logical CPU has an ISA set. Where CPUID does not tell, the answer is yes: running it will show.

    Raises:
        BackendError: there is no such CPU.
    """
    if name not in isa_set_tests():
        return True
    try:
        return _usable(name, read_cpu(cpu).flags) and _present(name, cpu)
    except OSError:
        return True


def test_of(cpu: str) -> Callable[[InstructionVariant], bool]:
    """Return a function that says whether a CPU has a variant; "" is every CPU, "native" the one at hand.

    Raises:
        UnknownChipError: no chip has that name; the hint names the nearest.
    """
    if not cpu:
        return lambda _variant: True
    if cpu.lower() == "native":
        number = min(os.sched_getaffinity(0))
        return lambda variant: has_isa_set(variant.isa_set, number)
    from xed_convert.cpus.chips import chip_isa_sets  # noqa: PLC0415 - campaigns do not need it

    isa_sets = chip_isa_sets(cpu)
    return lambda variant: variant.isa_set.upper() in isa_sets


def _usable(name: str, flags: frozenset[str]) -> bool:
    """Whether the kernel saves the registers of that ISA set."""
    return next((flag in flags for beginnings, flag in STATE_FLAGS if name.startswith(beginnings)), True)


def _present(name: str, cpu: int) -> bool:
    return any(all(_holds(test, cpu) for test in tests) for tests in isa_set_tests()[name])


def _holds(test: CpuidTest, cpu: int) -> bool:
    return test.holds(_leaf(test.leaf, test.subleaf, cpu))


@cache
def _leaf(leaf: int, subleaf: int, cpu: int) -> tuple[int, int, int, int]:
    return cpuid(leaf, subleaf, cpu)
