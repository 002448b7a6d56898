"""What `uopscope analyze` and `uopscope.analyze` share: the machine by default, and text with a marked region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.machines import known, open_machine
from analysis.markers import is_att, marked_code, marked_text
from analysis.prediction import Tools
from runner.host.cpu import choose, read_cpu
from runner.own_code.text import Syntax, assemble
from xed_convert.assembly.assembler import shipped_assembler
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from pathlib import Path


def tools_for(name: str, data: Path | None, *, bhive: bool = False) -> Tools:
    """Return what analyzes code for a CPU ("": the only one of the file, or the CPU at hand).

    Raises:
        UopscopeError: there is nothing about it.
    """
    machine = open_machine(name or ("" if data is not None else this_cpu()), data)
    return Tools.of(machine, shipped_assembler().decoder, bhive=bhive)


def this_cpu() -> str:
    """Return the name of the CPU at hand if something is shipped about it, else ""."""
    try:
        name = read_cpu(choose()).architecture
    except UopscopeError:
        return ""
    return name if name in known() else ""


def assemble_region(text: str, syntax: Syntax | None = None) -> bytes:
    """Return the code of the region that is marked in a text, or of all of it without marks.

    Args:
        text: assembly text.
        syntax: how it is written (None: AT&T if registers have percent signs).

    Raises:
        AssemblyError: a statement cannot be read or encoded; the message names it.
        AnalysisError: half of the marks is missing.
    """
    region = marked_text(text)
    return marked_code(assemble(region, syntax or (Syntax.ATT if is_att(region) else Syntax.INTEL)))
