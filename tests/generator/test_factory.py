"""Instructions that generators use by name: which of them write status flags."""

from __future__ import annotations

import pytest

from generator.chains.links import links
from generator.factory import InstructionFactory
from generator.operands.places import STATUS_FLAGS
from tests.inference.simulated import catalogue
from tests.nonempty import some
from xed_convert.errors import UnknownInstructionError


@pytest.mark.parametrize(
    ("strings", "writes"),
    [
        (("XOR_31 (R64, R64)",), True),
        (("MOV_89 (R64, R64)", "INC (R64)"), True),
        (("CMC",), True),
        (("CMOVZ (R64, R64)", "SETB (R8l)"), False),  # they only read flags
        (("FCHS (ST0, ST(0))",), False),  # condition codes of x87 are no status flags
        ((), False),
    ],
)
def test_code_that_writes_a_status_flag_is_known(strings: tuple[str, ...], writes: bool) -> None:
    assert InstructionFactory(catalogue()).writes_flags([(string, ()) for string in strings]) is writes


def test_an_unknown_instruction_is_an_error() -> None:
    with pytest.raises(UnknownInstructionError):
        InstructionFactory(catalogue()).writes_flags([("NONE (R64)", ())])


def test_links_by_logic_overwrite_flags_and_links_into_a_flag_do_not() -> None:
    """A chain has to put back the flags that its links overwrite, but not the flag that it goes through."""
    instructions = InstructionFactory(catalogue())
    found = {link.name: link.clobbers_flags(instructions) for link in some(links(), 100)}
    assert not any(link.clobbers_flags(instructions) for link in links() if link.target in STATUS_FLAGS)
    assert {name for name, clobbers in found.items() if clobbers} == {"restore", "xor2"}
