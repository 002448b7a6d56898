"""Reference material: where tests find it, and why they skip where it is not.

XED's datafiles and the PMU events are in `tests/data`, with their licences; the variables XED_DATAFILES (a folder) and
UOPSCOPE_PERFMON (a table) name others. So are samples of LLVM's port models and of a reference catalogue. The whole of
them, and what others measured, is looked for in the folder `shared` beside the checkout, or in the one that
UOPSCOPE_SHARED names. The product itself looks in neither.
"""

from __future__ import annotations

import atexit
import lzma
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
DATA = Path(__file__).with_name("data")
XED_OLD = "2024.11.04"
XED_NEW = "2026.07.15"


def shared_folder() -> Path | None:
    """Return the folder of reference material, or None."""
    places = [Path(named)] if (named := os.environ.get("UOPSCOPE_SHARED")) else [CHECKOUT.parent / "shared"]
    return next((place for place in places if place.is_dir()), None)


def shared(part: str) -> Path:
    """Return the path of a part of it ("reference/visible.xml.xz"); skip without it."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("no folder `shared` beside the checkout, and UOPSCOPE_SHARED names none")
    path = folder / part
    if not path.exists():
        pytest.skip(f"{part} is not in the shared folder")
    return path


def named_by(variable: str) -> Path | None:
    """Return the path that an environment variable names, None without it; fail if nothing is there."""
    if not (named := os.environ.get(variable)):
        return None
    path = Path(named)
    assert path.exists(), f"{variable} names {named}, which does not exist"
    return path


def xed_datafiles(version: str = XED_NEW) -> Path:
    """Return a folder with XED's datafiles of that version (XED_DATAFILES names those of the newest)."""
    return (named_by("XED_DATAFILES") if version == XED_NEW else None) or _unpacked(version)


@cache
def _unpacked(version: str) -> Path:
    """Unpack the datafiles of a version; they are removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="uopscope-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(DATA / "xed" / "datafiles.tar.xz") as archive:
        for member in archive:
            if Path(member.name).parts[0] == version and (content := archive.extractfile(member)):
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())  # `extractall` cannot refuse links before Python 3.11.4
    return folder / version / "datafiles"


def perfmon_events() -> str:
    """Return the table of PMU events (CSV)."""
    if named := named_by("UOPSCOPE_PERFMON"):
        return (named / "events.csv" if named.is_dir() else named).read_text(encoding="utf-8")
    return lzma.decompress((DATA / "perfmon" / "events.csv.xz").read_bytes()).decode()


def llvm_models() -> Path:
    """Return a folder with LLVM's port models of Intel's CPUs: all variants where they are shared, else a sample."""
    return _shared_or("models/llvm19", DATA / "llvm19")


def measured_haswell() -> Path:
    """Return a sample of what uops.info measured on a Haswell, as an instructions.xml."""
    return DATA / "measured" / "HSW.sample.xml.xz"


def reference_xml() -> Path:
    """Return a part of the reference catalogue: a third where it is shared, else a sample of that."""
    return _shared_or("reference/visible.xml.xz", DATA / "reference" / "sample.xml.xz")


def _shared_or(part: str, sample: Path) -> Path:
    folder = shared_folder()
    return folder / part if folder is not None and (folder / part).exists() else sample
