"""Progress of a campaign: a bar with the time left on terminals, lines elsewhere, and a log file beside the store."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from results import sentences
from results.campaign.file import StoreError
from results.text import duration_text, machine_text

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from results.model import Characterization, Provenance
    from runner.campaigns.campaign import Tally

LINE_SECONDS = 60.0
"""Seconds between two lines of progress where the output is no terminal."""

SILENT_AT_MOST = 1
"""No bar for so few variants."""


class Reporter:
    """Shows the progress of a campaign while it is entered."""

    def __init__(self, total: int, database: Path | None, provenance: Provenance) -> None:
        """Write a log beside the database if there is one."""
        self.tally: Tally | None = None
        self._log: IO[str] | None = None
        self._log_path = None if database is None else database.with_name(database.name + ".log")
        self._provenance = provenance
        self._total = total
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._log_path is not None:
            try:
                self._log = self._log_path.open("a", encoding="utf-8", buffering=1)
            except OSError as error:
                raise StoreError(f"{self._log_path}: the log cannot be written: {error.strerror}") from error
        self._write(f"start: {machine_text(self._provenance)}, {self._total} variants")
        if sys.stderr.isatty() and self._total > SILENT_AT_MOST:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("preparing", total=self._total, left="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self.tally is not None:
            self._write(f"end: {self._state()}{f', {kind.__name__}: {error}' if kind else ''}")
            for reason in self.tally.frequent_reasons():
                self._write(f"  {reason.count} {reason.text}: {reason.names}")
        if self._log is not None:
            self._log.close()

    def update(self, tally: Tally) -> None:
        """Show how far it is."""
        self.tally = tally
        if self._bar is not None and self._task is not None:
            description = "preparing" if tally.prepared is None else "measuring"
            self._bar.update(self._task, completed=tally.done, left=self._left(), description=description)
        elif time.monotonic() - self._last_line > LINE_SECONDS:
            self._last_line = time.monotonic()
            line = ", ".join(filter(None, (self._state(), self._left())))
            print(line, file=sys.stderr, flush=True)
            self._write(line)

    def note(self, result: Characterization) -> None:
        """Log what failed."""
        for failure in result.failures:
            self._write(f"failed: {result.string}: {sentences.failure(failure)}")

    def _left(self) -> str:
        left = self.tally.seconds_left if self.tally else None
        return "" if left is None else f"{duration_text(left)} left"

    def _state(self) -> str:
        tally = self.tally
        return "" if tally is None else f"{tally.done} of {tally.total} variants, {tally.measured} microbenchmarks"

    def _write(self, line: str) -> None:
        if self._log is not None:
            with suppress(OSError):  # a full disk stops the campaign where it matters: when samples are stored
                self._log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}\n")
