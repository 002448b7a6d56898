"""Where interrupts catch a loop: measured in several layouts, and predicted by a model of retirement."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from analysis.bounds.components import Running
from analysis.prediction import PredictionMode
from analysis.retirement import distance, predicted
from generator.microbenchmark import Microbenchmark
from runner.host import cpu as cpus
from runner.host.interrupts.sample import Sampled, Sampling, loop_of, sample_all
from runner.own_code.analyzing.analyzed import tools_for
from runner.own_code.code import check_body
from runner.own_code.code import lines_of as code_lines
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from analysis.prediction import Tools
    from analysis.retirement import RetirementPrediction

NAMED = Fraction(1, 100)
"""Share that the model leaves unexplained and that is named."""
SLOWER = 1.1
"""Times the cycles of the model: two threads on a core take a quarter longer and more; trials are within 1%."""


class InterruptsError(UopscopeError):
    """Nothing can be said of the code."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Instructions of a loop with the samples of each layout, round and source, and what the model says of them.

    `prediction` is None where there is none, for the reason `why`. `architecture` is that of the prediction. It has
    nothing about `unknown` instructions.
    """

    texts: tuple[str, ...]
    layouts: tuple[Sampled, ...]
    prediction: RetirementPrediction | None
    architecture: str
    why: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def predicted(self) -> Mapping[int, Fraction]:
        """The predicted shares by position, none without a prediction."""
        return {} if self.prediction is None else self.prediction.shares

    @property
    def shares(self) -> dict[int, Fraction]:
        """The share of each instruction over all layouts, rounds and sources, which count alike."""
        return mean_shares(self.layouts)

    def share(self, position: int) -> Fraction:
        """Return the share of one instruction."""
        return self.shares.get(position, Fraction(0))

    @property
    def distance(self) -> Fraction | None:
        """The total variation distance of measurement and prediction (None: one is missing)."""
        return distance(self.shares, self.predicted) if self.layouts and self.predicted else None

    @property
    def layout_distance(self) -> Fraction:
        """The greatest total variation distance of two layouts."""
        return self._greatest(lambda one: one.offset_bytes)

    @property
    def source_distance(self) -> Fraction | None:
        """The total variation distance of the sources (None: there is only one)."""
        return self._greatest(lambda one: one.source) if len({one.source for one in self.layouts}) > 1 else None

    @property
    def round_distance(self) -> Fraction | None:
        """The greatest total variation distance of two rounds of the same layout and source (None: one round)."""
        alike = _grouped(self.layouts, lambda one: (one.offset_bytes, one.source))
        found = [distance(one.shares, other.shares) for group in alike for one, other in combinations(group, 2)]
        return max(found, default=None)

    @property
    def cycles(self) -> float:
        """Core cycles of an iteration that nothing interrupted, in the fastest layout."""
        return min((one.cycles for one in self.layouts), default=0.0)

    @property
    def disturbed(self) -> bool:
        """Whether the loop is slower than the model says, so that the samples are those of another run of it."""
        return self.prediction is not None and self.cycles > SLOWER * float(self.prediction.cycles)

    @property
    def unexplained(self) -> list[tuple[int, Fraction]]:
        """Positions that have more samples than the model says, from `NAMED` on, with the difference."""
        if not self.predicted or not self.layouts:
            return []
        left = {one: share - self.predicted.get(one, Fraction(0)) for one, share in self.shares.items()}
        return [(position, share) for position, share in left.items() if share >= NAMED]

    def _greatest(self, key: Callable[[Sampled], object]) -> Fraction:
        means = [mean_shares(group) for group in _grouped(self.layouts, key)]
        return max((distance(one, other) for one, other in combinations(means, 2)), default=Fraction(0))


def mean_shares(layouts: Sequence[Sampled]) -> dict[int, Fraction]:
    """Return the mean share of each instruction that was caught at all, by position."""
    positions = sorted({position for one in layouts for position in one.shares})
    none = Fraction(0)
    return {place: sum((one.shares.get(place, none) for one in layouts), none) / len(layouts) for place in positions}


def _grouped(layouts: Sequence[Sampled], key: Callable[[Sampled], object]) -> list[list[Sampled]]:
    found: dict[object, list[Sampled]] = defaultdict(list)
    for one in layouts:
        found[key(one)].append(one)
    return list(found.values())


def interrupted(
    body: bytes, init: bytes, architecture: str, sampling: Sampling | None, data: Path | None = None
) -> Interrupted:
    """Sample a loop in all layouts (None: do not), and predict by what is shipped, or by a file of measurements.

    Raises:
        MeasureError: there is no code, or it writes a register that counts the loop.
        BackendError: the kernel refuses the clock, or the code ended its process.
    """
    benchmark = Microbenchmark(code_lines(init), code_lines(body), "a loop that is interrupted")
    check_body(benchmark, loops=True, automatic=False)
    return predicted_loop(body, architecture, () if sampling is None else sampled(benchmark, sampling), data)


def predicted_loop(
    body: bytes, architecture: str, layouts: tuple[Sampled, ...], data: Path | None = None
) -> Interrupted:
    """Predict a loop from the shipped measurements, or from those of a file; there may be samples of it.

    Raises:
        InterruptsError: there is neither a prediction nor a sample.
    """
    try:
        return predicted_by(tools_for(architecture, data), body, layouts)
    except (UopscopeError, ValueError) as error:
        if not layouts:
            raise InterruptsError(f"no prediction: {error}") from error
        return Interrupted(_instructions(_loop(body))[1], layouts, None, architecture, str(error))


def predicted_by(tools: Tools, body: bytes, layouts: tuple[Sampled, ...]) -> Interrupted:
    """Predict a loop with the tools for a machine; there may be samples of it.

    Raises:
        UopscopeError: the machine cannot run it.
        ValueError: no time passes.
    """
    code = _loop(body)
    prediction = tools.predict(code, Running.LOOP, PredictionMode.SIMULATION)
    study, unknown = prediction.study, tuple(item.name for item in prediction.bounds.block.unknown)
    assert study is not None
    return Interrupted(_instructions(code)[1], layouts, predicted(study), tools.machine.name, unknown=unknown)


def _loop(body: bytes) -> bytes:
    return loop_of(Microbenchmark((), code_lines(body), "a loop that is interrupted"))


def sampled(benchmark: Microbenchmark, sampling: Sampling) -> tuple[Sampled, ...]:
    """Sample a loop in all layouts, rounds, and by all sources.

    Raises:
        BackendError: the kernel refuses all sources, or the code ended its process.
        InterruptsError: no interrupt came.
    """
    starts, _ = _instructions(loop_of(benchmark))
    found = tuple(sample_all(benchmark, starts, cpus.choose(sampling.cpu), sampling))
    if not all(one.total for one in found):
        raise InterruptsError("no interrupt came while the loop ran", hint="take a longer --period, or more samples")
    return found


def _instructions(code: bytes) -> tuple[list[int], tuple[str, ...]]:
    """Return where instructions begin, with the end of the code, and their texts."""
    from iced_x86 import Decoder, Formatter, FormatterSyntax  # noqa: PLC0415 - only code that is sampled needs it

    formatter = Formatter(FormatterSyntax.INTEL)
    starts, texts = [0], []
    for one in Decoder(64, code):
        starts.append(starts[-1] + one.len)
        texts.append(formatter.format(one).upper())
    return starts, tuple(texts)
