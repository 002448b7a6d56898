"""Reference material: where tests find it, and why they skip where it is not.

XED's datafiles and the PMU events are in `tests/data`, with their licences. The variables XED_DATAFILES (a folder) and
UOPSCOPE_PERFMON (a table) name others. Samples of LLVM's port models and of a reference catalogue are there, too.

The folder `shared` beside the checkout, or the one that UOPSCOPE_SHARED names, may have the whole of both. It may also
have what others measured. That may not be copied, so tests that need it skip without the folder. The product itself
looks in neither place.
"""

from __future__ import annotations

import atexit
import lzma
import os
import re
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
        reason = f"it needs {part}, but no folder `shared` is beside the checkout, and UOPSCOPE_SHARED names none"
        pytest.skip(reason, allow_module_level=True)
    path = folder / part
    if not path.exists():
        pytest.skip(f"{part} is not in the shared folder", allow_module_level=True)
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


def _folder() -> Path:
    """Return a new folder, which is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="uopscope-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _unpacked(version: str) -> Path:
    """Unpack the datafiles of a version."""
    folder = _folder()
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


@cache
def measured_haswell() -> Path:
    """Return a sample of what uops.info measured on a Haswell, as an instructions.xml; skip without the whole.

    `haswell_sample.txt` names its variants: what microbenchmarks need, and every fourteenth of the others.
    """
    names = set((DATA / "haswell_sample.txt").read_text(encoding="utf-8").splitlines())
    with lzma.open(shared("measured/HSW.uops-info.xml.xz"), "rt", encoding="utf-8") as file:
        parts = re.split(r"(<instruction .*?</instruction>)", file.read(), flags=re.DOTALL)
    kept = [one for one in parts if not one.startswith("<instruction ") or _string_of(one) in names]
    path = _folder() / "HSW.sample.xml.xz"
    path.write_bytes(lzma.compress("".join(kept).encode(), preset=0))
    return path


def _string_of(instruction: str) -> str:
    found = re.search(r' string="([^"]*)"', instruction)
    assert found is not None
    return found[1]


def reference_xml() -> Path:
    """Return a part of the reference catalogue: a third where it is shared, else a sample of that."""
    return _shared_or("reference/visible.xml.xz", DATA / "reference" / "sample.xml.xz")


def _shared_or(part: str, sample: Path) -> Path:
    folder = shared_folder()
    return folder / part if folder is not None and (folder / part).exists() else sample
