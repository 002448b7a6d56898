"""A mapping that is fitted to times of mixes predicts mixes that it has not seen."""

from __future__ import annotations

import json
import random
import sys
from subprocess import run
from typing import TYPE_CHECKING

import pytest

from inference.ports.by_time.fit import FitError, ResourceMapping, TimedMix, contention, fit, split
from results.model import PortUsage
from results.ports import joined, throughput_of

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [PortUsage.parse(text) for text in ("1*p0", "1*p01", "1*p5+1*p01", "1*p23", "1*p0156", "2*p5")]


def mixes(instructions: int, count: int) -> list[TimedMix]:
    """Return exact times of mixes on a machine with ports."""
    source = random.Random(3)

    def time_of(numbers: tuple[int, ...]) -> float:
        usage = PortUsage({})
        for number in numbers:
            usage = joined(usage, KINDS[number % len(KINDS)])
        return max(float(throughput_of(usage)), len(numbers) / 4)

    alone = [(number,) for number in range(instructions)]
    several = [tuple(source.choices(range(instructions), k=source.randint(2, 5))) for _ in range(count)]
    return [TimedMix(numbers, time_of(numbers)) for numbers in (*alone, *several)]


def test_mixes_that_were_held_back_are_predicted() -> None:
    kept, held = split(mixes(18, 700), 1)
    assert len(held) >= 50
    mapping = fit(kept, 18)
    assert mapping.error(held) < 0.04
    assert mapping == fit(kept, 18), "the same data give the same mapping"


def test_an_instruction_in_no_mix_is_an_error() -> None:
    with pytest.raises(FitError, match="instruction 2 is in no mix"):
        fit([TimedMix((0, 1), 1.0)] * 40, 3)


def test_pairs_that_take_longer_than_their_loads_are_contention() -> None:
    mapping = ResourceMapping((0, 1), ((1.0, 0.0), (0.0, 1.0)))
    slow = [TimedMix((0, 1), 1.5)] * 12
    assert contention(mapping, slow) == {(0, 1): pytest.approx(0.5)}
    assert contention(mapping, slow[1:]) == {}
    assert ResourceMapping((0, 1), mapping.loads, {(0, 1): 0.5}).cycles((0, 1)) == pytest.approx(1.5)


def command(*arguments: object) -> tuple[int, str, str]:
    """Return exit code and output of `uopscope ports`."""
    done = run(
        [sys.executable, "-m", "runner.cli.uopscope", "ports", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_writes_classes_loads_and_errors(tmp_path: Path) -> None:
    names = [f"I{number}" for number in range(12)]
    experiments = [[list(one.instructions), one.cycles] for one in mixes(12, 400)]
    data = {"instructions": names, "experiments": experiments}
    source, target = tmp_path / "mixes.json", tmp_path / "mapping.json"
    source.write_text(json.dumps(data))
    code, said, _ = command("fit", source, "-o", target)
    assert code == 0
    assert "held back" in said
    found = json.loads(target.read_text())
    assert sorted(name for one in found["classes"] for name in one["instructions"]) == sorted(names)
    assert found["errors"]["held_back"]["all"] < 0.08


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a file of mixes"),
        ("[1]", "not a file of mixes"),
        ('{"instructions": ["A", "B"], "experiments": [[[0, 7], 1.0]]}', "experiment 0"),
        ('{"instructions": ["A", "B"], "experiments": [[[0], -1]]}', "experiment 0"),
        ('{"instructions": ["A"], "experiments": []}', "1 instructions"),
        ('{"instructions": ["A", "B"], "experiments": [[[0], 1], [[1], 1]]}', "too few"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, says: str) -> None:
    source = tmp_path / "mixes.json"
    source.write_text(text)
    code, _, said = command("fit", source)
    assert code not in {0, 1}
    assert says in said
    assert "Traceback" not in said
