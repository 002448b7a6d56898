"""Kernels to test on: Debian's cloud images with their headers, unpacked into a cache, never installed.


The headers come from the packages linux-headers-cloud-amd64 and linux-headers-6.12-cloud-amd64; the image that belongs
to them is fetched by `apt-get download` and unpacked. `build` compiles the module, or a test's, for such a kernel.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "uopscope" / "vm"
HEADERS = {"6.1": "linux-headers-cloud-amd64", "6.12": "linux-headers-6.12-cloud-amd64"}
NOISE = re.compile(r"^\s*(CC|LD|AS|BTF|CHECK|MODPOST|GEN)\b|directory|Skipping BTF|^$")


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process at a time make something in the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Unavailable(Exception):  # noqa: N818 - it is a reason to skip, not an error
    """Why there is no such kernel here."""


@dataclass(frozen=True)
class Kernel:
    """A kernel image and the folder to build modules against it."""

    name: str
    release: str
    image: Path
    build: Path


@functools.cache
def kernel(name: str) -> Kernel:
    """Return the kernel of that name ("6.1" or "6.12"), fetching its image if need be."""
    release = _release(name)
    image = Path(f"/boot/vmlinuz-{release}")
    if not image.exists():
        with locked(release):
            image = _unpacked(release) / "boot" / f"vmlinuz-{release}"
    return Kernel(name, release, image, Path(f"/usr/src/linux-headers-{release}"))


def _release(name: str) -> str:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Depends}", HEADERS[name]], capture_output=True, text=True, check=False
    )
    match = re.search(r"linux-headers-(\d[\w.+-]*)", done.stdout)
    if done.returncode or not match:
        raise Unavailable(f"the package {HEADERS[name]} is not installed")
    return match[1]


def _unpacked(release: str) -> Path:
    folder = CACHE / release
    if (folder / "boot" / f"vmlinuz-{release}").exists():
        return folder
    partial = CACHE / f"{release}.{os.getpid()}"
    partial.mkdir(parents=True, exist_ok=True)
    try:
        download = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", f"linux-image-{release}"]
        done = subprocess.run(download, cwd=partial, capture_output=True, text=True, check=False, timeout=300)
        packages = list(partial.glob("*.deb"))
        if done.returncode or not packages:
            raise Unavailable(f"linux-image-{release} cannot be downloaded: {done.stderr.strip()[-200:]}")
        subprocess.run(["dpkg-deb", "-x", packages[0], partial], check=True, timeout=300)
        packages[0].unlink()
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def build(target: Kernel, sources: Path, *, check: bool = False) -> tuple[Path, str]:
    """Compile a module with W=1 (and sparse on every file); return its folder and what was printed beyond the steps."""
    files = sorted(path for path in sources.iterdir() if path.is_file())
    digest = hashlib.sha256(target.release.encode())
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = CACHE / "build" / f"{sources.name}-{digest.hexdigest()[:16]}{'-checked' if check else ''}"
    output = folder / "output.txt"
    with locked(folder.name):
        if not output.exists():
            output.write_text(_compile(target, files, folder, check=check))
    return folder, output.read_text()


def _compile(target: Kernel, files: list[Path], folder: Path, *, check: bool) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in files:
        shutil.copy(path, folder)
    command = ["make", "-C", str(target.build), f"M={folder}", "W=1", *(["C=2"] if check else []), "modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    text = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if not NOISE.search(line))
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}:\n{text}")
    return text
