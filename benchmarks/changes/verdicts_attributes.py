"""Verdicts about attributes of instructions, on simulated machines where they differ from what is usual.

A machine's row of `MACHINES` says how it is made, the attributes that are judged, and the true ones of some variants.
An attribute that is not listed for a variant must not be stated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from inference.characterizer import Characterizer
from inference.variant import characterize_variant
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.changes.kept import Kept
    from inference.characterizer import CandidateCache
    from simulator.machines.machine import MachineModel
    from xed_convert.catalogue.catalogue import Catalogue


class JudgedMachine(NamedTuple):
    """A machine, the prefixes of the attributes that are judged, and the true attributes by variant."""

    make: Callable[[], MachineModel]
    prefixes: tuple[str, ...]
    truth: Mapping[str, Mapping[str, int]]


DIVIDERS = {
    "DIVPS (XMM, XMM)": "p0 13 <1 <2 >1 div=7 fast=9/4",
    "VDIVPD (YMM, YMM, YMM)": "p0 28 <2 <3 >1 div=16 fast=12/8",
    "SQRTSD (XMM, XMM)": "p0 20 <2 >1 div=13 fast=10/6",
}
"""Graphs of dividers that are fast for the usual values, but not for long mantissas."""
SLOTS = (2, 3, 1)
"""Elimination slots of general-purpose registers and of vectors, and moves of one register per cycle.

So few slots eliminate 25% and 49% of independent moves. How many depends on the sequence, so it is not judged.
"""

MACHINES = {
    "bypass": JudgedMachine(
        lambda: open_machine("HSW:bypass"),
        ("bypass_",),
        {
            "VADDPS (YMM, YMM, YMM)": {"bypass_integer": 2},
            "ADDSD (XMM, XMM)": {"bypass_integer": 2},
            "PADDD (XMM, XMM)": {"bypass_float": 2},
            "VPMULLD (YMM, YMM, YMM)": {"bypass_float": 2},
            "ADD_01 (R64, R64)": {},
        },
    ),
    "producers": JudgedMachine(
        lambda: open_machine("HSW:producer"),
        ("slower_after_", "flags_"),
        {
            "SHLX (R64, R64, R64)": {
                "slower_after_mov_imm64": 2,
                "slower_after_add_imm": 2,
                "slower_after_inc": 2,
            },
            "ADDPS (XMM, XMM)": {"slower_after_dirty_uppers": 1},
            "ADDPD (XMM, XMM)": {},
            "INC (R64)": {"flags_renamed_apart": 1, "flags_merge_cycles": 1, "flags_merge_uops": 0},
            "BT (R64, R64)": {"flags_renamed_apart": 1, "flags_merge_cycles": 0, "flags_merge_uops": 0},
        },
    ),
    "values": JudgedMachine(
        lambda: open_machine("HSW").changed(DIVIDERS),
        ("slower_with_", "faster_with_"),
        {
            "DIVPS (XMM, XMM)": {"slower_with_long_mantissas": 4},
            "VDIVPD (YMM, YMM, YMM)": {"slower_with_long_mantissas": 16},
            "SQRTSD (XMM, XMM)": {"slower_with_long_mantissas": 10},
            "MULPS (XMM, XMM)": {},
            "PDEP (R64, R64, R64)": {},
            "IMUL (R64, R64)": {},
        },
    ),
    "elimination": JudgedMachine(
        lambda: open_machine("HSW").with_parameters(elimination=SLOTS),
        ("eliminated_per_cycle", "eliminated_percent_chain", "elimination_slots"),
        {
            "MOV_89 (R64, R64)": {
                "eliminated_percent_chain": 100,
                "eliminated_per_cycle": 1,
                "elimination_slots": 2,
            },
            "VMOVAPS_28 (YMM, YMM)": {
                "eliminated_percent_chain": 100,
                "eliminated_per_cycle": 1,
                "elimination_slots": 3,
            },
            "ADD_01 (R64, R64)": {},
        },
    ),
}


def verdicts(name: str, catalogue: Catalogue, cache: CandidateCache, source: Kept) -> dict[str, str]:
    """Return the verdicts about the attributes of a machine's variants, by variant and attribute."""
    machine = MACHINES[name]
    backend = SimBackend(machine.make(), catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities, candidates=cache)
    session = Session(Measurer(backend), source, Limits(keep_raw=False))
    variants = [catalogue.by_string(string) for string in machine.truth]
    context = session.run_one(characterizer.prepare(variants))
    found = {}
    for variant in variants:
        true = machine.truth[variant.string]
        attributes = session.run_one(characterize_variant(variant, context)).attributes
        stated = {key for key in attributes if key.startswith(machine.prefixes)}
        for key in sorted(stated | true.keys()):
            found[f"{variant.string} {key}"] = judged(attributes.get(key), true.get(key))
        if not stated | true.keys():
            found[f"{variant.string} none stated"] = "right"
    return found


def judged(found: int | None, true: int | None) -> str:
    """Return the verdict about an attribute; where there is none, stating none is right."""
    return "right" if found == true else "none" if found is None else "wrong"
