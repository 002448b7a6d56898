"""Optional packages: they are imported when first needed, and an error says how to get them.

`pyproject.toml` has an extra for each; a test holds the two together.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from types import ModuleType

REQUIREMENTS = {
    "pandas": ("frames", "pandas>=2.1"),
    "pyarrow": ("parquet", "pyarrow>=15.0"),
    "matplotlib": ("plot", "matplotlib>=3.8"),
    "scipy": ("fit", "scipy>=1.11"),
}
"""For each package: the extra that it is in, and what pip installs."""


class MissingPackageError(UopscopeError):
    """A package that is not installed with the core is needed; the hint is the command that installs it."""

    exit_code = 3


def extra(package: str, what_for: str) -> ModuleType:
    """Import a package of an extra.

    Raises:
        MissingPackageError: it is not installed.
    """
    name, requirement = REQUIREMENTS[package]
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingPackageError(
            f"{what_for} needs {package}, which is not installed",
            hint=f"{sys.executable} -m pip install '{requirement}'   (or install uopscope with the extra {name!r})",
        ) from error
