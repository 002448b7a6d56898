"""Bytes to instructions in their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analysis.block.reader import CodeReader
from analysis.block.repeated import in_repeated
from tests.analysis.machine import shipped_machine
from xed_convert.assembly.assembler import assemble, shipped_assembler

if TYPE_CHECKING:
    from analysis.block.effects import InstructionEffects

NEIGHBOURS = {
    "ZEN4": "movsd xmm0, [rsi]; sqrtsd xmm0, xmm1; nop; add rax, rbx; nop",
    "HSW": "mov ah, bl; lea rcx, [rax]; movzx edx, ah; jne 0x1000",
}
"""Code in which instructions depend on those before them."""


def effects(reader: CodeReader, text: str) -> list[InstructionEffects]:
    return [item.effects for item in reader.block(assemble(text)).items]


@pytest.mark.parametrize(("architecture", "text"), NEIGHBOURS.items())
def test_a_reader_that_forgets_reads_the_same(architecture: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = CodeReader(shipped_machine(architecture), shipped_assembler().decoder)
    expected = effects(known, text)
    monkeypatch.setattr("analysis.block.reader.MOST_REMEMBERED", 2)
    forgetful = CodeReader(shipped_machine(architecture), shipped_assembler().decoder)
    assert [effects(forgetful, text) for _ in range(3)] == [expected] * 3
    assert effects(known, text) == expected
    alone = [effects(known, one)[0] for one in text.split(";")]
    assert alone != expected


def test_what_the_end_leaves_is_there_at_the_beginning() -> None:
    last = [""]

    def before(name: str) -> str:
        found, last[0] = last[0], name
        return found

    assert in_repeated(["a", "b", "c"], before) == ["c", "a", "b"]
