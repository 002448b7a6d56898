"""What is exported can be read by those whom it is for: pandas, OSACA, llvm-exegesis."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from results.database.reader import ArchitectureResult, DatabaseError, Entry, LatencyRow, read_database
from results.database.writer import write_database
from results.exports.exegesis import MODES, llvm_instructions, write_exegesis
from results.exports.exporters import ExportRequest, exporters
from results.exports.osaca import LOAD, STORE, write_osaca
from results.exports.tidy import load, tables
from results.memory.model import (
    AccessSize,
    Addressing,
    ForwardingMatrix,
    ForwardingOutcome,
    ForwardingRow,
    LineCrossing,
    MemoryReport,
)
from results.shipped import shipped_database
from tests.results.database.strategies import variant
from tests.results.memory.test_documents import REPORT
from xed_convert.extras import MissingPackageError
from xed_convert.model import InstructionVariant, MemoryShape, Operand, OperandKind

if TYPE_CHECKING:
    from pathlib import Path

GPR = ("RAX", "RCX", "RDX", "RBX")
YMM = ("YMM0", "YMM1", "YMM2")


def operand(index: int, registers: tuple[str, ...] = (), bits: int = 64) -> Operand:
    if registers:
        return Operand(index, OperandKind.REGISTER, f"REG{index}", read=True, width_bits=bits, registers=registers)
    return Operand(index, OperandKind.MEMORY, "MEM0", read=True, width_bits=bits, memory=MemoryShape())


def entry(string: str, asm: str, operands: list[Operand], ports: str, cycles: int) -> Entry:
    one = dataclasses.replace(variant(asm), string=string, asm=asm, iform=string, operands=tuple(operands))
    values = {"uops": str(ports.count("*")), "ports": ports}
    values |= {"TP_unrolled": "0.50", "TP_loop": "0.51", "TP_ports": "0.50"}
    return Entry(one, {"SKX": ArchitectureResult("SKX", values, (LatencyRow(1, 1, {"cycles": str(cycles)}),))})


ENTRIES = [
    entry("ADD (R64, R64)", "ADD", [operand(1, GPR), operand(2, GPR)], "1*p0156", 1),
    entry("ADD (R32, R32)", "ADD", [operand(1, ("EAX",), 32), operand(2, ("EAX",), 32)], "9*p0156", 9),
    entry(LOAD, "MOV", [operand(1, GPR), operand(2)], "1*p23", 5),
    entry(STORE, "MOV", [operand(1), operand(2, GPR)], "1*p237+1*p4", 2),
    entry("VADDPD (YMM, YMM, YMM)", "VADDPD", [operand(n, YMM, 256) for n in (1, 2, 3)], "1*p01", 4),
]
CODES = {"ADD (R64, R64)": "4801c3", "VADDPD (YMM, YMM, YMM)": "c5fd58ca", LOAD: "488b06"}


def code_of(one: InstructionVariant) -> bytes | None:
    return bytes.fromhex(CODES[one.string]) if one.string in CODES else None


def written(architecture: str = "SKX") -> str:
    file = io.BytesIO()
    write_osaca(ENTRIES, architecture, file)
    return file.getvalue().decode()


def test_tables_are_tidy_and_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    with path.open("wb") as file:
        write_database(ENTRIES, [], file)
    data = load(path)
    assert data.variants.where(uops=1, ports="1*p01")["string"] == ["VADDPD (YMM, YMM, YMM)"]
    assert data.latencies.where(string=LOAD)["cycles"] == [5]
    assert data.ports.where(string=STORE)["uops"] == [1, 1]
    assert set(data.variants["architecture"]) == {"SKX"}
    frame = data.variants.to_pandas()
    assert list(frame.query("uops == 1 and ports == '1*p01'").string) == ["VADDPD (YMM, YMM, YMM)"]


def test_ports_with_an_index_are_rows_of_their_own() -> None:
    store = ENTRIES[3]
    (result,) = store.results.values()
    indexed = dataclasses.replace(result, measurement=dict(result.measurement or {}) | {"ports_indexed": "1*p23+1*p4"})
    data = tables([dataclasses.replace(store, results={"SKX": indexed})])
    assert data.ports.where(indexed=True)["port_set"] == ["p23", "p4"]
    assert data.ports.where(indexed=False)["port_set"] == ["p237", "p4"]


def test_tables_of_nothing_have_their_columns() -> None:
    data = tables([])
    assert len(data.variants) == len(data.latencies) == len(data.ports) == 0
    assert "architecture" in data.variants.columns
    assert "cycles" in data.latencies.columns


def test_parquet_and_csv_hold_the_same() -> None:
    files = {name: io.BytesIO() for name in ("csv", "parquet")}
    for name, file in files.items():
        exporters()[name].export(ExportRequest(tuple(ENTRIES)), file)
        file.seek(0)
    one, other = pd.read_csv(files["csv"]), pd.read_parquet(files["parquet"])
    assert len(one.columns) > 10
    pd.testing.assert_frame_equal(one.astype("str"), other.astype("str"))


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match="--parquet needs pyarrow") as raised:
        exporters()["parquet"].export(ExportRequest(tuple(ENTRIES)), io.BytesIO())
    assert "-m pip install 'pyarrow" in raised.value.hint


def test_osaca_knows_one_width_and_it_is_the_widest() -> None:
    forms = [json.loads(line[2:]) for line in written().splitlines() if line.startswith("- ")]
    (add,) = (form for form in forms if form["name"] == "ADD")
    assert add["port_pressure"] == [[1, "0156"]]
    assert len(forms) == 4


def test_osaca_gets_the_part_of_a_port_usage_that_is_known() -> None:
    store = entry(STORE, "MOV", [operand(1), operand(2, GPR)], "1*p4", 2)
    measurement = dict(store.results["SKX"].measurement or {})
    measurement["some_ports"] = measurement.pop("ports")
    file = io.BytesIO()
    write_osaca([dataclasses.replace(store, results={"SKX": ArchitectureResult("SKX", measurement)})], "SKX", file)
    text = file.getvalue().decode()
    assert '"port_pressure": [[1, "4"]]' in text
    assert "Of 1 variants only some µops have known ports" in text
    assert "known ports" not in written()


def memory(**outcomes: str) -> MemoryReport:
    """Return a report in which a load takes 9 cycles by each addressing, with that outcome."""
    size = AccessSize("r64", 8, "general")
    cycles = (Fraction(9),)
    rows = (
        ForwardingRow(size, size, LineCrossing.LINE, Addressing(name), 0, cycles, (ForwardingOutcome(outcome),))
        for name, outcome in outcomes.items()
    )
    return MemoryReport(dataclasses.replace(REPORT.provenance, architecture="SKX"), ForwardingMatrix(tuple(rows)))


def with_memory(found: MemoryReport | None) -> str:
    file = io.BytesIO()
    request = ExportRequest(tuple(ENTRIES), memories=() if found is None else (found,))
    exporters()["osaca"].export(request, file)
    return file.getvalue().decode()


def test_osaca_gets_the_store_forwarding_that_was_measured_less_store_and_load() -> None:
    written_with = with_memory(memory(same="forwarded", base="failed"))
    assert "store_to_load_forward_latency: 2.0\n" in written_with  # 9, less 5 of the load and 2 of the store
    assert "it takes 9.00 cycles" in written_with
    assert "are renamed" not in written_with
    assert "are renamed" in with_memory(memory(same="renamed", base="forwarded"))


@pytest.mark.parametrize("found", [None, memory(same="renamed"), memory(same="failed")])
def test_osaca_gets_no_store_forwarding_that_was_not_measured(found: MemoryReport | None) -> None:
    text = with_memory(found)
    assert "Store forwarding was not measured" in text
    assert not re.search("^store_to_load_forward_latency", text, re.MULTILINE)


@pytest.mark.parametrize(("found", "cycles"), [(None, "8.0"), (memory(same="forwarded"), "10.0")])
def test_osaca_adds_store_forwarding_to_a_loop_through_memory(
    found: MemoryReport | None, cycles: str, tmp_path: Path
) -> None:
    """ADD, store and load take 1, 2 and 5 cycles; with forwarding, 9 are from the stored register to the loaded one."""
    pytest.importorskip("osaca", reason="pip install osaca")
    data = tmp_path / ".osaca" / "data"
    data.mkdir(parents=True)
    (data / "skx.yml").write_text(with_memory(found), encoding="utf-8")
    kernel = tmp_path / "kernel.s"
    kernel.write_text("movq %rax, 8(%rsi)\nmovq 8(%rsi), %rax\naddq %rbx, %rax\n", encoding="utf-8")
    command = [sys.executable, "-m", "osaca", "--arch", "SKX", "--syntax", "ATT", str(kernel)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^ +\d+ \| +{cycles} \| +movq", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("mark", ["ports_by_time", "some_ports_by_time"])
def test_osaca_is_told_that_ports_were_inferred_by_time(mark: str) -> None:
    one = entry("ADD (R64, R64)", "ADD", [operand(1, GPR), operand(2, GPR)], "1*r01", 1)
    measurement = {**(one.results["SKX"].measurement or {}), mark: "1"}
    file = io.BytesIO()
    write_osaca([dataclasses.replace(one, results={"SKX": ArchitectureResult("SKX", measurement)})], "SKX", file)
    assert "# Ports were inferred by time alone." in file.getvalue().decode()
    assert "by time" not in written()


def test_osaca_gets_no_number_of_uops_that_was_not_counted() -> None:
    one = entry("ADD (R64, R64)", "ADD", [operand(1, GPR), operand(2, GPR)], "1*r01", 1)
    measurement = {name: text for name, text in (one.results["SKX"].measurement or {}).items() if name != "uops"}
    file = io.BytesIO()
    write_osaca([dataclasses.replace(one, results={"SKX": ArchitectureResult("SKX", measurement)})], "SKX", file)
    assert '"uops": null' in file.getvalue().decode()
    assert '"uops": null' not in written()


def test_osaca_without_ports_is_an_error_that_says_so() -> None:
    with pytest.raises(DatabaseError, match="no instruction has both a port usage and a throughput"):
        written("ZEN5")


def test_osaca_loads_the_file_and_analyzes_a_kernel(tmp_path: Path) -> None:
    pytest.importorskip("osaca", reason="pip install osaca")
    data = tmp_path / ".osaca" / "data"
    data.mkdir(parents=True)
    (data / "skx.yml").write_text(written(), encoding="utf-8")
    kernel = tmp_path / "kernel.s"
    kernel.write_text("vaddpd ymm1, ymm2, ymm3\nadd rax, rbx\nmov rcx, qword ptr [rsi+8]\n", encoding="utf-8")
    command = [sys.executable, "-m", "osaca", "--arch", "SKX", "--syntax", "INTEL", str(kernel)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    pressure = {}
    for line in done.stdout.splitlines():
        for word in ("vaddpd", "add rax", "mov rcx"):
            if word in line and word not in pressure:
                pressure[word] = sum(map(float, re.findall(r"\d\.\d\d", line)))
    assert pressure == {"vaddpd": pytest.approx(1), "add rax": pytest.approx(1), "mov rcx": pytest.approx(1)}


def test_osaca_analyzes_code_with_ports_that_were_inferred_by_time(tmp_path: Path) -> None:
    pytest.importorskip("osaca", reason="pip install osaca")
    data = tmp_path / ".osaca" / "data"
    data.mkdir(parents=True)
    with (data / "zen4.yml").open("wb") as file:
        write_osaca(read_database(shipped_database()), "ZEN4", file)
    kernel = tmp_path / "kernel.s"
    kernel.write_text(
        "vaddsd (%rsi), %xmm1, %xmm2\nvmulsd %xmm2, %xmm3, %xmm1\nvmovups %xmm1, (%rdi)\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "osaca", "--arch", "ZEN4", "--syntax", "ATT", str(kernel)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.partition("||") for line in done.stdout.splitlines() if "%xmm" in line and "||" in line]
    pressure = {
        code.rpartition("|")[2].split()[0]: sum(map(float, re.findall(r"\d\.\d\d", ports))) for ports, _, code in rows
    }
    # A load and an addition, a multiplication, a store
    assert pressure == {"vaddsd": pytest.approx(2), "vmulsd": pytest.approx(1), "vmovups": pytest.approx(1)}
    # The loop waits for three cycles of each through XMM1
    assert re.search(r"^ +[\d. ]+ 6\.0 *$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.skipif(not shutil.which("llvm-exegesis-19"), reason="apt-get install llvm-19")
@pytest.mark.parametrize("mode", MODES)
def test_llvm_exegesis_reads_every_document(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "x.yaml"
    with path.open("wb") as file:
        count = write_exegesis(ENTRIES, "SKX", mode, code_of, file)
    assert count == 3
    command = ["llvm-exegesis-19", "--mode=analysis", f"--benchmarks-file={path}"]
    command += [f"--analysis-inconsistencies-output-file={tmp_path / 'x.html'}"]
    command += [f"--analysis-clusters-output-file={tmp_path / 'x.csv'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "Parsed 3 benchmark points" in done.stdout + done.stderr, done.stderr
    assert (tmp_path / "x.html").stat().st_size > 1000


@pytest.mark.skipif(not shutil.which("llvm-mc-19"), reason="apt-get install llvm-19")
def test_llvm_names_what_it_knows_and_nothing_else() -> None:
    codes = [bytes.fromhex(code) for code in ("4801c3", "06", "4803448b10", "62f17c58580e")]
    assert llvm_instructions(codes) == [
        "ADD64rr RBX RBX RAX",
        None,
        "ADD64rm RAX RAX RBX i_0x4 RCX i_0x10 %noreg",
        "VADDPSZrmb ZMM1 ZMM0 RSI i_0x1 %noreg i_0x0 %noreg",
    ]


def test_a_cpu_that_llvm_does_not_name_is_an_error() -> None:
    with pytest.raises(DatabaseError, match="no CPU name for KNL"):
        write_exegesis(ENTRIES, "KNL", "latency", code_of, io.BytesIO())
