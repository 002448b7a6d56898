"""Makes standard output and error usable under any locale and shell."""

from __future__ import annotations

import codecs
import io
import os
import sys
from pathlib import Path

PLAIN = {"µ": "u", "→": "->", "≤": "<=", "≥": ">=", "✗": "x", "±": "+-", "…": "..."}
"""What stands for the tool's own characters where the encoding of the locale lacks them (a bare ? means unknown)."""

HANDLER = "uopscope.plain"


def prepare() -> None:
    """Let both streams take any text: in an encoding that lacks a character, and where one is closed."""
    codecs.register_error(HANDLER, _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell (`>&-`), as services do; a campaign can run all the same
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be encoded (an error handler of `codecs`)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in text), error.end
