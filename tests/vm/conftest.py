"""Fixtures of the tests that boot kernels; what cannot be had here is a reason to skip."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import images, kernels
from tests.vm.kernels import HEADERS, ROOT, Kernel, Unavailable

FAKE = Path(__file__).parent / "fakepmu"


@pytest.fixture(scope="session", params=list(HEADERS))
def kernel(request: pytest.FixtureRequest) -> Kernel:
    try:
        return kernels.kernel(request.param)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def module(kernel: Kernel) -> Path:
    return kernels.build(kernel, ROOT / "kmod")[0] / "uopscope.ko"


@pytest.fixture(scope="session")
def fake(kernel: Kernel) -> Path:
    return kernels.build(kernel, FAKE)[0]


@pytest.fixture(scope="session", autouse=True)
def project_image() -> Iterator[None]:
    yield
    images.forget_project_image()
