"""Disk images for the guest: one with this Python and what the project depends on, one with the project itself.

Both are read-only ext4, attached as NVMe disks, whose driver is built into Debian's cloud kernels.
"""

import compileall
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

from tests.vm.machines.cache import CACHE, Unavailable, locked
from tests.vm.machines.kernels import ROOT

PACKAGES = ("xed_convert", "results", "simulator", "analysis", "generator", "inference", "runner", "tests")
NOT_NEEDED = {"test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "dist-packages"}
PYTHON = "/mnt/python"
PROJECT = "/mnt/project"
INTERPRETER = f"{PYTHON}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
WARM = f"""
mkfifo /tmp/python.requests /tmp/python.answers
{INTERPRETER} -m tests.vm.inside.warm </dev/null >/dev/console 2>&1 &
python() {{
    read -r shell rest </proc/self/stat
    printf '%s\\n' "$shell" "$@" >/tmp/python.request
    env -0 >/tmp/python.environment
    echo run >/tmp/python.requests
    read -r code </tmp/python.answers
    return $code
}}
"""
"""The shell's `python` that forks from one process."""


def mount_script(*, warm: bool = False) -> str:
    """Return the shell lines that mount the images, and define `python -m MODULE ARGUMENT...`.

    With `warm` each program is a fork of one Python that has imported the project (`tests.vm.inside.warm`).
    """
    return f"""
mkdir -p {PYTHON} {PROJECT}
disk() {{ grep -l "$1" /sys/block/*/device/serial | cut -d/ -f4; }}
for wait in $(seq 600); do [ -n "$(disk uopscope0)" ] && [ -n "$(disk uopscope1)" ] && break; sleep 0.1; done
mount -t ext4 -o ro /dev/$(disk uopscope0) {PYTHON} && mount -t ext4 -o ro /dev/$(disk uopscope1) {PROJECT}
mkdir -p /lib64; cp -r {PYTHON}/loader/* /lib64/
export LD_LIBRARY_PATH={PYTHON}/libraries PYTHONHOME={PYTHON} PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH={PROJECT}:{PYTHON}/site OPENBLAS_NUM_THREADS=1 HOME=/tmp
cd {PROJECT}
{WARM if warm else f'python() {{ {INTERPRETER} "$@"; }}'}
"""


def drives() -> tuple[str, ...]:
    """Return QEMU's arguments that attach both images."""
    arguments: list[str] = []
    for number, image in enumerate((python_image(), project_image())):
        drive = f"file={image},format=raw,if=none,id=d{number},readonly=on"
        arguments += ["-drive", drive, "-device", f"nvme,drive=d{number},serial=uopscope{number}"]
    return tuple(arguments)


def python_image() -> Path:
    """Return the image of the interpreter, its library, and the project's dependencies."""
    found = _dependencies()
    digest = hashlib.sha256(f"{sys.version}{sorted((d.name, d.version) for d in found)}".encode()).hexdigest()[:16]
    image = CACHE / f"python-{digest}.ext4"
    with locked(image.name):
        if not image.exists():
            tree = CACHE / f"python-{os.getpid()}"
            try:
                _copy_python(tree, found)
                _make(tree, image)
            finally:
                shutil.rmtree(tree, ignore_errors=True)
    return image


def project_image() -> Path:
    """Return the image of the working tree's packages, compiled; made again at every session."""
    image = CACHE / f"project-{os.getpid()}.ext4"
    if not image.exists():
        tree = CACHE / f"project-{os.getpid()}"
        try:
            for name in PACKAGES:
                shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
                compileall.compile_dir(tree / name, ddir=f"{PROJECT}/{name}", quiet=2)
            shutil.copy(ROOT / "pyproject.toml", tree)
            _make(tree, image)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
    return image


def forget_project_image() -> None:
    """Remove this session's image of the project."""
    (CACHE / f"project-{os.getpid()}.ext4").unlink(missing_ok=True)


def _dependencies() -> list[metadata.Distribution]:
    """Return the distributions that the project needs, and what they need in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting, found = [_name(line) for line in project["dependencies"]], {}
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        distribution = found[name] = metadata.distribution(name)
        waiting += [_name(line) for line in distribution.requires or () if "extra ==" not in line and _applies(line)]
    return list(found.values())


def _applies(requirement: str) -> bool:
    """Whether a requirement's distribution is here at all; one for another platform is not."""
    try:
        metadata.distribution(_name(requirement))
    except metadata.PackageNotFoundError:
        return False
    return True


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match
    return match[0].lower()


def _copy_python(tree: Path, distributions: list[metadata.Distribution]) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), tree / "bin" / version)
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))
    shutil.copytree(library, tree / "lib" / version, symlinks=True, ignore=_not_needed)
    for distribution in distributions:
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file() and "tests" not in file.parts:
                target = tree / "site" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    _copy_libraries(tree, [tree / "bin" / version, *tree.rglob("*.so"), *tree.rglob("*.so.*")])


def _not_needed(folder: str, names: list[str]) -> set[str]:
    del folder
    return {name for name in names if name in NOT_NEEDED or name.startswith("config-") or name.endswith(".a")}


def _copy_libraries(tree: Path, programs: list[Path]) -> None:
    """Copy the shared libraries that those need, by what `ldd` says; the loader goes into its own folder."""
    (tree / "libraries").mkdir()
    (tree / "loader").mkdir()
    output = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False, timeout=120).stdout
    for path in sorted(set(re.findall(r"(?:=> |^\s)(/\S+) \(0x", output, re.MULTILINE))):
        if str(tree) not in path:
            folder = "loader" if "ld-linux" in path else "libraries"
            shutil.copy(os.path.realpath(path), tree / folder / Path(path).name)


def _make(tree: Path, image: Path) -> None:
    program = shutil.which("mke2fs") or "/sbin/mke2fs"
    if not Path(program).exists():
        raise Unavailable("no mke2fs (package e2fsprogs)")
    size_mib = sum(path.stat().st_size + 4096 for path in tree.rglob("*") if not path.is_symlink()) // (1 << 20)
    partial = image.with_suffix(f".{os.getpid()}")
    partial.unlink(missing_ok=True)
    command: list[str | Path] = [program, "-q", "-t", "ext4", "-O", "^has_journal", "-N", "40000", "-d", tree, partial]
    subprocess.run([*command, f"{size_mib * 5 // 4 + 32}M"], check=True, timeout=300, stdout=subprocess.DEVNULL)
    partial.rename(image)
