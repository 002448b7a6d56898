"""Fixtures of the tests that boot kernels; what cannot be had here is a reason to skip.

UOPSCOPE_VM_KERNELS names other kernels, separated by commas: those of `tests.vm.machines.kernels`, or releases that
Debian's backports have, such as 7.2.12+deb13-cloud-amd64.

The folders beside the tests:

- `machines`: kernels, disk images and programs, and what boots them (QEMU in `machine`, Bochs in `bochs`);
- `pmu`: what the emulated PMU has to answer, and the simulated core that says what it counts; `fakepmu` is its module;
- `guest` and `inside`: programs and scripts that run in the guest.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.machines import images, kernels
from tests.vm.machines.cache import Unavailable
from tests.vm.machines.kernels import KernelImage

KERNELS = os.environ.get("UOPSCOPE_VM_KERNELS", "6.1,newest").split(",")
EVERY_KERNEL = os.environ.get("UOPSCOPE_VM_KERNELS", "6.1,6.12,newest").split(",")
ONE_KERNEL = os.environ.get("UOPSCOPE_VM_KERNELS", "6.12").split(",")[:1]
"""For what takes long: the one that most machines with a current Debian have."""


def kernel_or_skip(name: str) -> KernelImage:
    try:
        return kernels.kernel(name)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session", params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> KernelImage:
    """The oldest and the newest."""
    return kernel_or_skip(request.param)


@pytest.fixture(scope="session", params=EVERY_KERNEL)
def every_kernel(request: pytest.FixtureRequest) -> KernelImage:
    return kernel_or_skip(request.param)


@pytest.fixture(scope="session", params=ONE_KERNEL)
def one_kernel(request: pytest.FixtureRequest) -> KernelImage:
    return kernel_or_skip(request.param)


@pytest.fixture(scope="session")
def module(kernel: KernelImage) -> Path:
    return kernels.module(kernel)


@pytest.fixture(scope="session")
def fake(kernel: KernelImage) -> Path:
    return kernels.fake(kernel)


@pytest.fixture(scope="session", autouse=True)
def project_image() -> Iterator[None]:
    yield
    images.forget_project_image()
