"""`uopscope interrupts`: samples of this machine where the kernel allows it, predictions, and what is refused."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from runner.backend import BackendError
from runner.cli import interrupts
from runner.host.cpu import choose
from runner.host.interrupts.sample import Sampled, Sampling, loop_of
from runner.interrupted import Interrupted, interrupted, json_of, lines_of
from runner.own_code.text import assemble
from tests.runner.cli.commands import called, need_catalogue

if TYPE_CHECKING:
    from pathlib import Path

CHAIN = "imul rax, rax; imul rax, rax; imul rax, rax; imul rax, rax; nop"


def sampled(*counts: int, offset: int = 0) -> Sampled:
    return Sampled(offset, counts, 3, 7, 0, 0.1)


def test_shares_of_layouts_count_alike_and_what_is_left_is_named() -> None:
    layouts = (sampled(0, 90, 10), sampled(0, 500, 500, offset=16))
    found = Interrupted(("A", "B", "C"), layouts, {1: Fraction(1)}, "SKL")
    assert found.shares == {1: Fraction(7, 10), 2: Fraction(3, 10)}
    assert found.distance == Fraction(3, 10)
    assert found.spread == Fraction(2, 5)
    text = "\n".join(lines_of(found))
    assert "unexplained: 30.0% more at C" in text
    assert "1100 samples in 2 layouts" in text
    assert "14 stale ones dropped" in text
    data = json.loads(json.dumps(json_of(found)))
    assert [one["samples"] for one in data["instructions"]] == [[0, 0], [90, 500], [10, 500]]
    assert data["distance"] == pytest.approx(0.3)


def test_a_prediction_needs_no_samples(capsys: pytest.CaptureFixture[str]) -> None:
    need_catalogue()
    assert called(["--asm", CHAIN, "--predict", "--arch", "SKL"], interrupts.app) == 0
    said = capsys.readouterr().out
    assert said.count("IMUL RAX,RAX") == 4
    # Each product is the oldest one for three of twelve cycles, and the one behind it is caught
    assert len(re.findall(r" 2[45]\.\d%", said)) == 4


def test_the_loop_that_is_sampled_is_the_body_and_its_end() -> None:
    from generator.microbenchmark import Line, Microbenchmark  # noqa: PLC0415

    body = assemble(CHAIN)
    code = loop_of(Microbenchmark((), (Line(body, "x"),), "x"))
    assert code.startswith(body)
    assert len(code) - len(body) == 9


def test_samples_of_this_machine_are_where_a_chain_waits() -> None:
    need_catalogue()
    try:
        found = interrupted(assemble(CHAIN), b"", "SKL", Sampling(100, cpu=choose(None), seconds=2))
    except BackendError as error:
        pytest.skip(str(error))
    assert sum(one.total for one in found.layouts) >= 20
    # Each IMUL keeps the one behind it waiting; NOP, DEC and JNE retire with the next ones
    assert sum(found.shares.get(position, Fraction(0)) for position in (0, 1, 2, 3, 4)) > Fraction(4, 5)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--asm", "NOSUCH RAX"], 2, "NOSUCH"),
        (["--asm", "mov r15, 1"], 2, "R15"),
        (["--asm", "nop", "--predict", "--cpu", "0"], 2, "--predict runs nothing"),
        (["--asm", "nop", "--predict", "--arch", "NOSUCH"], 2, "NOSUCH"),
    ],
)
def test_wrong_input_is_refused(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    need_catalogue()
    target = tmp_path / "out.json"
    assert called([*arguments, "--json", str(target)], interrupts.app) == code
    message = capsys.readouterr().err
    assert said.lower() in message.lower()
    assert "a fault of uopscope" not in message
    assert not target.exists()


def test_code_that_faults_is_said() -> None:
    with pytest.raises(BackendError, match=r"signal 11|refuses"):
        interrupted(assemble("mov rax, [0]"), b"", "SKL", Sampling(100, seconds=1))
