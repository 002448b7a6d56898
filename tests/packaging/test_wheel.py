"""A wheel has everything: installed into an empty environment, outside of the checkout, it does the main job."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.shared import CHECKOUT

MOST_MEGABYTES = 250
"""Of the environment with pip and everything that is needed without any extra."""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without what the checkout puts into the environment."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def pip(python: Path | str, *arguments: str | Path, folder: Path) -> None:
    """Run pip; skip where it reaches no packages."""
    done = run(python, "-m", "pip", "--disable-pip-version-check", *arguments, folder=folder)
    unreachable = ("No matching distribution", "Could not find a version", "NewConnectionError", "No module named pip")
    if any(text in done.stderr for text in unreachable):
        pytest.skip(f"pip finds no packages: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed() -> list[Path]:
    """Return the files of the checkout that have to be installed."""
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        setuptools = tomllib.load(file)["tool"]["setuptools"]
    folders = {pattern.removesuffix("*") for pattern in setuptools["packages"]["find"]["include"]}
    modules = {f"{name}.py" for name in setuptools["py-modules"]}
    try:
        listing = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = map(Path, listing.splitlines())
    return [path for path in paths if path.parts[0] in folders | modules and (CHECKOUT / path).is_file()]


@pytest.fixture(scope="module")
def wheel(installed: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, so that nothing of the build stays in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in [*installed, *map(Path, ("pyproject.toml", "README.md", "LICENSE"))]:
        (folder / "copy" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / path, folder / "copy" / path)
    pip(sys.executable, "wheel", "--quiet", "--no-deps", "-w", folder, folder / "copy", folder=folder)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_has_every_file_of_the_packages(wheel: Path, installed: list[Path]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert len(installed) > 250
    assert there == {path.as_posix() for path in installed}


@pytest.mark.slow
def test_in_an_empty_environment_it_does_the_main_job(wheel: Path, tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    venv.create(environment, with_pip=True)
    pip(environment / "bin" / "python", "install", "--quiet", wheel, folder=elsewhere)
    size = sum(path.lstat().st_blocks for path in environment.rglob("*")) * 512
    assert size <= MOST_MEGABYTES * 10**6, f"{size / 1e6:.0f} MB"

    simulated = ("--backend", "sim", "--arch", "HSW", "--instr", "ADC_11 (R64, R64)")
    done = run(environment / "bin" / "characterize", *simulated, folder=elsewhere)
    assert "1*p0156+1*p06" in done.stdout, done.stderr
    done = run(environment / "bin" / "uopscope", "db", "query", "latency(1,1) > 100", folder=elsewhere)
    assert "ZEN5" in done.stdout, done.stderr
    code = 'import uopscope; print(uopscope.__file__, uopscope.encode("add rax, rbx").hex())'
    done = run(environment / "bin" / "python", "-c", code, folder=elsewhere)
    assert done.stdout.startswith(str(environment)), done.stderr
    assert done.stdout.endswith(" 4801d8\n")
    check_types(environment / "bin" / "python", elsewhere)


def check_types(python: Path, folder: Path) -> None:
    """A type checker finds the types of the installed module, and a mistake."""
    for name, code in {
        "right": "size: int = len(uopscope.encode('nop'))",
        "wrong": "text: str = uopscope.encode(3)",
    }.items():
        (folder / f"{name}.py").write_text(f"import uopscope\n{code}\n")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    right, wrong = (run(*mypy, f"{name}.py", folder=folder) for name in ("right", "wrong"))
    assert "no issues" in right.stdout, right.stdout
    assert [line.rpartition("[")[2] for line in wrong.stdout.splitlines()[:2]] == ["assignment]", "arg-type]"], (
        wrong.stdout
    )


@pytest.mark.slow
def test_what_an_extra_is_needed_for_says_how_to_get_it(wheel: Path, tmp_path: Path) -> None:
    """Without the packages of extras: no import of them is left in what runs without them."""
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in ("pandas", "pyarrow", "matplotlib", "scipy"))
    pip(sys.executable, "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel, folder=tmp_path)
    code = f"import sys; {blocked}; sys.path.insert(0, {str(tmp_path / 'site')!r}); from runner.cli import uopscope"
    target = tmp_path / "x.parquet"
    for option, complaint in (("csv", ""), ("parquet", "--parquet needs pyarrow, which is not installed")):
        arguments = ["uopscope", "db", "export", "results/data/measured.xml.xz", f"--{option}", str(target)]
        command = f"{code}; sys.argv = {arguments!r}; uopscope.main()"
        done = run(sys.executable, "-c", command, folder=tmp_path / "site")
        assert done.returncode == (3 if complaint else 0), done.stderr
        assert complaint in done.stderr
        assert bool(done.stderr) is bool(complaint)
