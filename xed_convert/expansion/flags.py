"""The FLAGS of records: `ROW ACTION [ flag-what ... ], ...` as accesses by flag.

Rows say when they apply. MUST and READONLY: always. MAY: sometimes, so its writes are conditional. IMM0, IMM1, IMMx:
if the immediate is 0, 1, or something else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xed_convert.datafiles.records import Record

_ROW = re.compile(r"\s*([A-Za-z0-9_ ]+?)\s*\[([^\]]*)\]\s*,?")
_ITEM = re.compile(r"([a-z0-9]+)-([a-z0-9]+)")
_READ = frozenset({"tst"})
_WRITTEN = frozenset({"mod", "0", "1", "pop", "ah"})
_UNDEFINED = "u"
_OTHER_IMMEDIATES = frozenset({"IMM1", "IMMX"})
"""Rows that do not apply if the immediate is 0."""


def flag_accesses(record: Record, *, immediate_is_zero: bool) -> dict[str, str]:
    """Return the access ("r", "w", "cw", "r/w", "r/cw", "undef") by flag ("CF"), in the order of the names.

    Raises:
        ConversionError: FLAGS is not of the known form.
    """
    rows: list[tuple[str, str]] = []
    position = 0
    text = record.flags.rstrip()
    while position < len(text):
        match = _ROW.match(text, position)
        if not match:
            raise record.error(f"expected FLAGS of the form `MUST [ of-mod ... ]`, not {text[position:]!r}")
        rows.append((match[1].upper(), match[2]))
        position = match.end()
    reads: set[str] = set()
    writes: dict[str, str] = {}
    for name, items in rows:
        words = set(name.split())
        if immediate_is_zero and _OTHER_IMMEDIATES & words:
            continue
        for item in items.lower().split():
            flag, access = _read_item(item, record)
            if access == "r":
                reads.add(flag)
            else:
                writes[flag] = "cw" if access == "w" and "MAY" in words else access
    return {flag: _join(flag in reads, writes.get(flag, "")) for flag in sorted(reads | writes.keys())}


def _read_item(item: str, record: Record) -> tuple[str, str]:
    """Read `zf-mod` as flag and access."""
    match = _ITEM.fullmatch(item)
    if not match:
        raise record.error(f"expected a flag and what happens to it, such as zf-mod, not {item!r}")
    flag, what = match[1].upper(), match[2]
    if what in _READ:
        return flag, "r"
    if what in _WRITTEN:
        return flag, "w"
    if what == _UNDEFINED:
        return flag, "undef"
    raise record.error(f"expected mod, tst, u, 0, 1, pop or ah behind the flag, not {what!r}")


def _join(read: bool, written: str) -> str:
    """Join a flag's read with the way it is written."""
    if not read:
        return written
    return "r" if written in ("", "undef") else f"r/{written}"
