"""A prediction from Python says what the command says."""

import pytest

import uopscope
from tests.shared import measured_haswell


def test_the_object_shows_the_report_and_has_its_numbers() -> None:
    found = uopscope.analyze("imul rax, rbx; imul rax, rcx", data=measured_haswell())
    assert (found.cycles, found.limits) == (6.0, ["dependencies"])
    assert "6.00 cycles per iteration" in repr(found)
    assert found.json()["cycles_per_iteration"] == found.cycles
    same = uopscope.analyze(code=bytes.fromhex("480fafc3480fafc1"), data=measured_haswell(), runs="unrolled")
    assert same.json() == found.json()


@pytest.mark.parametrize(
    "options", [{}, {"asm": "nop", "code": b"\x90"}, {"asm": "nop", "runs": "twice"}, {"asm": "nop", "arch": "NOSUCH"}]
)
def test_wrong_arguments_are_errors_of_ours(options: dict[str, object]) -> None:
    with pytest.raises(uopscope.Error):
        uopscope.analyze(**options)  # type: ignore[arg-type] # wrong on purpose
