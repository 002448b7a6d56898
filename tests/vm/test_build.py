"""The module compiles without a warning, and reads as the kernel's style asks for."""

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.nonempty import some
from tests.vm.conftest import kernel_or_skip
from tests.vm.machines import chroot, kernels
from tests.vm.machines.cache import CACHE, Unavailable
from tests.vm.machines.kernels import ROOT, KernelImage

pytestmark = pytest.mark.vm

SOURCES = ROOT / "kmod"
C_FILES = sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h"), *SOURCES.glob("*.S")])
MAX_LINES = 40


def test_no_warning_from_the_compiler_objtool_modpost_or_sparse(every_kernel: KernelImage) -> None:
    folder, output = kernels.checked_module(every_kernel)
    assert (folder / "uopscope.ko").exists()
    assert output == ""
    if not kernels.has_sparse(every_kernel):
        pytest.skip("the compiler has no warning; sparse is not installed, or too old for these headers")


CLANG = (
    *("CC=clang", "LD=ld.lld", "CONFIG_CC_IS_GCC=", "CONFIG_CC_IS_CLANG=y", "CONFIG_LD_IS_BFD=", "CONFIG_LD_IS_LLD=y"),
    *("CONFIG_AS_IS_GNU=", "CONFIG_AS_IS_LLVM=y", "CONFIG_CFI=y", "CONFIG_CFI_CLANG=y"),
    *("CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=", "CONFIG_UBSAN_BOUNDS_STRICT=", "CONFIG_DEBUG_INFO="),
    *("CONFIG_DEBUG_INFO_BTF_MODULES=", "CONFIG_FTRACE_MCOUNT_USE_CC=", "CONFIG_FTRACE_MCOUNT_USE_OBJTOOL=y"),
    "CONFIG_CC_IMPLICIT_FALLTHROUGH=-Wimplicit-fallthrough",
    "KCFLAGS=-Wno-unknown-warning-option -Wno-duplicate-decl-specifier",
)
"""Debian has no kernel that clang built, so the headers of one by gcc get the settings that clang's would have.

What `LLVM=1` sets, kCFI, and what only gcc or its debug information has. The headers' own macros for segments repeat a
specifier where they were configured for gcc.
"""


def test_clang_compiles_it_with_control_flow_integrity() -> None:
    target = kernel_or_skip("newest")
    try:
        chroot.install("clang", "lld")
    except Unavailable as reason:
        pytest.skip(str(reason))
    folder, output = kernels.build(target, SOURCES, arguments=CLANG)
    assert b"clang version" in (folder / "uopscope.ko").read_bytes()
    assert output == ""


def test_checkpatch_is_content() -> None:
    script = _checkpatch()
    command = ["perl", str(script), "--strict", "--no-tree", "--terse", "--file", "--ignore", "LINUX_VERSION_CODE"]
    done = subprocess.run(
        [*command, *map(str, some(C_FILES))], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def _checkpatch() -> Path:
    """Return checkpatch.pl, out of the kernel's source package (fetched once)."""
    folder = CACHE / "checkpatch"
    if not (folder / "checkpatch.pl").exists():
        if not shutil.which("apt-get"):
            pytest.skip("checkpatch.pl comes from Debian's package linux-source-6.1")
        folder.mkdir(parents=True, exist_ok=True)
        command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "linux-source-6.1"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        packages = list(folder.glob("linux-source-6.1*.deb"))
        if done.returncode or not packages:
            pytest.skip(f"linux-source-6.1 cannot be downloaded: {done.stderr.strip()[-200:]}")
        _take_scripts(packages[0], folder)
        packages[0].unlink()
    return folder / "checkpatch.pl"


def _take_scripts(package: Path, folder: Path) -> None:
    wanted = {"scripts/spelling.txt", "scripts/const_structs.checkpatch", "scripts/checkpatch.pl"}
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as outer:
        assert outer.stdout
        with tarfile.open(fileobj=outer.stdout, mode="r|") as archive:
            for member in archive:
                if member.name.endswith(".tar.xz"):
                    _take_members(archive, member, wanted, folder)
                    break
        outer.kill()


def _take_members(archive: tarfile.TarFile, member: tarfile.TarInfo, wanted: set[str], folder: Path) -> None:
    """Read members until all that is wanted is there; checkpatch.pl itself is written last."""
    stream = archive.extractfile(member)
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=stream, mode="r|xz") as inner:
        for file in inner:
            name = file.name.partition("/")[2]
            if name in wanted and (content := inner.extractfile(file)):
                found[name] = content.read()
            if len(found) == len(wanted):
                break
    for name in sorted(found, reverse=True):
        (folder / Path(name).name).write_bytes(found[name])


def test_kernel_versions_are_mentioned_in_one_header_only() -> None:
    users = [path.name for path in C_FILES if "LINUX_VERSION_CODE" in path.read_text()]
    assert users == ["compat.h"]


def test_functions_are_short() -> None:
    long = {}
    for path in SOURCES.glob("*.c"):
        for match in re.finditer(r"^\w[^;{}#]*\)\n\{\n(.*?)^\}", path.read_text(), re.MULTILINE | re.DOTALL):
            lines = match[1].count("\n")
            if lines > MAX_LINES:
                long[f"{path.name}: {match[0].splitlines()[0]}"] = lines
    assert long == {}


def test_every_source_names_its_licence() -> None:
    for path in [*C_FILES, SOURCES / "Kbuild"]:
        assert "SPDX-License-Identifier: GPL-2.0" in path.read_text().splitlines()[0], path.name
