"""`make install-kmod` says what is missing, and the module's version is the project's."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

from runner.host.kmod import selftest

ROOT = Path(__file__).parents[2]


def install(**environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "packaging" / "install-kmod.sh"), "install"]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


def test_without_headers_it_says_which_package_is_missing() -> None:
    done = install(KERNEL="1.2.3-none")
    assert done.returncode == 1
    assert "no headers of the kernel 1.2.3-none" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_the_module_has_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    found = re.findall(r'^PACKAGE_VERSION="(.*)"', (ROOT / "kmod" / "dkms.conf").read_text(), re.MULTILINE)
    assert found == [version]


def test_the_blobs_of_the_self_test_are_what_their_names_say() -> None:
    names = [blob.name for blob in (*selftest.BLOBS, *selftest.ENDLESS)]
    assert len(set(names)) == len(names) >= 18
    for blob in (*selftest.BLOBS, *selftest.ENDLESS):
        assert blob.data[: selftest.ENTRY] == bytes(selftest.ENTRY)
        assert blob.offset is None or blob.offset >= selftest.ENTRY
