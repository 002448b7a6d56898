"""Keystone behind a process boundary: if it crashes or hangs, the caller only gets no answer."""

from __future__ import annotations

import atexit
import json
import selectors
import subprocess
import sys
from typing import IO, cast

TIMEOUT_SECONDS = 2.0
"""Seconds that one answer may take; keystone needs less than a millisecond for an instruction."""

_MOST_CRASHES = 20
"""Crashes after which the child is not started again: something is wrong with keystone itself then."""


class KeystoneProcess:
    """A child process with keystone, started on first use and again after it crashed."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._failures = 0
        self._is_greeted = False
        self._usable = True
        atexit.register(self.close)

    def assemble(self, text: str) -> bytes | None:
        """Return keystone's bytes for a text; None if it fails, crashes, hangs, or is not installed."""
        child = self._running()
        if child is None:
            return None
        try:
            cast("IO[str]", child.stdin).write(json.dumps(text) + "\n")
            cast("IO[str]", child.stdin).flush()
            answer = self._read(child, TIMEOUT_SECONDS)
        except OSError:
            answer = ""
        if not answer:
            self._failures += 1
            self._usable = self._failures < _MOST_CRASHES
            self._stop()
            return None
        found = json.loads(answer)
        return bytes.fromhex(found) if found else None

    def close(self) -> None:
        """End the child."""
        self._stop()

    def begin(self) -> None:
        """Start the child without waiting until it is ready, so that it gets ready beside other work."""
        command = [sys.executable, "-m", "xed_convert.assembly.keystone_child"]
        self._is_greeted = False
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._usable = False

    def _running(self) -> subprocess.Popen[str] | None:
        """Return the child, started if it is not running; None if keystone cannot be used."""
        if self._usable and self._child is None:
            self.begin()
        if self._usable and self._child is not None and not self._is_greeted:
            self._usable = self._read(self._child, 10 * TIMEOUT_SECONDS).strip() == "true"
            self._is_greeted = True
            if not self._usable:
                self._stop()
        return self._child if self._usable else None

    @staticmethod
    def _read(child: subprocess.Popen[str], seconds: float) -> str:
        """Return a line of the child's output, an empty text if there is none in time."""
        output = cast("IO[str]", child.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(seconds):
                return ""
        return output.readline()

    def _stop(self) -> None:
        """Kill the child and close its pipes."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
