"""Measures bypass delays between classes of instructions on a backend's machine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from generator.factory import InstructionFactory
from generator.sequences.bypass import BypassCode, classes
from inference.bypass.measure import measure_bypasses
from results.bypass.model import BypassReport
from runner.backend import lacks_of
from runner.measuring.protocol import Measurer, Options
from runner.measuring.session import Limits, Session
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.sequences.bypass import BypassClass
    from results.bypass.model import MeasuredRing
    from runner.backend import Backend
    from runner.measuring.session import Progress
    from xed_convert.catalogue.catalogue import Catalogue

QUICK = Options(repetitions=10, rounds=3, enough_quiet=4, survey_looks=5, patience_seconds=2.0, patience_ratio=0.5)
"""Rings are as steady as chains, and there are two thousand: few repetitions, and little waiting."""
MOST_PROBLEMS = 5
"""Reasons that are reported."""


class BypassUnknownError(UopscopeError):
    """Classes that are not there, or not on this CPU."""


def measure_bypass_delays(
    backend: Backend,
    catalogue: Catalogue,
    words: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> BypassReport:
    """Measure the delays between classes.

    Args:
        backend: where rings run.
        catalogue: where instructions come from.
        words: labels, names, widths or files of classes (none: all that the CPU has).
        on_progress: called with the number of measured rings.

    Raises:
        BypassUnknownError: a word names no class, or none that the CPU has; or a single one is left.
        BackendError: the backend broke down.
    """
    code = BypassCode(InstructionFactory(catalogue), lacks_of(backend))
    chosen = _chosen(code, words)
    session = Session(Measurer(backend, QUICK), limits=Limits(keep_raw=False), on_progress=on_progress)
    found = session.run_one(measure_bypasses(code, chosen))
    provenance = backend.info().provenance
    problems = tuple(_problems(found.rings))
    return BypassReport(provenance, found.classes, found.matrices, found.between_files, found.rings, problems)


def _chosen(code: BypassCode, words: Sequence[str]) -> list[BypassClass]:
    """Return the classes that are wanted, in the order of the table."""
    here = code.classes()
    for word in words:
        there = [one for one in classes() if one.is_called(word)]
        if not there:
            names = ", ".join(dict.fromkeys(one.name for one in classes()))
            raise BypassUnknownError(
                f"no class {word!r}", hint=f"there are: {names}; with a width (alu/64), by width, or by register file"
            )
        if not any(one.is_called(word) for one in here):
            raise BypassUnknownError(f"no class {word!r} on this CPU: {code.missing(there[0])}")
    chosen = [one for one in here if not words or any(one.is_called(word) for word in words)]
    if len(chosen) < 2:
        raise BypassUnknownError("a delay is between two classes", hint="name another one, or none to have all")
    return chosen


def _problems(rings: Sequence[MeasuredRing]) -> list[str]:
    """Return why rings were not measured."""
    reasons = Counter(one.detail for one in rings if one.cycles is None)
    return [f"{count} rings were not measured: {reason}" for reason, count in reasons.most_common(MOST_PROBLEMS)]
