"""A microbenchmark: code bytes with their assembly, and what must be measured about them.

Generation is deterministic: the same variant and options give the same bytes, hence the same id.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = bytes.fromhex("043f81c2b113b5")
"""The first bytes of PAUSE and RESUME (`generator.harness.style`), which pause and resume the counters."""


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction of a code sequence: its bytes and its text in Intel syntax (for people, never reassembled).

    `accesses_memory` if it is known to load or store.
    """

    code: bytes
    text: str
    key: str = ""
    accesses_memory: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Microbenchmark:
    """Code to be measured per copy of `body`.

    - `setup` runs once per run, before the counters are read (initial values).
    - `body` is what is copied.
    - `divisor` is how many instances of the instruction under test one copy holds, for throughput sequences.
    - `purpose` says for people what it must show ("latency 1→2 of ADC_13 (R64, R64) through MOVSX").
    - `privileged` code needs ring 0.
    - `late` and `once` are for code of a user. `late` runs after the counters are read, once before all copies. `once`
      runs in the first repetition only, before the setup, and hands on nothing but memory.

    Registers that code must leave alone are in `generator.operands.reserved`.
    """

    setup: tuple[Line, ...]
    body: tuple[Line, ...]
    purpose: str
    divisor: int = 1
    privileged: bool = False
    late: tuple[Line, ...] = ()
    once: tuple[Line, ...] = ()

    @cached_property
    def setup_code(self) -> bytes:
        """The bytes of the one-time part."""
        return b"".join(line.code for line in self.setup)

    @cached_property
    def body_code(self) -> bytes:
        """The bytes of one copy."""
        return b"".join(line.code for line in self.body)

    @cached_property
    def late_code(self) -> bytes:
        """The bytes of the part between the counters' start and the first copy."""
        return b"".join(line.code for line in self.late)

    @cached_property
    def once_code(self) -> bytes:
        """The bytes of the part that only the first repetition runs."""
        return b"".join(line.code for line in self.once)

    @cached_property
    def has_marks(self) -> bool:
        """Whether the body pauses the counters (see PAUSE in `generator.harness.style`)."""
        return MARK in self.body_code

    @cached_property
    def id(self) -> str:
        """A hash of what is executed: microbenchmarks of the same code are the same, for any purpose."""
        digest = hashlib.blake2b(self.setup_code, digest_size=12, person=b"uopscope")
        digest.update(b"\x00|" + self.body_code)
        if self.late or self.once:
            digest.update(b"\x00late|" + self.late_code + b"\x00once|" + self.once_code)
        return digest.hexdigest()


def code_bytes(lines: Sequence[Line]) -> int:
    """Return how many bytes lines of code take."""
    return sum(len(line.code) for line in lines)
