"""Code that reads and writes anywhere: pages are mapped when it faults, all to one page; the rest is contained."""

import json
from pathlib import Path
from typing import Any

import pytest

from results.model import Status
from runner.host.kmod import abi
from tests.vm.machines import images
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage
from tests.vm.machines.machine import Machine, boot
from tests.vm.on_demand import BLOBS, BLOCKS, ENTRY

pytestmark = pytest.mark.vm

PRESENT_AND_WRITTEN = 3
"""Error code of a page fault: the page is there, and it was a store (Intel SDM volume 3, 4.7)."""
FETCHED = 0x10
"""Likewise: an instruction was to be read."""
NO_CODE = abi.NO_OFFSET
REASONS = {
    "the kernel's addresses": "address 0xfffffffffff00000 is not a user's",
    "not canonical": "address 0x1234567890abcdef is not canonical",
    "the lowest page": "address 0x0 is in the lowest 64 KiB",
    "misaligned": "misaligned: address 0x2324001",
    "gs:[0x28]": "it uses the segment GS",
    "cli": "privileged",
    "syscall": "system call",
    "ud2": "SIGILL",
}
"""What is said of the blocks that have no number."""


def reports_of(kernel: KernelImage, module: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    script = "insmod /uopscope.ko && python -m tests.vm.inside.on_demand 2>&1\n"
    try:
        machine = Machine(kernel, 2, memory_mib=1024, arguments=images.drives())
        output = boot(machine, {"/uopscope.ko": module}, images.mount_script() + script, 900)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert output.complaints == "", output.everything
    found: dict[str, dict[str, Any]] = {"BLOCK": {}, "BLOB": {}}
    for line in output.lines:
        kind, _, text = line.partition(" ")
        if kind in found:
            found[kind] |= json.loads(text)
    assert set(found["BLOCK"]) == set(BLOCKS), output.everything
    assert set(found["BLOB"]) == {*BLOBS, "kept", "wrong", "masked"}, output.everything
    return found["BLOCK"], found["BLOB"]


def test_pages_are_mapped_when_code_touches_them(kernel: KernelImage, module: Path) -> None:
    blocks, blobs = reports_of(kernel, module)
    for name, results in blocks.items():
        if name in REASONS:
            assert all(REASONS[name] in detail and not samples for _, detail, samples in results), (name, results)
            continue
        assert all((status, detail) == (Status.OK.value, "") for status, detail, _ in results), (name, results)
        assert all(samples == [3] * 3 for *_, samples in results), (name, results)
    check_pages(blobs)
    assert [one["pages"] for one in blobs["kept"]] == [2, 2]
    check_faults(blobs)
    check_what_is_refused(blobs)


def check_pages(blobs: dict[str, Any]) -> None:
    pages = {"nothing": 0, "one page": 1, "two pages": 2, "across two pages": 2, "the last page": 1}
    pages |= {"stack on demand": 1}
    for name, count in pages.items():
        first, between, second = blobs[name]
        for result in (first, second):
            assert (result["status"], result["pages"]) == ("OK", count), (name, result)
            assert result["changed"] == 0
        assert (between["status"], between["pages"]) == ("OK", 0)


def check_faults(blobs: dict[str, Any]) -> None:
    """By vector, error code, offset in the blob, and pages that were mapped before."""
    expected = {
        "address 0": (14, 0, ENTRY + 2, 0),
        "below the first address": (14, 0, ENTRY + 5, 0),
        "a store into its own code": (14, PRESENT_AND_WRITTEN, ENTRY, 0),
        "not canonical": (13, 0, ENTRY + 10, 0),
        "an unmapped address of the kernel": (14, 0, ENTRY + 7, 0),
        "a jump to a page that could be mapped": (14, FETCHED, NO_CODE, 0),
        "a page of its own after another, without end": (14, 2, ENTRY + 5, abi.MAX_PAGES),
        "UD2 behind a page": (6, 0, ENTRY + 8, 1),
        "running off the end": (3, 0, ENTRY + 2, 0),
    }
    for name, wanted in expected.items():
        first, between, second = blobs[name]
        for result in (first, second):
            found = tuple(result[field] for field in ("vector", "error_code", "offset", "pages"))
            assert (result["status"], found) == ("FAULT", wanted), (name, result)
        assert between["status"] == "OK"
    ended = blobs["an endless loop"]
    assert [result["status"] for result in ended] == ["TIME_OUT", "OK", "TIME_OUT"]
    assert ended[0]["offset"] == ENTRY + 8


def check_what_is_refused(blobs: dict[str, Any]) -> None:
    assert {(one["status"], one["error"]) for one in blobs["wrong"]} == {("REFUSED", -22)}
    assert [(one["status"], one["error"]) for one in blobs["masked"]] == [("REFUSED", -95)]
