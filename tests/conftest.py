"""In which order tests run, how memory is freed, and what every test run says at its end."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from results.machine.cached import VARIABLE as CACHE
from tests.signals import signals_restored
from xed_convert.garbage import collect_seldom

if TYPE_CHECKING:
    from collections.abc import Iterator


# A busy machine is slow, not wrong
settings.register_profile("uopscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("uopscope")


def pytest_configure(config: pytest.Config) -> None:
    """Look for cyclic garbage between files, and seldom within one: catalogues and machines are millions of objects.

    Machines that were read stay in pytest's own cache, and not in the user's.
    """
    collect_seldom()
    os.environ[CACHE] = str(config.rootpath / ".pytest_cache" / "machines")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker ends long after the other.

    Those are what boots kernels, then what is marked as slow. A file stays together: `./test` gives files to workers.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def rank(item: pytest.Item) -> int:
        return 0 if item.get_closest_marker("vm") else 1 if item.path in slow else 2

    items.sort(key=rank)


@pytest.fixture(scope="module", autouse=True)
def _forget_what_the_file_has_cached(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty the caches of a file's own functions behind its last test: many keep a whole catalogue."""
    yield
    for value in vars(request.module).values():
        if getattr(value, "__module__", "") == request.module.__name__ and hasattr(value, "cache_clear"):
            value.cache_clear()
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


@pytest.fixture(scope="module", autouse=True)
def _signals_as_before() -> Iterator[None]:
    """Take back the handlers of commands that ran in this process: xdist interrupts its workers at the end."""
    with signals_restored():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the gates that failed before pytest began, where they are seen: just above its summary line."""
    if failed := os.environ.get("UOPSCOPE_FAILED_GATES"):
        terminalreporter.section("failed gates")
        terminalreporter.write_line(f"failed, with their messages above: {failed}")
