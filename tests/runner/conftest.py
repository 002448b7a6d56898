"""What several tests of the runner need."""

from collections.abc import Iterator

import pytest

from runner.backend import BackendError
from runner.backends.tsc import TscBackend


@pytest.fixture(scope="module")
def tsc() -> Iterator[TscBackend]:
    """Open the clock backend of this machine, for the tests of a file; without one they are skipped."""
    try:
        backend = TscBackend()
    except BackendError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()
