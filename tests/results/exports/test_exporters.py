"""Exports say what is known: no upper bound as a value, a model as a model, every name that compilers write."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import results.exports
from results.database.cycles import exact_cycles, longest
from results.database.reader import LatencyRow
from results.database.writer import write_database
from results.exports import mnemonics
from results.exports.exegesis import write_exegesis
from results.exports.exporters import ExportRequest, exporters
from results.exports.osaca import write_osaca
from results.exports.tidy import tables
from tests.results.exports.test_exports import ENTRIES, code_of, entry, operand
from tests.runner.cli.commands import command_of
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from pathlib import Path

    from results.database.reader import Entry

BOUNDED = {"min_cycles": "1", "max_cycles": "9", "max_cycles_is_upper_bound": "1"}


def with_latency(one: Entry, *rows: LatencyRow, **attributes: str) -> Entry:
    (result,) = one.results.values()
    measurement = {**(result.measurement or {}), **attributes}
    return dataclasses.replace(
        one, results={"SKX": dataclasses.replace(result, latencies=rows, measurement=measurement)}
    )


def osaca_forms(*entries: Entry) -> list[dict[str, object]]:
    file = io.BytesIO()
    write_osaca(entries, "SKX", file)
    return [json.loads(line[2:]) for line in file.getvalue().decode().splitlines() if line.startswith("- ")]


@pytest.mark.parametrize(
    ("rows", "cycles"),
    [
        ([{"cycles": "3"}], 3),
        ([{"cycles": "3"}, {"cycles": "3", "cycles_is_upper_bound": "1"}], 3),
        ([{"cycles": "3"}, {"cycles": "4", "cycles_is_upper_bound": "1"}], None),
        ([BOUNDED], None),
        ([{"cycles": "3", "cycles_same_reg": "7"}], 3),
        ([], None),
    ],
)
def test_the_longest_latency_is_exact_or_not_known(rows: list[dict[str, str]], cycles: float | None) -> None:
    assert longest(LatencyRow(1, 1, row) for row in rows) == cycles
    assert exact_cycles(BOUNDED) == []


def test_no_export_takes_an_upper_bound_for_a_value(tmp_path: Path) -> None:
    bounded = with_latency(ENTRIES[0], LatencyRow(1, 1, {"cycles": "4711", "cycles_is_upper_bound": "1"}))
    request = ExportRequest((bounded, ENTRIES[0]), code_of=code_of)  # an export of nothing is refused
    for option, exporter in exporters().items():
        file = io.BytesIO()
        exporter.export(request, file)
        text = file.getvalue().decode(errors="replace")
        assert "4711" not in re.sub(r'"at_most": ?4711', "", text), option
    latencies = tables([bounded]).latencies
    assert set(latencies["cycles"]) == {None}
    assert latencies["at_most"] == [4711]
    path = tmp_path / "x.xml"
    with path.open("wb") as output:
        write_database([bounded], [], output)
    assert command_of("db", ["query", "max_latency > 5", "--db", str(path)]) == 0


def test_a_model_is_called_a_model_in_every_export(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    simulated = with_latency(ENTRIES[0], LatencyRow(1, 1, {"cycles": "1"}), simulated="1")
    for option, exporter in exporters().items():
        texts = []
        for one in (simulated, ENTRIES[0]):
            file = io.BytesIO()
            exporter.export(ExportRequest((one,), code_of=code_of), file)
            texts.append(file.getvalue().decode(errors="replace"))
        assert texts[0] != texts[1], option
        if option != "parquet":
            assert "model" in texts[0].lower(), option
    path = tmp_path / "x.xml"
    with path.open("wb") as output:
        write_database([simulated], [], output)
    assert command_of("db", ["query", "uops = 1", "--db", str(path)]) == 0
    assert "SKX (model)" in capfd.readouterr().out
    assert command_of("site", [str(path), "-o", str(tmp_path / "site"), "--jobs", "1"]) == 0
    assert "SKX (a model)" in (tmp_path / "site" / "compare.html").read_text()


def test_uops_have_the_key_that_llvm_exegesis_reads() -> None:
    if not shutil.which("llvm-mc-19"):
        pytest.skip("apt-get install llvm-19")
    file = io.BytesIO()
    write_exegesis(ENTRIES, "SKX", "uops", code_of, file)
    assert set(re.findall(r'"key": "(\w+)"', file.getvalue().decode())) == {"NumMicroOps"}


def test_forms_have_every_name_of_their_condition() -> None:
    forms = osaca_forms(entry("JNZ (Rel8)", "JNZ", [operand(1)], "1*p06", 1))
    assert {form["name"] for form in forms} == {"JNZ", "JNE"}
    names = {name.mnemonic for name in mnemonics.spellings("CMOVNB", "R64, R64")}
    assert names == {"CMOVNB", "CMOVAE", "CMOVNC"}
    assert {name.mnemonic for name in mnemonics.spellings("SETNBE", "R8l")} == {"SETNBE", "SETA"}


def test_an_alias_may_stand_for_operands_or_for_an_immediate() -> None:
    assert [name.mnemonic for name in mnemonics.spellings("MOVZX", "R32, R8l")] == ["MOVZX", "MOVZBL"]
    assert mnemonics.Spelling("CMPLTSD", without_immediate=True) in mnemonics.spellings("CMPSD", "XMM, XMM, I8")
    immediate = dataclasses.replace(operand(3), kind=OperandKind.IMMEDIATE, memory=None)
    xmm = [operand(index, ("XMM0", "XMM1"), 128) for index in (1, 2)]
    compare = entry("CMPSD (XMM, XMM, I8)", "CMPSD", [*xmm, immediate], "1*p01", 4)
    assert {(form["name"], len(form["operands"])) for form in osaca_forms(compare)} >= {("CMPSD", 3), ("CMPLTSD", 2)}  # type: ignore[arg-type]


def test_every_alias_is_for_an_instruction_that_there_is() -> None:
    catalogue = Catalogue.load()
    forms: dict[str, set[str]] = {}
    for variant in catalogue:
        forms.setdefault(variant.asm.split()[-1], set()).add(variant.string.partition("(")[2].rstrip(")"))
    rows = mnemonics._rows("mnemonic_aliases.tsv")
    assert rows
    assert len({(row["alias"], row["operands"]) for row in rows}) == len(rows)
    for row in rows:
        assert row["source"]
        assert row["mnemonic"] in forms, row
        assert not row["operands"] or row["operands"] in forms[row["mnemonic"]], row
    for row in mnemonics._rows("condition_codes.tsv"):
        assert all(prefix + row["condition"] in forms for prefix in mnemonics.CONDITIONAL), row


def test_forms_of_osaca_are_what_code_most_likely_means() -> None:
    immediate = dataclasses.replace(operand(2), kind=OperandKind.IMMEDIATE, memory=None, width_bits=8)
    shifts = [
        entry("SHL (R64, 0)", "SHL", [operand(1, ("RAX",)), dataclasses.replace(immediate, value="0")], "9*p0", 9),
        entry("SHL (R64, I8)", "SHL", [operand(1, ("RAX",)), immediate], "1*p06", 1),
    ]
    locked = entry("ADD_LOCK (M64, R64)", "LOCK ADD", [operand(1), operand(2, ("RAX",))], "9*p0", 9)
    forms = osaca_forms(*shifts, locked)
    assert [(form["name"], form["latency"]) for form in forms] == [("SHL", 1), ("SAL", 1)]


COMPILED = """
    jne .L2
    jae .L2
    cmovae %rax, %rbx
    setne %al
    movzbl %al, %eax
    cltq
    cmpltsd %xmm1, %xmm0
.L2:
"""


BOUNDED_ADDRESS = {"cycles_addr": "11", "cycles_addr_is_upper_bound": "1", "cycles_mem": "9"}


@pytest.mark.parametrize(
    ("rows", "cycles"),
    [
        ([{"cycles": "3"}, BOUNDED_ADDRESS], 3),
        ([{"cycles": "3"}, {"cycles_addr": "8"}], 3),
        ([{"cycles_addr": "5", "cycles_addr_index": "5"}], 5),
        ([BOUNDED_ADDRESS], None),
        ([{"cycles": "3", "cycles_is_upper_bound": "1"}, {"cycles_addr": "8"}], None),
    ],
)
def test_osaca_gets_the_latency_from_registers_where_any_are_read(
    rows: list[dict[str, str]], cycles: float | None
) -> None:
    forms = osaca_forms(with_latency(ENTRIES[0], *(LatencyRow(place, 1, row) for place, row in enumerate(rows))))
    assert {form["latency"] for form in forms} == {cycles}


def test_osaca_finds_what_compilers_write(tmp_path: Path) -> None:
    pytest.importorskip("osaca", reason="pip install osaca")
    catalogue = Catalogue.load()
    strings = ["JNZ (Rel8)", "JNB (Rel8)", "CMOVNB (R64, R64)", "SETNZ (R8l)", "MOVZX (R32, R8l)", "CDQE"]
    strings.append("CMPSD_XMM (XMM, XMM, I8)")
    entries = []
    for string in strings:
        (variant,) = catalogue.find(string)
        entries.append(dataclasses.replace(ENTRIES[0], variant=variant))
    data = tmp_path / ".osaca" / "data"
    data.mkdir(parents=True)
    with (data / "skx.yml").open("wb") as file:
        write_osaca(entries, "SKX", file)
    (tmp_path / "kernel.s").write_text(COMPILED)
    command = [sys.executable, "-m", "osaca", "--arch", "SKX", "--syntax", "ATT", str(tmp_path / "kernel.s")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if re.match(r"\s*\d+ \|", line)]
    assert len(lines) >= 7
    assert not [line for line in lines if " X " in line], done.stdout


def test_every_file_of_the_folder_that_exports_is_an_option() -> None:
    modules = [
        importlib.import_module(f"results.exports.{one.name}") for one in pkgutil.iter_modules(results.exports.__path__)
    ]
    assert {module.OPTION for module in modules if hasattr(module, "export")} == set(exporters())
    assert {"csv", "json", "parquet", "osaca", "llvm-exegesis"} <= set(exporters())


def test_a_query_takes_an_architecture_in_small_letters(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.xml"
    with path.open("wb") as file:
        write_database(ENTRIES, [], file)
    assert command_of("db", ["query", "uops >= 0", "--arch", "skx", "--db", str(path)]) == 0
    assert " SKX " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["uop = 1"], "no result here has a field 'uop'\n  nearest: uops; `uopscope db query --fields` lists all"),
        (
            ["foo = 1"],
            "a field 'foo'\n  there are TP, max_latency, ports, extension, iclass, arch ...;",
        ),
        (["uops = 1", "--arch", "SKL"], "no result of the architecture 'SKL'\n  there are: SKX"),
    ],
)
def test_a_query_about_what_there_is_not_says_what_there_is(
    arguments: list[str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.xml"
    with path.open("wb") as file:
        write_database(ENTRIES, [], file)
    assert command_of("db", ["query", *arguments, "--db", str(path)]) == 2
    assert said in capfd.readouterr().err


def test_a_query_shows_what_it_asks_about(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.xml"
    bounded = with_latency(ENTRIES[0], LatencyRow(1, 1, {"cycles": "5", "cycles_is_upper_bound": "1"}))
    with path.open("wb") as file:
        write_database([bounded], [], file)
    assert command_of("db", ["query", "latency(1,1) < 6 and extension like * and TP > 0", "--db", str(path)]) == 0
    header, row, count = capfd.readouterr().out.splitlines()
    assert header.split()[2:5] == ["latency(1,1)", "extension", "TP"]
    assert "≤5" in row
    assert count == "1 found"
    assert command_of("db", ["query", "uops = 99", "--db", str(path)]) == 0
    assert capfd.readouterr().out.startswith("nothing found among results of SKX\n")
