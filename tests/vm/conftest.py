"""Fixtures of the tests that boot kernels; what cannot be had here is a reason to skip.

UOPSCOPE_VM_KERNELS names other kernels, separated by commas: those of `tests.vm.kernels`, or releases that Debian's
backports have, such as 7.2.12+deb13-cloud-amd64.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import images, kernels
from tests.vm.cache import Unavailable
from tests.vm.kernels import ROOT, Kernel

FAKE = Path(__file__).parent / "fakepmu"
KERNELS = os.environ.get("UOPSCOPE_VM_KERNELS", "6.1,6.12,newest").split(",")


@pytest.fixture(scope="session", params=KERNELS)
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
