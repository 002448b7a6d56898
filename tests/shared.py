"""Reference material beside the checkout: where tests find it, and why they skip where it is not.

The folder `shared` beside the checkout, or the one that the environment variable UOPSCOPE_SHARED names. Single parts
have variables of their own: XED_DATAFILES (a folder as `xed/<version>/datafiles`), UOPSCOPE_REFERENCE (as
`visible.xml.xz`), UOPSCOPE_PERFMON (`perfmon`), UOPSCOPE_MODELS (`models`). The product itself never looks there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
XED_OLD = "2024.11.04"
XED_NEW = "2026.07.15"


def shared_folder() -> Path | None:
    """Return the folder of reference material, or None."""
    places = [Path(named)] if (named := os.environ.get("UOPSCOPE_SHARED")) else [CHECKOUT.parent / "shared"]
    return next((place for place in places if place.is_dir()), None)


def shared(part: str, *, variable: str = "") -> Path:
    """Return the path of a part of it ("perfmon/events.csv"), which `variable` may name instead; skip without it."""
    if variable and (named := os.environ.get(variable)):
        path = Path(named)
        if not path.exists():
            pytest.skip(f"{variable} names {named}, which does not exist")
        return path
    folder = shared_folder()
    if folder is None:
        pytest.skip("no folder `shared` beside the checkout, and UOPSCOPE_SHARED names none")
    path = folder / part
    if not path.exists():
        pytest.skip(f"{part} is not in the shared folder")
    return path


def xed_datafiles(version: str = XED_NEW) -> Path:
    """Return XED's datafiles of that version (XED_DATAFILES names those of the newest)."""
    return shared(f"xed/{version}/datafiles", variable="XED_DATAFILES" if version == XED_NEW else "")


def reference_xml() -> Path:
    """Return the sample of the reference catalogue."""
    return shared("reference/visible.xml.xz", variable="UOPSCOPE_REFERENCE")


def perfmon_folder() -> Path:
    """Return the folder of PMU events."""
    return shared("perfmon", variable="UOPSCOPE_PERFMON")


def models_folder() -> Path:
    """Return the folder of port models."""
    return shared("models", variable="UOPSCOPE_MODELS")
