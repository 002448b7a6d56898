"""The GNU assembler as the last resort, where it is installed."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

LIMIT_SECONDS = 2.0
"""For one text: it needs some milliseconds."""
LIMIT_BYTES = 1 << 20
"""Of the object file."""
LIMIT_MEMORY = 1 << 30


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_MEMORY, LIMIT_MEMORY))


def assemble(text: str, *, intel: bool) -> bytes | None:
    """Return the bytes of a text; None: there is no GNU assembler here, or it cannot assemble the text alone either."""
    from runner.own_code.reading.objects import ObjectError, section_code  # noqa: PLC0415 - seldom needed, slow to import

    program = shutil.which("as")
    if not program:
        return None
    source = (".intel_syntax noprefix\n" if intel else "") + text + "\n"
    with tempfile.TemporaryDirectory(prefix="uopscope-") as folder:
        made = Path(folder) / "text.o"
        try:
            done = subprocess.run(
                [program, "--64", "-o", str(made), "-"],
                input=source.encode(errors="replace"),
                capture_output=True,
                timeout=LIMIT_SECONDS,
                check=False,
                preexec_fn=_limit,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode or not made.exists():
            return None
        try:
            return section_code(made, ".text") or None
        except ObjectError:
            return None
