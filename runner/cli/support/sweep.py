"""How `uopscope measure --sweep` measures and shows: progress, going on after a stop, table, CSV, JSON, plot."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from results.campaign import codec
from results.model import Status
from results.text import machine_text
from runner.cli.process import stop
from runner.cli.support import output
from runner.cli.support.own_code import shown_anyway, write_text
from runner.own_code.counters import CounterChoice
from runner.own_code.journal import Journal, is_resumable, machine_of
from runner.own_code.plot import bars, svg
from runner.own_code.sweep import SPREAD, Parameter, cycle_columns, points, rows_of, sweep
from xed_convert.extras import extra
from xed_convert.files import check_writable, named_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from results.model import Provenance
    from results.rows import Rows
    from runner.backend import Backend
    from runner.own_code.template import Template

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a sweep goes beside the screen: files, "-" for standard output, None for nowhere."""

    csv: str | None = None
    json: str | None = None
    plot: str | None = None

    def files(self) -> list[Path]:
        """Return the files that are written, those with all rows first."""
        return [Path(one) for one in (self.csv, self.json, self.plot) if one not in {None, STANDARD_OUTPUT} and one]

    def journaled(self) -> Path | None:
        """Return the file beside which finished rows are kept (None: nothing goes to a file)."""
        return next((path for path in self.files() if is_resumable(str(path))), None)


def measure_sweep(
    template: Template, swept: Sequence[str], outputs: Outputs, opened: Callable[[], AbstractContextManager[Backend]]
) -> bool:
    """Measure and write a sweep; return whether every combination gave a number.

    Raises:
        UopscopeError: the parameters or the code are wrong, or a file cannot be written.
    """
    parameters = [Parameter.read(text) for text in swept]
    names = [one.name for one in parameters]
    wanted = points(template, parameters)
    for path in outputs.files():
        check_writable(path)
    if outputs.plot not in {None, STANDARD_OUTPUT}:
        extra("matplotlib", "--plot FILE")
    with opened() as backend:
        provenance = backend.info().provenance
        with _journal(outputs, template, wanted, provenance) as journal:
            found = _measure(template, wanted, backend, journal)
            rows = rows_of((found[place] for place in sorted(found)), names)
            _write(rows, names, outputs, provenance, is_brief=template.settings.counters == CounterChoice())
            if journal:
                journal.done()
    return all(status == Status.OK.value for status in rows["status"])


def _journal(
    outputs: Outputs, template: Template, wanted: Sequence[Mapping[str, int]], provenance: Provenance
) -> Journal | nullcontext[None]:
    """Return the journal of finished rows beside the first output file (nothing, if there is no file)."""
    output = outputs.journaled()
    if output is None:
        return nullcontext()
    code = hashlib.sha256(repr((template.with_texts(), wanted)).encode()).hexdigest()
    return Journal(output, {"sweep": code, "machine": machine_of(provenance)})


def _measure(
    template: Template, wanted: Sequence[Mapping[str, int]], backend: Backend, journal: Journal | None
) -> dict[int, Mapping[str, object]]:
    """Return the rows by their place; those in the journal are not measured again."""
    found: dict[int, Mapping[str, object]] = dict(journal.rows) if journal else {}
    if found:
        print(f"{len(found)} of {len(wanted)} combinations were measured before", file=sys.stderr)
    progress = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    try:
        with progress:
            task = progress.add_task("measuring", total=len(wanted), completed=len(found))
            for place, row in sweep(template, wanted, backend, known=set(found)):
                found[place] = row
                if journal:
                    journal.add(place, row)
                progress.advance(task)
    except (KeyboardInterrupt, stop.Stopped):
        hint = "the same command resumes it" if journal else "with --csv FILE it could be resumed"
        print(f"stopped after {len(found)} of {len(wanted)} combinations; {hint}", file=sys.stderr)
        raise
    return found


def _write(rows: Rows, names: Sequence[str], outputs: Outputs, provenance: Provenance, *, is_brief: bool) -> None:
    """Write the files, then show the table (brief: only core cycles) unless something else goes to standard output."""
    with shown_anyway("the rows are kept beside the first output file: the same command writes it") as attempt:
        for write in _writers(rows, names, outputs, provenance):
            attempt(write)
        if STANDARD_OUTPUT not in {outputs.csv, outputs.json}:
            _show(rows, names, outputs, provenance, is_brief=is_brief)


def _writers(
    rows: Rows, names: Sequence[str], outputs: Outputs, provenance: Provenance
) -> Iterator[Callable[[], None]]:
    """Yield what writes each file."""
    document: dict[str, Any] = {"provenance": codec.encode_provenance(provenance), "rows": list(rows)}
    yield lambda: write_text(outputs.csv, rows.to_csv)
    yield lambda: write_text(outputs.json, lambda: json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    plot = outputs.plot
    if plot and plot != STANDARD_OUTPUT:
        yield lambda: _save(plot, svg(rows, names, machine_text(provenance)))


def _show(rows: Rows, names: Sequence[str], outputs: Outputs, provenance: Provenance, *, is_brief: bool) -> None:
    """Print the table, and bars if they are wanted."""
    columns = [*names, *cycle_columns(rows), "status", "reason"] if is_brief else rows.columns
    shown = [{name: _cell(row[name]) for name in columns if not name.endswith(SPREAD)} for row in rows]
    for line in output.columns(shown, list(shown[0]), keep=names):
        print(line)
    if left_out := [name for name in rows.columns if name not in columns and not name.endswith(SPREAD)]:
        print(f"({len(left_out)} more columns with --csv, or with --counters)")
    if outputs.plot == STANDARD_OUTPUT:
        print("", *bars(rows, names), sep="\n")
    print(f"\n{machine_text(provenance)}")


def _save(target: str, content: bytes) -> None:
    with named_write(target) as file:
        file.write(content)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
