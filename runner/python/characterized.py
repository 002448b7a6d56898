"""What was concluded about variants, as an object that shows itself as the table of `characterize` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, overload

from results.model import Bound
from results.rows import Rows
from results.table import COLUMNS, ResultRow, record, table_lines
from results.text import machine_text, pair_text
from xed_convert.errors import UnknownInstructionError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from results.campaign.records import Conclusion
    from results.model import Characterization
    from xed_convert.model import InstructionVariant

LATENCY_COLUMNS = (
    *("architecture", "is_model", "string", "pair", "source", "destination", "cycles", "at_most"),
    *("same_register", "fast_values"),
)
WIDTH_CHARACTERS = 160
"""Of the table in a terminal; wider ones are broken into lines as on a narrow terminal."""


@dataclass(frozen=True, slots=True, repr=False)
class Characterizations(Sequence["Characterization"]):
    """Conclusions about variants of the catalogue, in the order in which the variants were named."""

    conclusions: tuple[Conclusion, ...]
    variants: tuple[InstructionVariant, ...]

    def __len__(self) -> int:
        return len(self.conclusions)

    @overload
    def __getitem__(self, at: int | str) -> Characterization: ...

    @overload
    def __getitem__(self, at: slice) -> Characterizations: ...

    def __getitem__(self, at: int | str | slice) -> Characterization | Characterizations:
        """Return the conclusion about a variant, by its number or its string ("ADC_11 (R64, R64)"), or some of them.

        Raises:
            UnknownInstructionError: there is no conclusion about a variant of that string; the hint names some.
        """
        if isinstance(at, slice):
            return Characterizations(self.conclusions[at], self.variants[at])
        if isinstance(at, int):
            return self.conclusions[at].result
        for each in self.conclusions:
            if each.result.string == at:
                return each.result
        known = ", ".join(each.result.string for each in self.conclusions[:5])
        raise UnknownInstructionError(f"no conclusion about {at!r}", hint=f"there are: {known} ...")

    @property
    def rows(self) -> Rows:
        """A row per variant: µops, ports, throughputs, latencies as text, failures."""
        pairs = zip(self._result_rows(), self.conclusions, strict=True)
        return Rows.of((record(row, each.provenance) for row, each in pairs), COLUMNS)

    @property
    def latencies(self) -> Rows:
        """A row per latency: core cycles in `cycles` if they are exact, in `at_most` if they are an upper bound."""
        return Rows.of(
            (
                {
                    "architecture": each.provenance.architecture,
                    "is_model": each.provenance.is_model,
                    "string": each.result.string,
                    "pair": pair_text(latency, variant),
                    "source": latency.source,
                    "destination": latency.destination,
                    "cycles": _number(latency.cycles) if latency.bound is Bound.EXACT else None,
                    "at_most": None if latency.bound is Bound.EXACT else _number(latency.cycles),
                    "same_register": latency.same_register,
                    "fast_values": latency.fast_values,
                }
                for each, variant in zip(self.conclusions, self.variants, strict=True)
                for latency in each.result.latencies
            ),
            LATENCY_COLUMNS,
        )

    def to_xml(self, path: Path | str) -> None:
        """Write an instructions.xml with these variants.

        Raises:
            OutputError: the file cannot be written.
        """
        from results.database import merge, xml  # noqa: PLC0415 - what is only shown does not need it

        known = [
            (variant, xml.Conclusion(each.result, each.provenance))
            for variant, each in zip(self.variants, self.conclusions, strict=True)
            if not each.result.skipped
        ]
        with atomic_write(path) as file:
            merge.write_xml([variant for variant, _ in known], [one for _, one in known], file)

    def __repr__(self) -> str:
        rows = list(self._result_rows())
        lines = [line.plain for line in table_lines(rows, WIDTH_CHARACTERS)] if self._measured() else []
        return "\n".join([*lines, *self._skipped(), *self._machines()])

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        rest = "".join(f"<p>{escape(line)}</p>" for line in (*self._skipped(), *self._machines()))
        return self.rows._repr_html_() + rest

    def _result_rows(self) -> list[ResultRow]:
        pairs = zip(self.conclusions, self.variants, strict=True)
        return [ResultRow(each.result, variant) for each, variant in pairs]

    def _measured(self) -> bool:
        return any(not each.result.skipped for each in self.conclusions)

    def _skipped(self) -> list[str]:
        return [f"{one.string}: skipped, {one.skipped}" for each in self.conclusions if (one := each.result).skipped]

    def _machines(self) -> list[str]:
        return list(dict.fromkeys(machine_text(each.provenance) for each in self.conclusions))


def _number(cycles: Fraction) -> int | float:
    """Return an integer if it is one."""
    return cycles.numerator if cycles.denominator == 1 else float(cycles)
