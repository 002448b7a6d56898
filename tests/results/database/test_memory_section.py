"""`<memory>` elements: written, read back, and passed over by readers of instructions."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.database.memory_section import memory_sections, read_memories, write_memories
from results.database.reader import DatabaseError, read_database, read_provenances
from results.database.writer import write_database
from results.memory.model import Time
from tests.results.memory.strategies import reports
from tests.results.memory.test_documents import REPORT

if TYPE_CHECKING:
    from pathlib import Path

    from results.memory.model import MemoryReport


def written(found: list[MemoryReport]) -> bytes:
    file = io.BytesIO()
    write_memories(found, file)
    return file.getvalue()


@given(found=st.lists(reports, max_size=2))
def test_what_was_written_is_read_back(found: list[MemoryReport], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("memory") / "memory.xml"
    path.write_bytes(written(found))
    assert read_memories(path) == found


def test_flushes_in_older_files_have_the_labels_of_today(tmp_path: Path) -> None:
    today = Time("flush", (("instruction", "CLFLUSH"), ("line", "always the same, not cached")), Fraction(300))
    path = tmp_path / "memory.xml"
    text = written([replace(REPORT, times=(today,))])
    path.write_bytes(text.replace(b"always the same, not cached", b"not cached"))
    assert path.read_bytes() != text
    assert read_memories(path)[0].times == (today,)


@given(found=st.lists(reports, min_size=1, max_size=2))
def test_readers_of_instructions_pass_over_it(
    found: list[MemoryReport], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("memory") / "instructions.xml"
    with path.open("wb") as file:
        write_database([], [one.provenance for one in found], file, memory_sections(found))
    ordered = sorted(found, key=lambda one: one.provenance.architecture)
    assert read_memories(path) == ordered
    assert list(read_database(path)) == []
    assert len(read_provenances(path)) == len(found)


@pytest.mark.parametrize(
    "text",
    [
        '<memory architecture="X"><store_forwarding><pair store="r8" load="r8"/></store_forwarding></memory>',
        '<memory><store_forwarding><access name="r8" bytes="one" file="general"/></store_forwarding></memory>',
        "<memory>",
    ],
)
def test_another_form_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.xml"
    path.write_text(f"<root>\n{text}\n</root>\n")
    with pytest.raises(DatabaseError, match=r"wrong\.xml:\d+: "):
        read_memories(path)
