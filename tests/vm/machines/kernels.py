"""Kernels to test on: Debian's images with their headers, unpacked into a cache, never installed here.

Those of Debian 12 are built here, newer ones in a Debian 13 (`tests.vm.machines.chroot`): their headers need its
compiler and C library. The headers come from the packages below, and the image that belongs to them is fetched and
unpacked. `build` compiles the module, or a test's, for such a kernel.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.vm.machines import chroot
from tests.vm.machines.cache import CACHE, Unavailable, locked

ROOT = Path(__file__).parents[3]
HEADERS = {"6.1": "linux-headers-cloud-amd64", "6.12": "linux-headers-6.12-cloud-amd64"}
"""Of Debian 12."""
BACKPORTS = {"newest": "linux-headers-cloud-amd64", "newest-rt": "linux-headers-rt-amd64"}
"""Of Debian 13's backports, the newest that Debian builds for a release."""
NOISE = re.compile(r"^\s*(CC|LD|AS|BTF|CHECK|MODPOST|GEN)\b|directory|Skipping BTF|^$")


@dataclass(frozen=True)
class KernelImage:
    """A kernel image and the folder to build modules against it, which is in the chroot if `foreign`."""

    name: str
    release: str
    image: Path
    build: Path
    foreign: bool = False


@functools.cache
def kernel(name: str) -> KernelImage:
    """Return the kernel of that name, or of that release among the backports, fetching what is missing.

    Raises:
        Unavailable: its packages cannot be had.
    """
    if name not in HEADERS:
        return _foreign(name)
    release = _release(_host_depends(HEADERS[name]), HEADERS[name])
    image = Path(f"/boot/vmlinuz-{release}")
    if not image.exists():
        image = _image(release, _download)
    return KernelImage(name, release, image, Path(f"/usr/src/linux-headers-{release}"))


def _foreign(name: str) -> KernelImage:
    package = BACKPORTS.get(name, f"linux-headers-{name}")
    chroot.install(package)
    release = _release(chroot.depends(package), package) if name in BACKPORTS else name
    image = _image(release, chroot.download)
    return KernelImage(name, release, image, Path(f"/usr/src/linux-headers-{release}"), foreign=True)


def _host_depends(package: str) -> str:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Depends}", package], capture_output=True, text=True, check=False
    )
    return done.stdout


def _release(depends: str, package: str) -> str:
    match = re.search(r"linux-headers-(\d[\w.+-]*)", depends)
    if not match:
        raise Unavailable(f"the package {package} is not installed")
    return match[1]


def _download(package: str, folder: Path) -> list[Path]:
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    packages = list(folder.glob("*.deb"))
    if done.returncode or not packages:
        raise Unavailable(f"{package} cannot be downloaded: {done.stderr.strip()[-200:]}")
    return packages


def _image(release: str, download: Callable[[str, Path], list[Path]]) -> Path:
    """Return the image out of the package that has it: from 7.0 on linux-image only depends on it."""
    folder = CACHE / "build" / release
    with locked(release):
        for kind in ("image", "binary"):
            if not (found := list(folder.rglob("vmlinuz*"))):
                _unpack(f"linux-{kind}-{release}", folder, download)
        found = list(folder.rglob("vmlinuz*"))
    if not found:
        raise Unavailable(f"no package has the image of Linux {release}")
    return found[0]


def _unpack(package: str, folder: Path, download: Callable[[str, Path], list[Path]]) -> None:
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True, exist_ok=True)
    try:
        for file in download(package, partial):
            subprocess.run(["dpkg-deb", "-x", file, partial], check=True, timeout=300)
            file.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def module(target: KernelImage) -> Path:
    """Return the module itself, compiled for a kernel."""
    return checked_module(target)[0] / "uopscope.ko"


def has_sparse(target: KernelImage) -> bool:
    """Whether sparse can check for a kernel: Debian 13's does not know `__typeof_unqual__`, which new headers use."""
    return bool(shutil.which("sparse")) and not target.foreign


def checked_module(target: KernelImage) -> tuple[Path, str]:
    """Compile the module, checked by sparse where that can be; return its folder and what was printed."""
    return build(target, ROOT / "kmod", arguments=("C=2",) if has_sparse(target) else ())


def fake(target: KernelImage) -> Path:
    """Return the folder of the tests' own modules, compiled for a kernel."""
    return build(target, Path(__file__).parents[1] / "fakepmu")[0]


def build(target: KernelImage, sources: Path, *, arguments: tuple[str, ...] = ()) -> tuple[Path, str]:
    """Compile a module with W=1, and further arguments of make; return its folder, and what was printed but the steps.

    `C=2` runs sparse on every file.
    """
    files = sorted(path for path in sources.iterdir() if path.is_file())
    digest = hashlib.sha256(f"{target.release}{arguments}".encode())
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = CACHE / "build" / f"{sources.name}-{digest.hexdigest()[:16]}"
    output = folder / "output.txt"
    with locked(folder.name):
        if not output.exists():
            output.write_text(_compile(target, files, folder, arguments))
    return folder, output.read_text()


def _compile(target: KernelImage, files: list[Path], folder: Path, arguments: tuple[str, ...]) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in files:
        shutil.copy(path, folder)
    inside = f"/build/{folder.name}" if target.foreign else folder
    command = ["make", "-C", str(target.build), f"M={inside}", "W=1", *arguments, "modules"]
    if target.foreign:
        done = chroot.run(command)
    else:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    text = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if not NOISE.search(line))
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}:\n{text}")
    return text
