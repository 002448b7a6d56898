"""Whether LLVM's programs are here."""

import pytest

from analysis.aarch64 import llvm
from analysis.aarch64.llvm import ToolError


def need_llvm() -> None:
    """Skip where LLVM's programs are not installed."""
    try:
        llvm.program("llvm-mca")
        llvm.program("llvm-mc")
    except ToolError as error:
        pytest.skip(str(error))
