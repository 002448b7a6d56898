"""What registers and memory hold before code runs, where that is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Environment:
    """What registers and memory hold in the beginning, and the bytes of the one page to which all addresses lead.

    `others` are registers that hold something else. Copies in a row begin `code_offset` bytes after a multiple of 16.
    If the code `restarts`, all registers hold this again after each iteration, or after `instructions` of copies in a
    row. With `zero_vectors`, vector registers are zero (else nothing is known of them).
    """

    value: int
    page_bytes: int
    others: Mapping[str, int] = field(default_factory=dict)
    code_offset: int = 0
    restarts: bool = False
    instructions: int = 1
    zero_vectors: bool = False


BHIVE = Environment(0x2324000, 4096, {"RSP": 0x2324800, "RBP": 0x2324A40}, code_offset=15)
"""BHive's harness (github.com/ithemal/bhive, timing-harness): INIT_VALUE, PAGE_SIZE, and the stack in mid-page.

Two things follow from the times of the tuning half. The code begins where all blocks are explained best: the error of
the bounds is 0.2% less than with any even offset. RBP is neither RSP nor the value of the others, and no multiple of
512. So eight times RBP leads to another place of the page than eight times the others. Its exact value makes hardly any
difference.
"""


MEASURED = Environment(0x2324000, 4096, instructions=500, zero_vectors=True)
"""As this program measures blocks (`runner.own_code.blocks`): all registers hold one value, RSP and RBP too.

Vectors are zero: on a Zen 4, CVTSS2SD XMM1, XMM2 takes half a cycle there, and does not wait for XMM1.
"""
