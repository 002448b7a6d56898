"""Progress of a command by numbers: a bar on terminals, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from threading import Timer
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from runner.measuring import session

SILENT_SECONDS = 2.0
"""Nothing is shown of what takes less."""
LINE_SECONDS = 30.0
"""Between lines where standard error is no terminal."""


def measured_so_far(what: str) -> Callable[[session.Progress], None] | None:
    """Return what shows on a terminal how much is measured, in one line (None: standard error is no terminal).

    Args:
        what: what is counted, as in "rings".
    """
    if not sys.stderr.isatty():
        return None
    return lambda progress: print(f"\r{progress.measured} {what}", end="\r", file=sys.stderr, flush=True)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Around what reads a file with results: say on a terminal that it is being read, unless it is soon done.

    A campaign over the full ISA takes 14 s, its instructions.xml 3.5 s (Zen 3, busy).
    """

    def say() -> None:
        with suppress(OSError):
            print(f"reading {what} ...", file=sys.stderr, flush=True)

    timer = Timer(SILENT_SECONDS, say)
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Counting:
    """Shows `done` of `all` while it is entered; call it with both numbers."""

    def __init__(self, what: str) -> None:
        """Say what is counted, as in "blocks"."""
        self._what = what
        self._started = time.monotonic()
        self._last_line = self._started
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if now - self._started < SILENT_SECONDS:
            return
        if sys.stderr.isatty():
            self._update(done, total)
        elif now - self._last_line > LINE_SECONDS:
            self._last_line = now
            print(f"{done:,} of {total:,} {self._what}", file=sys.stderr, flush=True)

    def _update(self, done: int, total: int) -> None:
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=total)
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
