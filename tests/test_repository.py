"""Laws that the repository as a whole obeys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import pytest

from docs.tables import update
from tests.nonempty import some
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

PLACES = ("work", "tmp/venv", "opt/wheels", "opt/pypi", "root/.pyenv", "home/[a-z]+", "var/tmp/[a-z]+")
REGISTRIES = (
    "pypi[.]org/sim[p]le",
    "files[.]python[h]osted",
    "(deb|ftp|archive)[.](debian|ubuntu)[.]",
    "extra[-]index",
)
FORBIDDEN = re.compile("|".join([rf"(?<![\w.~$}}*/<-])/({'|'.join(PLACES)})/", *REGISTRIES]).encode())


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in filter(None, listing.split(b"\0")) if (path := CHECKOUT / os.fsdecode(name)).is_file()]


def test_no_path_of_a_machine_and_no_registry_stands_in_the_repository() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {match[0].decode()}"
        for path in some(tracked_files(), 300)
        for match in FORBIDDEN.finditer(path.read_bytes())
    ]
    assert found == []


@pytest.mark.parametrize("text", ["cd %work%main", '"%home%me%x"', "https:%%pypi.org%simple", "%%deb%.debian%.org"])
def test_such_text_would_be_found(text: str) -> None:
    assert FORBIDDEN.search(text.replace("%.", ".").replace("%", "/").encode())


def test_every_data_file_is_installed_with_its_package() -> None:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        setuptools = tomllib.load(file)["tool"]["setuptools"]
    patterns, packages = setuptools["package-data"]["*"], setuptools["packages"]["find"]["include"]
    forgotten = [
        str(name)
        for path in some(tracked_files(), 300)
        if (name := path.relative_to(CHECKOUT)).suffix != ".py"
        and any(fnmatch(name.parts[0], package) for package in packages)
        and not any(fnmatch(name.name, pattern) for pattern in patterns)
    ]
    assert forgotten == []


def test_every_package_is_installed_and_has_its_place_in_the_import_direction() -> None:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        tool = tomllib.load(file)["tool"]
    packages = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")} - {"benchmarks"}
    stubs = {path.parent.name for path in CHECKOUT.glob("*/__init__.pyi")}
    included = {pattern.removesuffix("*") for pattern in tool["setuptools"]["packages"]["find"]["include"]}
    assert included == packages | stubs
    assert set(tool["importlinter"]["root_packages"]) == packages
    assert set(tool["setuptools"]["py-modules"]) == {path.stem for path in CHECKOUT.glob("*.py")}


def test_the_tables_of_figures_are_those_of_their_files() -> None:
    stale = update(CHECKOUT, write=False)
    assert stale == [], "run python -m docs.tables"


def test_the_commands_of_the_checkout_can_be_executed() -> None:
    for name in ("characterize", "test", ".ci/run"):
        path = CHECKOUT / name
        assert os.access(path, os.X_OK), f"{name} is not executable"


def test_ci_stops_after_80_minutes_and_lets_all_processes_end_by_themselves(tmp_path: Path) -> None:
    run = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    seconds = [int(one) for one in re.findall(r"\b\d{2,}\b(?= bash)|(?<=--kill-after=)\d+", run)]
    assert sum(seconds) == 80 * 60
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text(run.replace(f" {max(seconds)} bash", " 5 bash"), encoding="utf-8")
    child = "import time\ntry:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    print('1 passed')"
    (tmp_path / "test").write_text(f'"{sys.executable}" -c "{child}"\nexit $?\n', encoding="utf-8")
    done = subprocess.run(["bash", tmp_path / ".ci" / "run"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (124, "1 passed\n"), done.stderr
