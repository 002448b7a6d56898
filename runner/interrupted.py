"""Where interrupts catch a loop: measured in several layouts, and predicted by a model of retirement."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from analysis.bounds import Running
from analysis.prediction import Mode
from analysis.retirement import distance, predicted
from generator.microbenchmark import Microbenchmark
from runner.host import cpu as cpus
from runner.host.interrupts.sample import OFFSETS, Sampled, Sampling, loop_of, sample
from runner.own_code.analyzed import tools_for
from runner.own_code.code import check_body
from runner.own_code.code import lines_of as code_lines
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMED = Fraction(1, 100)
"""Share that the model leaves unexplained and that is named."""


class InterruptsError(UopscopeError):
    """Nothing can be said of the code."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Instructions of a loop with the samples of each layout, and the predicted shares by position.

    `prediction` is empty where there is none, for the reason `why`. `architecture` is that of the prediction.
    """

    texts: tuple[str, ...]
    layouts: tuple[Sampled, ...]
    prediction: Mapping[int, Fraction]
    architecture: str
    why: str = ""

    @property
    def shares(self) -> dict[int, Fraction]:
        """The share of each instruction over all layouts, each of which counts alike."""
        count = len(self.layouts)
        positions = sorted({position for one in self.layouts for position in one.shares})
        return {
            position: sum((one.shares.get(position, Fraction(0)) for one in self.layouts), Fraction(0)) / count
            for position in positions
        }

    @property
    def distance(self) -> Fraction | None:
        """The total variation distance of measurement and prediction (None: one is missing)."""
        return distance(self.shares, dict(self.prediction)) if self.layouts and self.prediction else None

    @property
    def spread(self) -> Fraction:
        """The greatest total variation distance of two layouts."""
        pairs = ((one, other) for one in self.layouts for other in self.layouts)
        return max((distance(one.shares, other.shares) for one, other in pairs), default=Fraction(0))


def interrupted(body: bytes, init: bytes, architecture: str, sampling: Sampling | None) -> Interrupted:
    """Sample a loop in all layouts (None: do not), and predict.

    Raises:
        MeasureError: there is no code, or it writes a register that counts the loop.
        BackendError: the kernel refuses the clock, or the code ended its process.
    """
    benchmark = Microbenchmark(code_lines(init), code_lines(body), "a loop that is interrupted")
    check_body(benchmark, loops=True, automatic=False)
    code = loop_of(benchmark)
    starts, texts = _instructions(code)
    layouts: tuple[Sampled, ...] = ()
    if sampling is not None:
        number = cpus.choose(sampling.cpu)
        layouts = tuple(sample(benchmark, starts, number, sampling, offset) for offset in OFFSETS)
        if not all(one.total for one in layouts):
            raise InterruptsError(
                "no interrupt came while the loop ran", hint="take a longer --period, or more samples"
            )
    try:
        tools = tools_for(architecture, None)
        study = tools.predict(code, Running.LOOP, Mode.SIMULATION).study
        assert study is not None
        return Interrupted(texts, layouts, predicted(study), tools.machine.name)
    except (UopscopeError, ValueError) as error:
        if sampling is None:
            raise InterruptsError(f"no prediction: {error}") from error
        return Interrupted(texts, layouts, {}, architecture, str(error))


def _instructions(code: bytes) -> tuple[list[int], tuple[str, ...]]:
    """Return where instructions begin, with the end of the code, and their texts."""
    from iced_x86 import Decoder, Formatter, FormatterSyntax  # noqa: PLC0415 - only code that is sampled needs it

    formatter = Formatter(FormatterSyntax.INTEL)
    starts, texts = [0], []
    for one in Decoder(64, code):
        starts.append(starts[-1] + one.len)
        texts.append(formatter.format(one).upper())
    return starts, tuple(texts)


def lines_of(found: Interrupted) -> Iterator[str]:
    """Yield a line per instruction: measured share, its least and greatest over the layouts, predicted share."""
    width = max(map(len, found.texts))
    yield f"{'':{width}}  {'measured':>8}  {'layouts':>13}  {'model':>6}"
    shares = found.shares if found.layouts else {}
    for number, text in enumerate(found.texts):
        each = [one.shares.get(number, Fraction(0)) for one in found.layouts]
        measured = f"{float(shares.get(number, 0)):8.1%}" if each else f"{'':8}"
        spread = f"{float(min(each)):5.1%} - {float(max(each)):5.1%}" if each else ""
        model = f"{float(found.prediction.get(number, 0)):6.1%}" if found.prediction else "?"
        yield f"{text:{width}}  {measured}  {spread:>13}  {model:>6}"
    yield ""
    yield from _summary(found)


def _summary(found: Interrupted) -> Iterator[str]:
    if found.layouts:
        names = ("total", "stale", "lost", "elsewhere")
        totals = {name: sum(getattr(one, name) for one in found.layouts) for name in names}
        rate = min(one.per_second for one in found.layouts)
        yield (
            f"{totals['total']} samples in {len(found.layouts)} layouts, at least {rate:.0f} per second of the CPU;"
            f" {totals['stale']} stale ones dropped, {totals['elsewhere']} elsewhere, {totals['lost']} lost"
        )
        yield f"two layouts differ by {float(found.spread):.3f} at most (total variation distance)"
    if found.distance is not None:
        yield f"the model of {found.architecture} is off by {float(found.distance):.3f}"
        for number, text in enumerate(found.texts):
            left = found.shares.get(number, Fraction(0)) - found.prediction.get(number, Fraction(0))
            if left > NAMED:
                yield f"  unexplained: {float(left):.1%} more at {text}"
    elif found.why:
        yield f"no prediction: {found.why}"


def json_of(found: Interrupted) -> dict[str, Any]:
    """Return all of it as JSON."""
    return {
        "instructions": [
            {
                "text": text,
                "measured": float(found.shares.get(number, 0)) if found.layouts else None,
                "predicted": float(found.prediction.get(number, 0)) if found.prediction else None,
                "samples": [one.counts[number] for one in found.layouts],
            }
            for number, text in enumerate(found.texts)
        ],
        "layouts": [
            {
                "offset_bytes": one.offset_bytes,
                "samples": one.total,
                "elsewhere": one.elsewhere,
                "stale": one.stale,
                "lost": one.lost,
                "per_second": one.per_second,
            }
            for one in found.layouts
        ],
        "architecture": found.architecture,
        "distance": None if found.distance is None else float(found.distance),
        "spread": float(found.spread),
        "no_prediction": found.why,
    }
