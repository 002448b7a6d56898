"""Measurements of code, as an object that shows itself as `uopscope measure` does."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from results.rows import Rows
from runner.own_code.report import lines_of_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.own_code.measure import Result

COLUMNS = ("mode", "counter", "value", "spread")


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredCode:
    """Values by mode and counter, per copy of the code. `result` has all the rest: samples, code, the machine."""

    result: Result

    @property
    def cycles(self) -> float | None:
        """Core cycles per copy: the fewest of all modes; None if no mode gave any."""
        return None if self.result.cycles is None else float(self.result.cycles)

    @property
    def ok(self) -> bool:
        """Whether every mode gave values."""
        return self.result.ok

    @property
    def problems(self) -> list[str]:
        """What did not run, or not well."""
        return self.result.problems

    @property
    def rows(self) -> Rows:
        """A row per mode ("unrolled", "loop", or "runs" where the call says how often to run) and counter."""
        return Rows.of(
            (
                {"mode": mode, "counter": counter, "value": float(one.value), "spread": float(one.spread)}
                for mode, found in self.result.modes.items()
                for counter, one in found.values.items()
            ),
            COLUMNS,
        )

    @property
    def samples(self) -> Mapping[str, list[float]]:
        """The single measurements by counter, where the call says how often to run."""
        return {
            counter: [float(one) for one in value.samples]
            for mode in self.result.modes.values()
            for counter, value in mode.values.items()
            if value.samples
        }

    def __repr__(self) -> str:
        return "\n".join(lines_of_result(self.result))

    def _repr_html_(self) -> str:
        """Return code, values and problems for a notebook."""
        code = "\n".join(line.text for line in self.result.benchmark.body)
        rest = (*self.problems, *list(lines_of_result(self.result))[-1 - len(self.result.info.caveats) :])
        return f"<pre>{escape(code)}</pre>{self.rows._repr_html_()}" + "".join(f"<p>{escape(one)}</p>" for one in rest)
