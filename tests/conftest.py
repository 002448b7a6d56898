"""What every test run says at its end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest


# A busy machine is slow, not wrong
settings.register_profile("uopscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("uopscope")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the gates that failed before pytest began, where they are seen: just above its summary line."""
    if failed := os.environ.get("UOPSCOPE_FAILED_GATES"):
        terminalreporter.section("failed gates")
        terminalreporter.write_line(f"failed, with their messages above: {failed}")
