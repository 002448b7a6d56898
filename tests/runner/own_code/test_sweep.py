"""Sweeps: which values a text means, where they go, rows for what cannot be measured, and going on after a stop."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from results.rows import Rows
from runner.backends.registry import open_backend
from runner.own_code.journal import SUFFIX, Journal
from runner.own_code.measure import Runs, measure
from runner.own_code.plot import bars, svg
from runner.own_code.sweep import Parameter, SweepError, points, sweep
from runner.own_code.template import Template, fill
from tests.runner.cli.commands import command_of
from xed_convert.errors import AssemblyError
from xed_convert.files import OutputError

if TYPE_CHECKING:
    from pathlib import Path

    from runner.backend import Backend
    from runner.own_code.measure import CodeRequest, Measurers, Result

SIMULATED = ["--backend", "sim", "--arch", "SKL"]
CHAIN = [*SIMULATED, "--asm", ".rept {N}; imul rax, rbx; .endr"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("N=0..64:16", (0, 16, 32, 48, 64)),
        ("N=0..9:4", (0, 4, 8)),
        ("N=1..3", (1, 2, 3)),
        ("N=3..1", (3, 2, 1)),
        ("N=-4..4:4", (-4, 0, 4)),
        ("N=1, 2,0x10", (1, 2, 16)),
        (" stride_1=7", (7,)),
    ],
)
def test_values_are_a_range_or_a_list(text: str, values: tuple[int, ...]) -> None:
    assert Parameter.read(text).values == values


@pytest.mark.parametrize(
    "text", ["", "N", "N=", "=1", "N=1..", "N=1..2:0", "N=1..2:-1", "N=a", "1=2", "N=1..99999", "N=1,"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(SweepError, match="--sweep"):
        Parameter.read(text)


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_what_is_written_for_values_has_values_or_is_refused(text: str) -> None:
    try:
        message = f"--sweep N= has {len(Parameter.read(f'N={text}').values)} values"
    except SweepError as error:
        message = error.message
    assert message.startswith("--sweep N=")
    assert " has 0 values" not in message


def test_values_go_where_their_names_stand_and_nowhere_else() -> None:
    assert fill("add rax, [r14+{N}]; add rbx, $N; add rcx, $NM; {NM}{k1}", {"N": 8}) == (
        "add rax, [r14+8]; add rbx, 8; add rcx, $NM; {NM}{k1}"
    )
    assert fill("addl ${N}, %eax", {"N": 8}) == "addl $8, %eax"


def test_parameters_may_set_options() -> None:
    settings = Template("nop").request({"offset": 3, "unroll": 7, "loop": 2}).settings
    assert (settings.offset_bytes, settings.runs) == (3, Runs(unroll=7, loop=2))
    assert Template("nop").request().settings.runs is None


def test_every_combination_is_a_point_and_the_last_parameter_changes_fastest() -> None:
    found = points(Template("{N}{M}"), [Parameter("N", (1, 2)), Parameter("M", (5, 6))])
    assert found == [{"N": 1, "M": 5}, {"N": 1, "M": 6}, {"N": 2, "M": 5}, {"N": 2, "M": 6}]


@pytest.mark.parametrize(
    ("text", "parameters", "complaint"),
    [
        ("nop", [Parameter("N", (1,))], "the code does not use N"),
        ("{N}", [Parameter("N", (1,))] * 2, "swept twice"),
        ("{N}{M}", [Parameter("N", (0,) * 1000), Parameter("M", (0,) * 1000)], "combinations"),
    ],
)
def test_sweeps_that_make_no_sense(text: str, parameters: list[Parameter], complaint: str) -> None:
    with pytest.raises(SweepError, match=complaint):
        points(Template(text), parameters)


def test_a_file_with_text_is_read_and_filled(tmp_path: Path) -> None:
    (tmp_path / "kernel.s").write_text("object: imul rax, rbx\n.rept $N\nnop\n.endr")
    template = Template(f"@{tmp_path / 'kernel.s'}")
    assert points(template, [Parameter("N", (2,))]) == [{"N": 2}]
    assert template.request({"N": 2}).code.body.hex() == "480fafc39090"


def test_a_chain_takes_three_cycles_more_for_each_multiplication(tmp_path: Path) -> None:
    files = [tmp_path / "x.csv", tmp_path / "x.json", tmp_path / "x.svg"]
    outputs = ["--csv", str(files[0]), "--json", str(files[1]), "--plot", str(files[2])]
    assert command_of("measure", [*CHAIN, "--sweep", "N=1..4", *outputs]) == 0
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    assert [row["N"] for row in rows] == ["1", "2", "3", "4"]
    assert [float(row["core_cycles_unrolled"]) for row in rows] == pytest.approx([3, 6, 9, 12], abs=0.05)
    document = json.loads(files[1].read_text())
    assert [row["N"] for row in document["rows"]] == [1, 2, 3, 4]
    assert document["provenance"]["is_model"] is True
    assert etree.fromstring(files[2].read_bytes()).tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv", "x.json", "x.svg"]


def test_what_cannot_be_assembled_or_run_is_a_row_with_a_reason(capfd: pytest.CaptureFixture[str]) -> None:
    code = ["--backend", "sim", "--arch", "SKL", "--asm", "mov rax, [r14+rax*{N}]", "--sweep", "N=2..4"]
    assert command_of("measure", [*code, "--plot", "-"]) == 4
    lines = capfd.readouterr().out.splitlines()
    (failed,) = [line for line in lines if line.startswith("3 ")]
    assert "can be scaled by 1, 2, 4 or 8" in failed
    bar = [line for line in lines if line.startswith("N=")]
    assert [line.count("█") > 40 for line in bar] == [True, False, True]


def test_if_nothing_can_be_assembled_that_is_the_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_of("measure", [*SIMULATED, "--asm", "frobnicate {N}", "--sweep", "N=1..3"]) == 2
    assert "'FROBNICATE' is not an instruction" in capfd.readouterr().err
    with pytest.raises(AssemblyError):
        list(sweep(Template("frobnicate {N}"), [{"N": 1}], open_backend("sim", architecture="SKL")))


def test_a_plot_without_a_sweep_is_refused() -> None:
    assert command_of("measure", [*SIMULATED, "--asm", "nop", "--plot", "-"]) == 2


def test_without_matplotlib_nothing_is_measured_for_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert command_of("measure", [*CHAIN, "--sweep", "N=1..2", "--plot", str(tmp_path / "x.svg")]) == 3
    assert "--plot FILE needs matplotlib" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_was_stopped_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "x.csv"
    measured: list[int] = []

    def stopping(request: CodeRequest, backend: Backend, measurers: Measurers) -> Result:
        if len(measured) == 2:
            measured.append(-1)
            raise KeyboardInterrupt
        measured.append(len(measured))
        return measure(request, backend, measurers)

    monkeypatch.setattr("runner.own_code.sweep.measure", stopping)
    arguments = [*CHAIN, "--sweep", "N=1..5", "--csv", str(output)]
    assert command_of("measure", arguments) == 130
    assert "stopped after 2 of 5 combinations; the same command resumes it" in capfd.readouterr().err
    assert (tmp_path / f"x.csv{SUFFIX}").is_file()
    assert not output.exists()
    assert command_of("measure", arguments) == 0
    assert len(measured) == 3 + 3
    assert [row["N"] for row in csv.DictReader(output.read_text().splitlines())] == ["1", "2", "3", "4", "5"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_rows_of_another_sweep_and_lines_that_were_cut_off_are_dropped(tmp_path: Path) -> None:
    output = tmp_path / "x.csv"
    with Journal(output, {"sweep": 1}) as journal:
        journal.add(0, {"N": 1})
        journal.add(1, {"N": 2})
    path = tmp_path / f"x.csv{SUFFIX}"
    path.write_text(path.read_text()[:-3])
    with Journal(output, {"sweep": 1}) as journal:
        assert journal.rows == {0: {"N": 1}}
    with Journal(output, {"sweep": 2}) as journal:
        assert journal.rows == {}


def test_two_sweeps_into_one_file_are_refused(tmp_path: Path) -> None:
    with (
        Journal(tmp_path / "x.csv", {}),
        pytest.raises(OutputError, match="another run writes it"),
        Journal(tmp_path / "x.csv", {}),
    ):
        pass


def test_plots_have_a_line_for_each_mode_and_each_value_of_other_parameters() -> None:
    cells = [
        {"N": n, "M": m, "core_cycles_unrolled": float(n * m), "status": "ok", "reason": ""}
        for n in (1, 2)
        for m in (3, 4)
    ]
    rows = Rows.of(cells)
    picture = svg(rows, ["N", "M"], "a title").decode()
    assert all(text in picture for text in ("M=3, unrolled", "M=4, unrolled", "a title", "core cycles per copy"))
    assert picture == svg(rows, ["N", "M"], "a title").decode()
    lines = list(bars(rows, ["N", "M"]))
    assert [line.split()[-1] for line in lines[1:]] == ["3.00", "4.00", "6.00", "8.00"]


@pytest.mark.parametrize("source", ["\0", "\0 nop", "nop \0"])
def test_zeros_in_what_people_type_are_an_error_of_ours(source: str) -> None:
    with pytest.raises(AssemblyError):
        Template(source).request()
