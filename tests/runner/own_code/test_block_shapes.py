"""Tables of blocks, and what is told from a block's bytes."""

from __future__ import annotations

import pytest

from runner.own_code.block_shapes import read_blocks
from runner.own_code.code import MeasureError


@pytest.mark.parametrize(
    "first", ["", "hex,cycles\n", "\N{BYTE ORDER MARK}hex\n", "\N{BYTE ORDER MARK}", "code\tcycles\n"]
)
def test_a_table_may_begin_with_a_header_or_a_byte_order_mark(first: str) -> None:
    lines = (first + '4801d8,1.0\n\n"90"\n').splitlines(keepends=True)
    assert list(read_blocks(lines, "here")) == [bytes.fromhex("4801d8"), b"\x90"]


@pytest.mark.parametrize("text", ["\x7fELF\x02\n90\n", "90\n\N{REPLACEMENT CHARACTER}\n"])
def test_what_is_no_text_is_called_so(text: str) -> None:
    with pytest.raises(MeasureError, match="here: not a text"):
        list(read_blocks(text.splitlines(), "here"))
