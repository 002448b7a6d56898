"""Flags of which an instruction writes only some: simulated machines, and answers of made-up cores."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.sequences.flags import PartialFlags, flag_access, partial_flags
from generator.sequences.throughput import ThroughputFactory
from inference.attributes.flags import measure_flags
from inference.builder import ConclusionBuilder
from inference.experiment import Measured
from inference.forms import MEASURED
from results.model import Derivation, Status
from results.sentences import lines
from tests.inference.simulated import catalogue, context, simulated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Request

PLAIN = {"flags_renamed_apart": 1, "flags_merge_cycles": 0, "flags_merge_uops": 0}
FRESH = {"flags_renamed_apart": 1, "flags_merge_cycles": 0}
SIMULATED = {
    "INC (R64)": {**PLAIN, "flags_merge_cycles": 1},
    "DEC (R64)": PLAIN,
    "BT (R64, R64)": PLAIN,
    "CLC": PLAIN,
    "SAHF": PLAIN,
    "ADD_01 (R64, R64)": {},
    "ADC_11 (R64, R64)": {},
    "CMC": FRESH,
    "RCL (R64, 1)": FRESH,
    "MOV (R64, M64)": {},
}
"""Attributes on the machine with the rules of `simulator/models/late_forms.tsv`; others have nothing that merges."""


def measured_plain(machine: str, string: str) -> ConclusionBuilder:
    """Return what is known of a variant before its flags are looked at."""
    found = ConclusionBuilder(catalogue().by_string(string))
    for measure in MEASURED:
        simulated(machine).session.run_one(measure(found, context(machine, found.variant)))
    found.attributes.clear()
    return found


@pytest.mark.parametrize(("string", "expected"), SIMULATED.items())
def test_flags_on_simulated_machines(string: str, expected: dict[str, int]) -> None:
    for machine, attributes in (
        ("HSW:producer", expected),
        ("HSW", {**expected, "flags_merge_cycles": 0} if expected else {}),
    ):
        found = measured_plain(machine, string)
        simulated(machine).session.run_one(measure_flags(found, context(machine, found.variant)))
        assert found.attributes == attributes
        assert len(found.derivations) == bool(expected) + len(measured_plain(machine, string).derivations)


def code_of(string: str) -> PartialFlags | None:
    return partial_flags(ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string(string)))


def answered(*cycles: Fraction, string: str = "INC (R64)") -> tuple[dict[str, int], Sequence[Derivation]]:
    """Return what is concluded of an instruction from the times of the chains, on a core without counters."""
    found = measured_plain("HSW", "INC (R64)")
    found.variant = catalogue().by_string(string)
    found.derivations.clear()
    procedure = measure_flags(found, context("HSW", found.variant))
    requests: list[Request] = list(next(procedure))
    with pytest.raises(StopIteration):
        procedure.send(
            [
                Measured(request, Status.OK, {"core_cycles": one}, {})
                for request, one in zip(requests, cycles, strict=True)
            ]
        )
    return found.attributes, found.derivations


def test_a_core_that_renames_flags_as_one_register_is_found_out() -> None:
    attributes, (derivation,) = answered(Fraction(3), Fraction(4), Fraction(4))
    assert attributes == {"flags_renamed_apart": 0, "flags_merge_cycles": 1}
    times = "3.00 cycles, 4.00 with the instruction in it, 4.00 through its own flags only"
    told = "it waits for the flags that it leaves unchanged"
    assert lines(derivation) == [f"a chain through flags takes {times}: {told}"]


def test_a_shift_by_cl_waits_for_the_flags_that_it_may_keep_or_does_not() -> None:
    attributes, (derivation,) = answered(Fraction(3), Fraction(4), string="SHL (R64, CL)")
    assert attributes == {"flags_renamed_apart": 0}
    times = "3.00 cycles, 4.00 through its own flags only"
    told = "it waits for the flags that it leaves unchanged"
    assert lines(derivation) == [f"a chain through flags takes {times}: {told}"]
    assert answered(Fraction(3), Fraction(1), string="SHL (R64, CL)")[0] == {"flags_renamed_apart": 1}


def test_noise_is_no_merge() -> None:
    assert answered(Fraction(3), Fraction(31, 10), Fraction(1))[0] == {
        "flags_renamed_apart": 1,
        "flags_merge_cycles": 0,
    }
    assert answered(Fraction(3), Fraction(35, 10), Fraction(1))[0] == {"flags_renamed_apart": 1}


def test_the_code_reads_a_flag_of_each_kind() -> None:
    code = code_of("INC (R64)")
    assert code is not None
    assert code.both is not None
    assert [line.text for line in code.both.body] == ["TEST RDX, RDX", "INC RBX", "SETBE CL", "MOVSX RDX, CL"]
    assert [line.text for line in code.own.body][2] == "SETZ CL"
    sahf = code_of("SAHF")
    assert sahf is not None
    assert sahf.both is not None
    assert [line.text for line in sahf.both.body][2] == "SETLE DL"


def test_what_an_instruction_reads_is_written_early() -> None:
    code = code_of("CMC")
    assert code is not None
    assert code.both is not None
    assert [line.text for line in code.both.body] == ["TEST RBX, RBX", "CLC", "CMC", "SETBE DL", "MOVSX RBX, DL"]
    assert [line.text for line in code.own.body][3] == "SETB DL"


def test_what_keeps_flags_on_a_condition_merges_nothing() -> None:
    code = code_of("SHL (R64, CL)")
    assert code is not None
    assert code.both is None
    assert [line.text for line in code.own.body][1:3] == ["SHL RBX, CL", "SETB R8B"]
    assert [line.text for line in code.whole.body][1] == "SETB R8B"


def test_what_reads_other_flags_or_keeps_none_has_no_code() -> None:
    for string in ("ADOX (R64, R64)", "INC (M64)", "ADD_01 (R64, R64)", "ADC_11 (R64, R64)", "CMOVZ (R64, R64)"):
        assert code_of(string) is None


def test_access_to_flags() -> None:
    access = flag_access(ThroughputFactory(InstructionFactory(catalogue()), catalogue().by_string("RCL (R64, CL)")))
    assert access.read == {"CF"}
    assert access.written == frozenset()
    assert access.conditional == {"CF"}
    assert access.kept == {"ZF", "SF", "PF", "AF"}
