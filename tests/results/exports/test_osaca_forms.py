"""OSACA finds the form that code most likely means, and is not stopped by what has no known port."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from results.database.reader import ArchitectureResult, Entry, LatencyRow
from results.exports.osaca import write_osaca
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from pathlib import Path


def measured(string: str, cycles: str, ports: str = "", throughput: str = "1.00") -> Entry:
    """Return a variant of the catalogue with that latency, and without ports if none are given."""
    (variant,) = Catalogue.load().find(string)
    values = {"TP_unrolled": throughput} | ({"ports": ports} if ports else {})
    return Entry(variant, {"SKX": ArchitectureResult("SKX", values, (LatencyRow(1, 1, {"cycles": cycles}),))})


@pytest.fixture
def add() -> Entry:
    """Return an instruction with known ports, without which there is no file."""
    return measured("ADD_01 (R64, R64)", "1", "1*p0156")


def text_of(*entries: Entry) -> str:
    file = io.BytesIO()
    write_osaca(entries, "SKX", file)
    return file.getvalue().decode()


def latencies(name: str, *entries: Entry) -> list[float]:
    """Return the latencies of the forms with a name, in the order of the file."""
    forms = [json.loads(line[2:]) for line in text_of(*entries).splitlines() if line.startswith("- ")]
    return [form["latency"] for form in forms if form["name"] == name]


@pytest.mark.parametrize(
    ("likely", "others"),
    [
        ("MOV (R64, M64)", ["MOV (RAX, Moffs64)"]),
        ("MOV (R64, I32)", ["MOV (R64, I64)"]),
        ("MOV_89 (R64, R64)", ["MOV (R32, SEG)", "MOV (R, R16)", "MOV_89 (R32, R32)", "MOV_CR (R64, CR)"]),
        ("VPADDD (XMM, XMM, XMM)", ["VPADDD_EVEX (XMM, XMM, XMM)"]),
        ("VPCONFLICTD (ZMM, M512)", ["VPCONFLICTD (ZMM, M32_1to16)"]),
        ("SETZ (R8l)", ["SETZ (R8h)"]),
        ("VADDPD (ZMM, ZMM, ZMM)", ["VADDPD_ER (ZMM, ZMM, ZMM)"]),
        ("SHL (R64, I8)", ["SHL (R64, 1)", "SHL (R32, I8)"]),
    ],
)
def test_of_variants_that_osaca_cannot_tell_apart_the_likeliest_is_written(
    likely: str, others: list[str], add: Entry
) -> None:
    entries = [measured(likely, "7"), *(measured(other, "9") for other in others)]
    name = entries[0].variant.asm.split()[-1]
    assert latencies(name, add, *entries) == latencies(name, add, *reversed(entries)) == [7]


def test_no_narrower_variant_lends_its_ports(add: Entry) -> None:
    wide, narrow = measured("MOV_89 (R64, R64)", "0"), measured("MOV_88 (R8l, R8l)", "1", "1*p0156")
    for entries in ([wide, narrow], [narrow, wide]):
        text = text_of(add, *entries)
        assert '"name": "MOV"' in text
        assert text.count('"port_pressure": [[1, "0156"]]') == 1
        assert "# 1 forms have no known port. They put no pressure on any." in text
    assert "no known port" not in text_of(add)


ADDRESSES = {
    "LEA_B (R64)": ("leaq (%rax), %rbx", 1),
    "LEA_B_D32 (R64)": ("leaq 400(%rax), %rbx", 2),
    "LEA_B_I (R64)": ("leaq (%rax,%rcx), %rbx", 3),
    "LEA_B_IS (R64)": ("leaq (%rax,%rcx,4), %rbx", 4),
    "LEA_B_I_D8 (R64)": ("leaq 4(%rax,%rcx), %rbx", 5),
    "LEA_B_IS_D8 (R64)": ("leaq 4(%rax,%rcx,8), %rbx", 6),
    "LEA_R_D32 (R64)": ("leaq name(%rip), %rbx", 7),
}


def test_osaca_tells_addresses_and_mask_registers_apart_and_goes_on_without_ports(tmp_path: Path, add: Entry) -> None:
    pytest.importorskip("osaca", reason="pip install osaca")
    code = {string: (line, cycles) for string, (line, cycles) in ADDRESSES.items()}
    code |= {"KMOVQ (R64, K)": ("kmovq %k1, %rbx", 8), "KMOVQ (K, K)": ("kmovq %k1, %k2", 9)}
    data = tmp_path / ".osaca" / "data"
    data.mkdir(parents=True)
    entries = [measured(string, str(cycles)) for string, (_, cycles) in code.items()]
    (data / "skx.yml").write_text(text_of(add, *entries), encoding="utf-8")
    for line, cycles in some(code.values()):
        kernel = tmp_path / "kernel.s"
        kernel.write_text(f"{line}\naddq %rsi, %rsi\n", encoding="utf-8")
        command = [sys.executable, "-m", "osaca", "--arch", "SKX", "--syntax", "ATT", str(kernel)]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        found = re.search(r"\|\| +([\d.]+) \| +\| \* +" + re.escape(line), done.stdout)
        assert found, done.stdout
        assert float(found[1]) == cycles, done.stdout
