"""Conclusions about variants, as an object that shows itself as the table of `characterize` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, overload

from results import sentences
from results.rows import Rows
from results.table import COLUMNS, ResultRow, record, table_lines
from results.text import machine_text, pair_text
from results.whole_cycles import whole_cycles
from xed_convert.errors import UnknownInstructionError
from xed_convert.files import named_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from results.campaign.records import Conclusion
    from xed_convert.model import InstructionVariant

LATENCY_COLUMNS = (
    *("architecture", "is_model", "string", "pair", "source", "destination", "cycles", "at_most"),
    *("same_register", "fast_values"),
)
WIDTH_CHARACTERS = 160
"""Of the table in a terminal; wider ones are broken into lines as on a narrow terminal."""


@dataclass(frozen=True, slots=True, repr=False)
class Characterized:
    """What was concluded about one variant. `conclusion` has all the rest, with exact fractions and evidence."""

    conclusion: Conclusion
    variant: InstructionVariant

    @property
    def string(self) -> str:
        """The variant's name in the catalogue."""
        return self.variant.string

    @property
    def uops(self) -> int | None:
        """Executed µops; None if they are not known."""
        return self.conclusion.result.uops

    @property
    def ports(self) -> str | None:
        """The port usage as `1*p0156+1*p06`; None if it is not known."""
        ports = self.conclusion.result.ports
        return None if ports is None else str(ports)

    @property
    def throughput(self) -> Mapping[str, float]:
        """Cycles per instruction, as far as they are known: "unrolled", "loop", and "ports" (computed from them)."""
        found = self.conclusion.result.throughput
        values = {"unrolled": found.unrolled, "loop": found.loop, "ports": found.ports}
        return {name: float(value) for name, value in values.items() if value is not None}

    @property
    def latencies(self) -> Rows:
        """A row per latency: core cycles in `cycles` if they are exact, in `at_most` if they are an upper bound."""
        return Rows.of(self.latency_records(), LATENCY_COLUMNS)

    @property
    def skipped(self) -> str:
        """Why nothing was measured; "" if something was."""
        return self.conclusion.result.skipped

    @property
    def failures(self) -> tuple[str, ...]:
        """Checks that did not hold."""
        return tuple(map(sentences.failure, self.conclusion.result.failures))

    def latency_records(self) -> Iterator[Mapping[str, object]]:
        """Yield the rows of `latencies`."""
        where = self.conclusion.provenance
        for latency in self.conclusion.result.latencies:
            said = whole_cycles(latency)
            yield {
                "architecture": where.architecture,
                "is_model": where.is_model,
                "string": self.string,
                "pair": pair_text(latency, self.variant),
                "source": latency.source,
                "destination": latency.destination,
                "cycles": None if said.is_bound else said.least,
                "at_most": said.most if said.is_bound else None,
                "same_register": latency.same_register,
                "fast_values": latency.fast_values,
            }

    def record(self) -> Mapping[str, object]:
        """Return the row of a table."""
        return record(self.row(), self.conclusion.provenance)

    def row(self) -> ResultRow:
        """Return the row of the printed table."""
        return ResultRow(self.conclusion.result, self.variant)

    def __repr__(self) -> str:
        return repr(Characterizations((self,)))

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return Characterizations((self,))._repr_html_()


@dataclass(frozen=True, slots=True, repr=False)
class Characterizations(Sequence[Characterized]):
    """Conclusions about variants of the catalogue, in the order in which the variants were named."""

    found: tuple[Characterized, ...]

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, at: int | str) -> Characterized: ...

    @overload
    def __getitem__(self, at: slice) -> Characterizations: ...

    def __getitem__(self, at: int | str | slice) -> Characterized | Characterizations:
        """Return the conclusion about a variant, by its number or its string ("ADC_11 (R64, R64)"), or some of them.

        Raises:
            UnknownInstructionError: there is no conclusion about a variant of that string; the hint names some.
        """
        if isinstance(at, slice):
            return Characterizations(self.found[at])
        if isinstance(at, int):
            return self.found[at]
        for one in self.found:
            if one.string == at:
                return one
        known = ", ".join(one.string for one in self.found[:5])
        raise UnknownInstructionError(f"no conclusion about {at!r}", hint=f"there are: {known} ...")

    @property
    def rows(self) -> Rows:
        """A row per variant: µops, ports, throughputs, latencies as text, failures."""
        return Rows.of((one.record() for one in self.found), COLUMNS)

    @property
    def latencies(self) -> Rows:
        """A row per latency of each variant."""
        return Rows.of((row for one in self.found for row in one.latency_records()), LATENCY_COLUMNS)

    def to_xml(self, path: Path | str) -> None:
        """Write an instructions.xml with these variants.

        Raises:
            OutputError: the file cannot be written.
        """
        from results.database import merge, xml  # noqa: PLC0415 - what is only shown does not need it

        known = [one for one in self.found if not one.skipped]
        conclusions = [xml.ConcludedVariant(one.conclusion.result, one.conclusion.provenance) for one in known]
        with named_write(path) as file:
            merge.write_xml([one.variant for one in known], conclusions, file)

    def __repr__(self) -> str:
        rows = [one.row() for one in self.found]
        measured = any(not one.skipped for one in self.found)
        lines = [line.plain for line in table_lines(rows, WIDTH_CHARACTERS)] if measured else []
        return "\n".join([*lines, *self._beneath()])

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return self.rows._repr_html_() + "".join(f"<p>{escape(line)}</p>" for line in self._beneath())

    def _beneath(self) -> list[str]:
        """Say what was skipped, and on which machine the others were measured."""
        skipped = [f"{one.string}: skipped, {one.skipped}" for one in self.found if one.skipped]
        return [*skipped, *dict.fromkeys(machine_text(one.conclusion.provenance) for one in self.found)]
