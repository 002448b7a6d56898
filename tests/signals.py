"""Signals in the process of the tests: commands that run in it change what these do."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.cli.process import stop

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def signals_restored() -> Iterator[None]:
    """Set the handlers of the signals that stop a command, and the hook for lost exceptions, back at the end."""
    handlers = {number: signal.getsignal(number) for number in stop.NAMES}
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for number, handler in handlers.items():
        signal.signal(number, handler)
