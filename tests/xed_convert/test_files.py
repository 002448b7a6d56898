"""Output files: packed as their names say, or refused."""

from __future__ import annotations

import gzip
import lzma
from typing import TYPE_CHECKING

import pytest

from xed_convert.files import NOT_WRITTEN, PackingError, check_writable, named_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = b"text\n" * 1000


@pytest.mark.parametrize(
    ("name", "unpacked"),
    [
        ("x.csv", bytes),
        ("x", bytes),
        ("x.csv.gz", gzip.decompress),
        ("x.xml.xz", lzma.decompress),
    ],
)
def test_a_file_is_packed_as_its_name_says(tmp_path: Path, name: str, unpacked: Callable[[bytes], bytes]) -> None:
    written = []
    for _ in range(2):
        check_writable(tmp_path / name)
        with named_write(tmp_path / name) as file:
            file.write(TEXT)
        written.append((tmp_path / name).read_bytes())
    assert unpacked(written[0]) == TEXT
    assert written[0] == written[1]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("suffix", [*sorted(NOT_WRITTEN), ".ZIP"])
def test_other_ways_of_packing_are_refused(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(PackingError, match=rf"no \{suffix} file can be written"):
        check_writable(tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())


def test_a_packed_file_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with named_write(tmp_path / "x.gz") as file:
            file.write(TEXT)
            message = "midway"
            raise ValueError(message)

    with pytest.raises(ValueError, match="midway"):
        fail()
    assert not list(tmp_path.iterdir())
