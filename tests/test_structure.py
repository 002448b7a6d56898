"""Who imports whom: no circle between modules or rooms, and tests and benchmarks keep apart. Who is called what.

Imports for type checking count: a reader follows them, too. `import-linter` holds the direction between packages.
"""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from tests.nonempty import some
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PACKAGES = ("xed_convert", "results", "generator", "inference", "simulator", "analysis", "runner")
OTHERS = ("tests", "benchmarks", "docs")
LISTED = ("runner/cli", "runner/backends", "results/exports")
"""Folders whose files are found by listing them."""


def sources(*folders: str, top: Path = CHECKOUT) -> dict[str, Path]:
    """Return the files of some folders by the names of their modules; that of a package is the package's."""
    paths = (path for folder in folders for path in (top / folder).rglob("*.py"))
    return {".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports, of those that are given."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
            yield from inner
            if len(inner) < len(node.names) and node.module in modules:
                yield node.module


def graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return what each module imports."""
    return {name: set(imported(path, modules)) - {name} for name, path in modules.items()}


def rooms(modules: Mapping[str, set[str]], package: str) -> dict[str, set[str]]:
    """Return which rooms (folders, or files beside them) of a package import which."""
    found: dict[str, set[str]] = {}
    for name, others in modules.items():
        if name.startswith(f"{package}."):
            inside = {room(other, package) for other in others if other.startswith(f"{package}.")}
            found.setdefault(room(name, package), set()).update(inside - {room(name, package)})
    return found


def room(module: str, package: str) -> str:
    """Return the folder or file in a package that a module is in."""
    return module.removeprefix(f"{package}.").partition(".")[0]


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """Return a circle, [] if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_module_imports_itself_through_others() -> None:
    edges = graph(sources(*PACKAGES))
    assert len(some(edges, 150)) < sum(map(len, edges.values()))
    assert circle(edges) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_room_imports_itself_through_others(package: str) -> None:
    edges = rooms(graph(sources(*PACKAGES)), package)
    assert sum(map(len, some(edges.values(), 3)))
    assert circle(edges) == []


def test_tests_and_benchmarks_import_nothing_of_each_other_and_nothing_imports_them() -> None:
    edges = graph(sources(*PACKAGES, *OTHERS))
    found = [
        f"{name} imports {other}"
        for name, others in some(edges.items(), 200)
        for other in others
        if (folders := (name.partition(".")[0], other.partition(".")[0]))[1] in OTHERS
        and folders not in {*((one, one) for one in OTHERS), ("tests", "docs"), ("benchmarks", "docs")}
    ]
    assert found == []
    assert any(name.startswith("benchmarks.") and others for name, others in edges.items())


def test_the_python_api_imports_packages_and_none_of_them_imports_it() -> None:
    modules = {**sources(*PACKAGES), "uopscope": CHECKOUT / "uopscope.py"}
    edges = graph(modules)
    assert {name.partition(".")[0] for name in edges.pop("uopscope")} >= {"runner", "results", "xed_convert"}
    assert [name for name, others in some(edges.items(), 150) if "uopscope" in others] == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    texts = {
        "a/__init__.py": "",
        "a/x/one.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.y.two import Two\n",
        "a/y/two.py": "from a.x import three\n",
        "a/x/three.py": "import a.z.four\n",
        "a/z/four.py": "from a.x.one import One\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    edges = graph(sources("a", top=tmp_path))
    assert set(circle(edges)) == {"a.x.one", "a.y.two", "a.x.three", "a.z.four"}
    assert set(circle({**edges, "a.z.four": set()})) == set()
    assert set(circle(rooms({**edges, "a.z.four": set()}, "a"))) == {"x", "y"}


def test_tests_mirror_the_folders() -> None:
    """What is about a room is in the folder of the same name; `tests/vm` boots kernels, for several rooms."""
    folders = {path.parent.relative_to(CHECKOUT / "tests") for path in (CHECKOUT / "tests").rglob("test_*.py")}
    mirrored = [folder for folder in folders if folder.parts and folder.parts[0] != "vm"]
    assert [str(folder) for folder in some(mirrored, 20) if not (CHECKOUT / folder).is_dir()] == []


MOST_FILES = 16
"""Python files in a folder, without its `__init__.py`: a newcomer looks through about so many."""


def test_no_room_has_more_files_than_a_newcomer_looks_through() -> None:
    folders = {path.parent for folder in (*PACKAGES, *OTHERS) for path in (CHECKOUT / folder).rglob("*.py")}
    counts = {
        name: sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in folders
        if (name := str(folder.relative_to(CHECKOUT))) not in LISTED
    }
    assert {name: count for name, count in some(counts.items(), 80) if count > MOST_FILES} == {}


def classes(modules: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return which modules define a public class of a name."""
    found: dict[str, list[str]] = {}
    for module, path in modules.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found


def test_no_two_classes_have_the_same_name() -> None:
    """Whoever looks for a name finds one class. Even what is alike has two names where two rooms may not share code."""
    found = classes(sources(*PACKAGES, *OTHERS))
    assert {name: modules for name, modules in some(found.items(), 500) if len(modules) > 1} == {}


def test_two_classes_of_one_name_are_found(tmp_path: Path) -> None:
    texts = {
        "one.py": "class A:\n    class C: ...\nclass B: ...\nclass _D: ...\n",
        "two.py": "class A: ...\nclass _D: ...\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert classes({name: tmp_path / name for name in texts}) == {"A": ["one.py", "two.py"], "B": ["one.py"]}


def test_every_room_names_its_files_in_reading_order() -> None:
    inits = [
        init for package in (*PACKAGES, "benchmarks") for init in sorted((CHECKOUT / package).rglob("__init__.py"))
    ]
    missing = [
        f"{folder}: {name}"
        for init in some(inits, 30)
        if (folder := str(init.parent.relative_to(CHECKOUT))) not in LISTED
        for name in sorted(contents(init.parent))
        if name not in re.findall(r"`(\w+)`", ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or "")
    ]
    assert missing == []


def contents(folder: Path) -> set[str]:
    """Return the modules and packages in a folder, private ones apart."""
    modules = {path.stem for path in folder.glob("[!_]*.py")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}
