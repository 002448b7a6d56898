"""A Debian 13 in a folder, for what Debian 12 is too old for: the headers of the newest kernels, and Bochs 3.0.

debootstrap makes it once, in the cache; remove the folder to have newer packages. Programs run in it as root, in mount
and process namespaces of their own, so that nothing stays mounted. The cache's `build` is its /build.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from tests.vm.machines.cache import CACHE, Unavailable, locked

SUITE = "trixie"
BACKPORTS = f"{SUITE}-backports"
FOLDER = CACHE / SUITE
SHARED = CACHE / "build"
PACKAGES = ("gcc", "make", "libelf1t64", "ca-certificates", "sparse")
SECONDS = 900
"""For debootstrap on a slow day; usually it takes one minute."""
ENTER = """mount -t proc proc "$1/proc"; [ ! -d "$1/build" ] || mount --bind "$2" "$1/build"
chroot "$1" "${@:3}"; status=$?
umount "$1/proc"; [ ! -d "$1/build" ] || umount "$1/build"; exit $status"""
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C",
    "TERM": "vt100",
}


@functools.cache
def namespaces() -> list[str]:
    """Return the options of unshare.

    Mounts are private, but in a chroot whose folder is no mount point: there unshare can change nothing about them.
    """
    options = ["--mount", "--pid", "--fork"]
    is_private = subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0
    return options if is_private else ["--propagation", "unchanged", *options]


@functools.cache
def chroot() -> Path:
    """Return the folder, made if need be.

    Raises:
        Unavailable: not root, no debootstrap, or Debian cannot be reached.
    """
    if os.geteuid() != 0:
        raise Unavailable(f"only root can make and use a Debian {SUITE} in a folder")
    with locked(SUITE):
        if not (FOLDER / "etc/apt").exists():
            _make()
    SHARED.mkdir(parents=True, exist_ok=True)
    (FOLDER / "build").mkdir(exist_ok=True)
    return FOLDER


def _make() -> None:
    if not shutil.which("debootstrap"):
        raise Unavailable("debootstrap is not installed")
    partial = FOLDER.with_name(f"{SUITE}.{os.getpid()}")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(partial)]
    try:
        _checked(subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS), "debootstrap")
        main = (partial / "etc/apt/sources.list").read_text()
        (partial / "etc/apt/sources.list.d/backports.list").write_text(main.replace(f" {SUITE} ", f" {BACKPORTS} "))
        _checked(run(["apt-get", "-q", "update"], folder=partial), "apt-get update")
        partial.rename(FOLDER)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _checked(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode:
        raise Unavailable(f"{what} for a Debian {SUITE} failed: {(done.stdout + done.stderr).strip()[-200:]}")


def run(command: list[str], seconds: float = SECONDS, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in it, with /proc and /build mounted for as long as it runs."""
    return subprocess.run(
        ["unshare", *namespaces(), "bash", "-c", ENTER, "bash", str(folder or chroot()), str(SHARED), *command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def start(command: list[str], terminal: int) -> subprocess.Popen[bytes]:
    """Start a command in it on a terminal; to kill the process is to kill all that it has started."""
    enter = ["bash", "-c", ENTER, "bash", str(chroot()), str(SHARED), *command]
    return subprocess.Popen(
        ["unshare", "--kill-child", *namespaces(), *enter],
        env=ENVIRONMENT,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )


def install(*packages: str) -> None:
    """Install packages in it; those of a kernel come from the backports.

    Raises:
        Unavailable: they cannot be had.
    """
    root = chroot()
    with locked(SUITE):
        missing = [name for name in packages if not (root / "var/lib/dpkg/info" / f"{name}.list").exists()]
        if missing:
            command = ["apt-get", "-q", "-y", "--no-install-recommends", "-t", BACKPORTS, "install", *missing]
            _checked(run(command), f"apt-get install {' '.join(missing)}")


def depends(package: str) -> str:
    """Return what an installed package depends on."""
    return run(["dpkg-query", "-W", "-f", "${Depends}", package]).stdout


def download(package: str, folder: Path) -> list[Path]:
    """Fetch a package into a folder of /build, without what it depends on."""
    inside = f"/build/{folder.relative_to(SHARED)}"
    command = ["sh", "-c", f"cd {inside} && apt-get -q -o APT::Sandbox::User=root download {package}"]
    _checked(run(command), f"apt-get download {package}")
    return list(folder.glob("*.deb"))
