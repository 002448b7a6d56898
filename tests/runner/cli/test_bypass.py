"""`uopscope bypass`: text, JSON, what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.bypass import measure_bypass_delays
from runner.cli import bypass
from tests.attempts import undisturbed
from tests.runner.cli.commands import called, need_catalogue
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from runner.backends.tsc import TscBackend

FEW = "integer_add/128,integer_shuffle/128,float_add/128,alu/64"


def simulated(machine: str, *options: str) -> int:
    need_catalogue()
    return called(["--backend", "sim", "--arch", machine, *options], bypass.app)


def test_a_simulated_machine_with_delays_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated("HSW:bypass", "--classes", FEW) == 0
    shown = capsys.readouterr().out
    assert "  A and B: 2 cycles there and back" in shown
    assert "  A  integer_add, integer_shuffle" in shown
    assert "through VMOVD XMM0, EAX and VMOVD EAX, XMM0" in shown
    assert "HSW: simulated HSW (a model, not a CPU), backend sim" in shown
    assert "VPADDD XMM0, XMM0, XMM1; VPADDD" not in shown


def test_rings_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated("HSW:bypass", "--classes", FEW, "--explain") == 0
    shown = capsys.readouterr().out
    assert "integer_add/128 → float_add/128, 2 of each: 10.00 ± 0.00 - 8.00 = 2.00" in shown
    assert "VPADDD XMM0, XMM0, XMM1; VPADDD XMM0, XMM0, XMM1; VADDPS XMM0, XMM0, XMM1" in shown
    assert "integer_add/128 → integer_shuffle/128 → float_add/128, 4 of each" in shown


def test_json_goes_to_a_file_or_to_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert simulated("HSW", "--classes", FEW, "--json", str(path)) == 0
    assert "no bypass delay among 3 classes" in capsys.readouterr().out
    assert simulated("HSW", "--classes", FEW, "--json", "-") == 0
    written, shown = json.loads(path.read_text()), json.loads(capsys.readouterr().out)
    assert written["delays"] == shown["delays"]
    assert written["form"] == "uopscope bypass 1"
    assert {one["most"] for one in written["delays"][0]["cells"]} == {0}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--classes", "float_sub", "--backend", "sim", "--arch", "HSW"], 2, "no class 'float_sub'"),
        (["--classes", "alu,", "--backend", "sim", "--arch", "HSW"], 2, "no class ''"),
        (
            ["--classes", "512", "--backend", "sim", "--arch", "HSW"],
            2,
            "no class '512' on this CPU: the model of HSW does not have it",
        ),
        (["--classes", "alu/64", "--backend", "sim", "--arch", "HSW"], 2, "a delay is between two classes"),
        (["--json", "/nowhere/x.json"], 3, "/nowhere"),
        (["--backend", "nothing"], 2, "no backend 'nothing'"),
    ],
)
def test_wrong_input_is_refused(arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    need_catalogue()
    assert called(arguments, bypass.app) == code
    message = capsys.readouterr().err
    assert said in message
    assert "a fault of uopscope" not in message


def test_a_class_takes_as_long_beside_another_width_on_this_machine(tsc: TscBackend) -> None:
    """No known CPU has a bypass delay between additions of 32 and of 64 bits."""
    need_catalogue()

    def found() -> set[tuple[int | None, int | None]]:
        matrices = measure_bypass_delays(tsc, Catalogue.load(), ["alu"]).matrices
        assert len(matrices) <= 1  # none if the latency of a class was not steady
        return {(one.least, one.most) for matrix in matrices for one in matrix.cells}

    undisturbed(found, lambda ranges: ranges == {(0, 0)})
