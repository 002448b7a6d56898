"""`uopscope interrupts`: samples of this machine where the kernel allows it, predictions, and what is refused."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from lxml import etree

from analysis.retirement import Cause, Oldest, RetirementPrediction
from runner.backend import BackendError
from runner.cli import interrupts
from runner.host.cpu import choose
from runner.host.interrupts import sample
from runner.host.interrupts.sample import USUAL_SOURCES, Sampled, Sampling, Source, loop_of
from runner.host.interrupts.sampler import SampledRun, Sampler
from runner.interrupts.plot import svg
from runner.interrupts.report import json_of, lines_of
from runner.interrupts.study import Interrupted, interrupted
from runner.own_code.reading.text import assemble
from tests.attempts import undisturbed
from tests.runner.cli.commands import called, need_catalogue
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

CHAIN = "imul rax, rax; imul rax, rax; imul rax, rax; imul rax, rax; nop"


ALL_BEHIND_A = RetirementPrediction({1: Fraction(1)}, Fraction(3), {1: Oldest(0, Fraction(3), Cause.RESULT)})


def sampled(*counts: int, offset: int = 0, cycles: float = 3.0, source: Source = Source.PERF) -> Sampled:
    return Sampled(offset, counts, 3, 7, 0, 0.1, 5, cycles, source)


def test_shares_of_layouts_count_alike_and_what_is_left_is_named() -> None:
    layouts = (sampled(0, 90, 10), sampled(0, 500, 500, offset=16))
    found = Interrupted(("A", "B", "C"), layouts, ALL_BEHIND_A, "SKL")
    assert found.shares == {1: Fraction(7, 10), 2: Fraction(3, 10)}
    assert found.distance == Fraction(3, 10)
    assert (found.layout_distance, found.round_distance, found.source_distance) == (Fraction(2, 5), None, None)
    text = "\n".join(lines_of(found))
    assert "unexplained: 30.0% more at C" in text
    assert "3.0 cycles behind A, which executes" in text
    assert "1100 samples; 14 stale ones and 10 of disturbed runs dropped, 6 elsewhere" in text
    assert "slower" not in text
    data = json.loads(json.dumps(json_of(found)))
    assert [one["samples"] for one in data["instructions"]] == [[0, 0], [90, 500], [10, 500]]
    assert data["distance"] == pytest.approx(0.3)


def test_sources_and_rounds_are_compared() -> None:
    layouts = (
        sampled(0, 90, 10),
        sampled(0, 70, 30),
        sampled(0, 60, 40, source=Source.TIMER),
        sampled(0, 60, 40, source=Source.TIMER),
    )
    found = Interrupted(("A", "B", "C"), layouts, None, "SKL", "why not")
    assert found.layout_distance == 0
    assert found.round_distance == Fraction(1, 5)
    assert found.source_distance == Fraction(1, 5)
    text = "\n".join(lines_of(found))
    assert "rounds 0.200, sources 0.200" in text
    assert "perf at least 1030, timer at least 1030" in text
    assert "no prediction: why not" in text


def test_a_loop_that_is_slower_than_the_model_is_said() -> None:
    found = Interrupted(("A", "B"), (sampled(0, 10, cycles=3.5),), ALL_BEHIND_A, "SKL")
    assert found.disturbed
    assert "3.50 cycles per iteration, 3.00 by the model of SKL" in "\n".join(lines_of(found))
    assert "another thread shares the core" in "\n".join(lines_of(found))


def test_instructions_of_which_nothing_is_known_are_named() -> None:
    data = CHECKOUT / "tests" / "data" / "published.xml"
    found = interrupted(assemble("imul rax, rbx; imul rax, rbx"), b"", "ZEN4", None, data)
    assert found.unknown[:2] == ("IMUL (R64, R64)",) * 2
    assert "! Nothing is known of IMUL (R64, R64) (2 times)" in "\n".join(lines_of(found))
    assert json_of(found)["unknown"] == list(found.unknown)


def test_a_picture_has_a_bar_for_what_was_measured_and_for_the_model() -> None:
    found = Interrupted(("A", "B <", "C"), (sampled(0, 90, 10), sampled(0, 50, 50)), ALL_BEHIND_A, "SKL")
    root = etree.fromstring(svg(found).encode())
    space = "{http://www.w3.org/2000/svg}"
    bars = [(one.get("class"), float(one.get("width", ""))) for one in root.iter(f"{space}rect")]
    assert bars == [(None, 0), ("model", 0), (None, 252), ("model", 360), (None, 108), ("model", 0)]
    assert "B <" in [one.text for one in root.iter(f"{space}text")]
    lines = [(float(one.get("x1", "")), float(one.get("x2", ""))) for one in root.iter(f"{space}line")]
    assert [round(end - begin) for begin, end in lines] == [0, 144, 144]


def test_a_prediction_needs_no_samples(capsys: pytest.CaptureFixture[str]) -> None:
    need_catalogue()
    assert called(["--asm", CHAIN, "--predict", "--arch", "SKL"], interrupts.app) == 0
    said = capsys.readouterr().out
    assert said.count(" behind IMUL RAX,RAX, which executes") == 4
    # Each product is the oldest one for three of twelve cycles, and the one behind it is caught
    assert len(re.findall(r" 2[45]\.\d%", said)) == 4


def runs(*pairs: tuple[float, float]) -> Sampler:
    """Return a sampler with runs of these relative times of the loop and contention probes; it runs nothing."""
    sampler = object.__new__(Sampler)
    sampler.runs = [
        SampledRun(relative, probe, 0.02, [(number, 0)], 0) for number, (relative, probe) in enumerate(pairs)
    ]
    sampler.quiet = float("inf")
    return sampler


def test_runs_with_a_slower_loop_or_contention_probe_do_not_count() -> None:
    sampler = runs((4.0, 100.0), (4.1, 101.0), (5.0, 100.0), (4.0, 150.0), (3.0, 130.0))
    assert [one.samples[0][0] for one in sampler.undisturbed()] == [0, 1]
    sampler.quiet = 99.0
    assert [one.samples[0][0] for one in sampler.undisturbed()] == [0, 1]


def test_a_core_that_is_shared_all_the_time_is_known_by_another_layout_s_probe() -> None:
    sampler = runs((4.0, 130.0), (4.0, 131.0))
    assert len(sampler.undisturbed()) == 2
    sampler.quiet = 100.0
    assert sampler.undisturbed() == []
    assert len(sampler.kept()) == 2  # the report says what there is, with its probe


def test_layouts_with_company_are_sampled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = iter((100.0, 150.0, 101.0, 140.0, 102.0, 145.0))
    tried: list[tuple[int, float]] = []

    def fake(*arguments: object) -> Sampled:
        visit = arguments[4]
        assert isinstance(visit, sample.Visit)
        tried.append((visit.offset_bytes, visit.quiet))
        return Sampled(visit.offset_bytes, (1,), 0, 0, 0, 0.1, source=visit.source, probe=next(probes))

    monkeypatch.setattr(sample, "sample", fake)
    from generator.microbenchmark import Microbenchmark  # noqa: PLC0415

    sampling = Sampling(sources=(Source.PERF,), rounds=1)
    found = sample.sample_all(Microbenchmark((), (), ""), [0], 0, sampling)
    assert [one.probe for one in found] == [100.0, 102.0, 101.0, 140.0]
    assert tried == [(0, 0.0), (16, 100.0), (32, 100.0), (48, 100.0), (16, 100.0), (48, 100.0)]


def test_the_loop_that_is_sampled_is_the_body_and_its_end() -> None:
    from generator.microbenchmark import Line, Microbenchmark  # noqa: PLC0415

    body = assemble(CHAIN)
    code = loop_of(Microbenchmark((), (Line(body, "x"),), "x"))
    assert code.startswith(body)
    assert len(code) - len(body) == 9


@pytest.mark.parametrize("source", USUAL_SOURCES)
def test_samples_of_this_machine_are_where_a_chain_waits(source: Source) -> None:
    need_catalogue()
    try:
        sampling = Sampling(100, cpu=choose(None), seconds=2, sources=(source,), rounds=1, offsets=(0, 16))
        found = undisturbed(
            lambda: interrupted(assemble(CHAIN), b"", "SKL", sampling),
            lambda one: one.cycles == pytest.approx(12, rel=0.05),
        )
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
        (["--asm", "nop", "--source", "dice"], 2, "perf, timer or kmod"),
        (["--asm", "nop", "--backend", "tsc"], 2, "only kmod"),
        (["--asm", "nop", "--backend", "kmod"], 3, "the kernel module"),
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
    with pytest.raises(BackendError, match=r"SIGSEGV|refuses"):
        interrupted(assemble("mov rax, [0]"), b"", "SKL", Sampling(100, seconds=1))
