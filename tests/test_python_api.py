"""The Python API: its examples hold, importing it loads next to nothing, errors are those of the commands."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer.main

import uopscope
from results.database.reader import read_database
from runner.cli import measure as measure_command
from runner.python.options import MeasureOptions
from tests.runner.cli.commands import command_of
from tests.shared import CHECKOUT
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.python.characterized import Characterizations

EXAMPLES = ("uopscope.py", "docs/python.md")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_hold(name: str) -> None:
    names = {"uopscope": uopscope, **{one: getattr(uopscope, one) for one in uopscope.__all__}}
    done = doctest.testfile(str(CHECKOUT / name), module_relative=False, globs=names, optionflags=FLAGS)
    assert done.attempted > 8
    assert done.failed == 0


def test_every_function_has_an_example_and_says_what_it_raises() -> None:
    functions = [getattr(uopscope, name) for name in uopscope.__all__ if name != "Error"]
    assert len(functions) > 5
    for function in functions:
        assert ">>> " in function.__doc__, function.__name__
        assert "Raises:\n        Error: " in function.__doc__, function.__name__


def test_importing_it_loads_only_the_errors() -> None:
    code = "import sys, json; before = set(sys.modules); import uopscope; print(json.dumps([*{*sys.modules} - before]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = {name for name in json.loads(done.stdout) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert loaded == {"uopscope", "xed_convert", "xed_convert.errors"}


@pytest.mark.parametrize(
    ("call", "command", "arguments"),
    [
        (lambda: uopscope.encode("frobnicate rax"), "encode", ["--first", "frobnicate rax"]),
        (lambda: uopscope.encodings(" ; "), "encode", [" ; "]),
        (lambda: uopscope.decode("4801d"), "encode", ["--decode", "4801d"]),
        (lambda: uopscope.decode("06"), "encode", ["--decode", "06"]),
        (lambda: uopscope.catalogue("FROB"), "catalogue", ["list", "FROB"]),
        (lambda: uopscope.catalogue(cpu="Z80"), "catalogue", ["list", "--cpu", "Z80"]),
        (lambda: uopscope.load("/nowhere/x.xml"), "db", ["check", "/nowhere/x.xml"]),
        (lambda: uopscope.measure("frob rax"), "measure", ["--asm", "frob rax"]),
        (lambda: uopscope.measure("inc r15"), "measure", ["--asm", "inc r15"]),
        (lambda: uopscope.measure("@/nowhere"), "measure", ["--asm-file", "/nowhere"]),
        (lambda: uopscope.measure("nop", unroll=0), "measure", ["--asm", "nop", "--unroll", "0"]),
        (lambda: uopscope.measure("nop", aggregate="x"), "measure", ["--asm", "nop", "--aggregate", "x"]),
        (lambda: uopscope.measure("nop", syntax="masm"), "measure", ["--asm", "nop", "--syntax", "masm"]),
        (lambda: uopscope.measure("nop", time_limit=99.5), "measure", ["--asm", "nop", "--time-limit", "99.5"]),
        (lambda: uopscope.measure("nop", backend="abacus"), "measure", ["--asm", "nop", "--backend", "abacus"]),
        (lambda: uopscope.sweep("nop", {"N": [1]}), "measure", ["--asm", "nop", "--sweep", "N=1"]),
        (lambda: uopscope.characterize("FROB"), "characterize", ["FROB"]),
        (
            lambda: uopscope.characterize("ADC", backend="sim", arch="Z80"),
            "characterize",
            ["ADC", "--backend", "sim", "--arch", "Z80"],
        ),
        (lambda: uopscope.characterize("ADC", backend="abacus"), "characterize", ["ADC", "--backend", "abacus"]),
    ],
)
def test_an_error_says_what_the_command_prints(
    call: Callable[[], object], command: str, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(uopscope.Error) as raised:
        call()
    assert command_of(command, arguments) in {2, 3}
    assert capfd.readouterr().err == f"error: {raised.value}\n"


def test_the_errors_are_one_family() -> None:
    assert uopscope.Error is UopscopeError
    with pytest.raises(uopscope.Error, match="no column 'nothing'"):
        uopscope.catalogue("ADC_GPRv_GPRv_11")["nothing"]


@pytest.fixture(scope="module")
def found() -> Characterizations:
    return uopscope.characterize("IMUL_GPRv_GPRv", "CPUID", backend="sim", arch="SKL")


def test_characterizations_are_a_sequence_and_a_table(found: Characterizations, tmp_path: Path) -> None:
    assert [one.string for one in found][-1] == found[-1].string == "CPUID"
    assert found.rows.where(string="IMUL (R64, R64)")["ports"] == ["1*p1"]
    assert [one.string for one in found[:1]] == [found[0].string]
    one = found["IMUL (R64, R64)"]
    assert (one.uops, one.ports, one.throughput["ports"], one.failures, one.skipped) == (1, "1*p1", 1.0, (), "")
    assert one.latencies.where(same_register=False)["pair"] == ["1→1", "1→flags", "2→1", "2→flags"]
    assert [line.split("  ")[0] for line in repr(one).splitlines()[:2]] == ["Instruction", "IMUL (R64, R64)"]
    assert "<td>1*p1</td>" in one._repr_html_()
    text = repr(found)
    assert text.splitlines()[0].startswith("Instruction ")
    assert text.splitlines()[-1] == "SKL: simulated SKL (a model, not a CPU), backend sim"
    assert "<td>IMUL (R64, R64)</td>" in found._repr_html_()
    found.to_xml(tmp_path / "x.xml")
    written = {entry.variant.string for entry in read_database(tmp_path / "x.xml")}
    assert written == {one.string for one in found if not one.skipped}
    with pytest.raises(uopscope.Error, match="no conclusion about 'ADC'"):
        found["ADC"]


def test_what_was_measured_is_a_table_and_says_what_went_wrong() -> None:
    found = uopscope.measure("div rbx", init="mov eax, 7", backend="sim", arch="SKL", counters="core_cycles")
    assert found.rows["counter"] == ["core_cycles", "core_cycles"]
    assert "model of SKL (simulated SKL), backend sim" in repr(found).splitlines()
    assert "<td>unrolled</td><td>core_cycles</td>" in found._repr_html_()
    fault = uopscope.measure(code=bytes.fromhex("ebfe"), backend="sim", arch="SKL")
    assert not fault.ok
    assert fault.cycles is None
    assert fault.problems
    assert fault.problems[0] in repr(fault)


def test_an_option_that_does_not_exist_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match="no option 'unrol'; there are backend, "):
        uopscope.measure("nop", unrol=3)  # type: ignore[call-arg] # that is the point
    with pytest.raises(uopscope.Error, match="one source of code is needed"):
        uopscope.measure("nop", code=b"\x90")


def test_every_option_of_the_command_is_one_in_python() -> None:
    command = typer.main.get_command(measure_command.app)
    names = {option.removeprefix("--").replace("-", "_") for one in command.params for option in one.opts}
    arguments = {"asm", "init", "late_init", "one_time_init", "sweep"}
    files = {"asm_file", "code_file", "object", "symbol", "bytes", "blocks", "modes", "json", "csv", "plot", "samples"}
    renamed = {"no_normalization": "normalize"}
    here = {"value"}
    options = {renamed.get(name, name) for name in names - arguments - files - here}
    assert options == set(MeasureOptions.__annotations__)


def test_a_campaign_is_kept_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    first = uopscope.characterize("IMUL (R64, R64)", backend="sim", arch="SKL", db=path)
    again = uopscope.characterize("IMUL (R64, R64)", backend="sim", arch="SKL", db=path)
    assert again[0].conclusion.time == first[0].conclusion.time
    tables = uopscope.load(path)
    assert tables.variants["ports"] == ["1*p1"]
    assert "variants" in repr(tables)
    assert "<h4>latencies, " in tables._repr_html_()
