"""The version of uopscope, as it goes into the provenance of results."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


@cache
def version() -> str:
    """Return the version of the checkout that this file is in, or of the installed package."""
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if project.is_file():
        with project.open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])
    from importlib import metadata  # noqa: PLC0415 - takes long, and a checkout does not need it

    return metadata.version("uopscope")
