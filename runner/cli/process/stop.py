"""Ends the process by a signal: results so far are shown and kept.

Ctrl-C and SIGTERM raise `Stopped` once. Further signals are ignored for some seconds, so that a second Ctrl-C does not
interrupt the orderly end. After that, another signal ends the process at once.

Others may drop the exception: Python does so in `__del__` and in callbacks, packages with a bare `except` while they
are imported. So whoever handles it says so (`Stopped.take`). If it is destroyed before, the signal is sent again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

GRACE_SECONDS = 3.0
"""Seconds that a campaign may take to end by itself; on an idle machine it takes well under one."""

AGAIN_SECONDS = 0.05
"""Delay in seconds, after which a signal that Python lost is sent again."""

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

PROGRAMS = {"-m", "characterize", "characterize.py", "uopscope", "uopscope.py"}
"""How `sys.argv` begins in our processes: `python -m`, an installed script, and the processes that these start."""


class Stopped(BaseException):
    """A signal asked the process to end.

    It is no `KeyboardInterrupt`, since typer turns that into an exit code of its own.
    """

    def __init__(self, number: int, when_lost: Callable[[], None]) -> None:
        """Say which signal it was, and what to do if nobody takes note of it."""
        super().__init__(f"stopped by {NAMES.get(signal.Signals(number), number)}")
        self.number, self.exit_code = number, 128 + number
        self._when_lost: Callable[[], None] | None = when_lost

    def take(self) -> int:
        """Take note that the process shall end; return its exit code."""
        self._when_lost = None
        return self.exit_code

    def __del__(self) -> None:
        if self._when_lost is not None and not sys.is_finalizing():
            self._when_lost()


def quietly_until_ready() -> None:
    """End without a traceback if Ctrl-C comes while the program is still being loaded."""
    is_ours = os.path.basename((sys.argv or [""])[0]) in PROGRAMS  # noqa: PTH119 - pathlib is not loaded yet
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_now)


def raise_when_stopped() -> None:
    """Raise `Stopped` when a signal asks the process to end. SIGINT stays ignored where a shell has it ignored."""
    asked: list[tuple[int, float]] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if not asked:
            asked.append((number, time.monotonic()))
            raise Stopped(number, again)
        first, at = asked[0]
        if time.monotonic() - at > GRACE_SECONDS:
            _end_now(first, None)

    def again() -> None:
        """Send the signal again, but later: what is raised at once would be lost, too."""
        number, _ = asked.pop()
        main = threading.main_thread().ident
        threading.Timer(AGAIN_SECONDS, signal.pthread_kill, [main, number]).start()

    def silent_if_lost(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, Stopped):
            sys.__unraisablehook__(lost)

    sys.unraisablehook = silent_if_lost
    signal.signal(signal.SIGTERM, handle)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handle)


def _end_now(number: int, _frame: FrameType | None) -> NoReturn:
    """End the process at once; campaign files bear that at any moment."""
    os.write(2, f"error: stopped by {NAMES[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)
