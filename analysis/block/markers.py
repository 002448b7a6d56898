"""The region of code to analyze, as other tools mark it: OSACA, IACA, LLVM-MCA; by comments or by bytes.

    # OSACA-BEGIN        # LLVM-MCA-BEGIN name        mov ebx, 111; .byte 100,103,144
    ...                  ...                          ...
    # OSACA-END          # LLVM-MCA-END               mov ebx, 222; .byte 100,103,144

IACA's bytes are OSACA's, too (Intel Architecture Code Analyzer, user's guide, section on markers; OSACA's manual).
Without marks, all of the code counts. Of several regions, the first one counts.
"""

from __future__ import annotations

import re

from analysis.errors import AnalysisError

BEGIN_BYTES = bytes.fromhex("bb6f000000646790")
"""MOV EBX, 111, and a NOP with two prefixes."""
END_BYTES = bytes.fromhex("bbde000000646790")
"""MOV EBX, 222, and the same NOP."""

_BEGIN = re.compile(r"(?:#|//|;|/\*)\s*(?:OSACA|LLVM-MCA)-BEGIN\b")
_END = re.compile(r"(?:#|//|;|/\*)\s*(?:OSACA|LLVM-MCA)-END\b")
_ATT_REGISTER = re.compile(r"%[a-z][a-z0-9]+\b", re.IGNORECASE)


def marked_lines(text: str) -> tuple[int, int]:
    """Return the first and last line (from 1) between the comments that mark a region, or of all of the text.

    Raises:
        AnalysisError: one of the two marks is missing, or they are in the wrong order.
    """
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines, 1) if _BEGIN.search(line)), None)
    end = next((number for number, line in enumerate(lines, 1) if _END.search(line)), None)
    if begin is None and end is None:
        return 1, len(lines)
    if begin is None or end is None or end < begin:
        missing = "-BEGIN" if begin is None or (end is not None and end < begin) else "-END"
        raise AnalysisError(f"the marked region has no {missing}", hint="# OSACA-BEGIN and # OSACA-END, in this order")
    return begin + 1, end - 1


def marked_bytes(code: bytes) -> tuple[int, int]:
    """Return the offsets of the begin and the end of the region that bytes mark, or of all of the code.

    Raises:
        AnalysisError: one of the two marks is missing, or they are in the wrong order.
    """
    begin, end = code.find(BEGIN_BYTES), code.find(END_BYTES)
    if begin < 0 and end < 0:
        return 0, len(code)
    if begin < 0 or end < begin:
        missing = "beginning" if begin < 0 or end >= 0 else "end"
        raise AnalysisError(f"the region that bytes mark has no {missing}", hint="MOV EBX, 111 begins it, 222 ends it")
    return begin + len(BEGIN_BYTES), end


def marked_code(code: bytes) -> bytes:
    """Return the bytes between the marks of a region, or all of them if there are no marks.

    Raises:
        AnalysisError: one of the two marks is missing, or they are in the wrong order.
    """
    begin, end = marked_bytes(code)
    return code[begin:end]


def is_att(text: str) -> bool:
    """Whether text is in AT&T syntax: it names a register with a percent sign."""
    plain = re.sub(r"#.*|//.*", "", text)
    return _ATT_REGISTER.search(plain) is not None
