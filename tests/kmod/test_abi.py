"""The Python mirror of the module's interface against the header itself, by a program compiled from it."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.host.kmod import abi

HEADER = Path(__file__).parents[2] / "kmod" / "uopscope_uapi.h"
STRUCTURES = ("uops_info", "uops_counter", "uops_write", "uops_counter_set", "uops_job", "uops_result", "uops_batch")
PREFIXES = {
    "FEATURE_": abi.Feature,
    "STATUS_": abi.JobStatus,
    "CHANGED_": abi.Changed,
    "BATCH_": abi.BatchFlag,
    "JOB_": abi.JobFlag,
}


def defined() -> list[str]:
    return re.findall(r"^#define UOPS_(\w+)", HEADER.read_text(), re.MULTILINE)


def mirrored(name: str) -> int:
    if hasattr(abi, name):
        return int(getattr(abi, name))
    for prefix, kind in PREFIXES.items():
        if name.startswith(prefix):
            return int(getattr(kind, name.removeprefix(prefix)).value)
    raise AssertionError(f"UOPS_{name} is not in runner/host/kmod/abi.py")


def fields(name: str) -> list[str]:
    return [field[0] for field in getattr(abi, name)._fields_]


def probe() -> str:
    lines = [f'printf("UOPS_{name} %llu\\n", (unsigned long long)UOPS_{name});' for name in defined()]
    for structure in STRUCTURES:
        lines.append(f'printf("sizeof {structure} %zu\\n", sizeof(struct {structure}));')
        for field in fields(structure):
            at = f"offsetof(struct {structure}, {field})"
            size = f"sizeof(((struct {structure} *)0)->{field})"
            lines.append(f'printf("{structure}.{field} %zu %zu\\n", {at}, {size});')
    includes = ["<stddef.h>", "<stdio.h>", '"uopscope_uapi.h"']
    head = [f"#include {name}" for name in includes]
    return "\n".join([*head, "int main(void)", "{", *lines, "return 0;", "}", ""])


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, ...]]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("abi")
    (folder / "probe.c").write_text(probe())
    command = [compiler, "-Wall", "-Wpadded", "-Werror", f"-I{HEADER.parent}", "-o", "probe", "probe.c"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    output = subprocess.run([folder / "probe"], capture_output=True, text=True, check=True, timeout=60).stdout
    rows = (line.rsplit(" ", 2 if "." in line.split(" ")[0] else 1) for line in output.splitlines())
    return {name: tuple(map(int, numbers)) for name, *numbers in rows}


def test_every_constant_of_the_header_has_its_mirror(facts: dict[str, tuple[int, ...]]) -> None:
    names = defined()
    assert len(names) > 50
    assert {name: facts[f"UOPS_{name}"][0] for name in names} == {name: mirrored(name) for name in names}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_structures_have_the_same_fields_at_the_same_places(structure: str, facts: dict[str, tuple[int, ...]]) -> None:
    kind = getattr(abi, structure)
    assert facts[f"sizeof {structure}"] == (ctypes.sizeof(kind),)
    for field in fields(structure):
        place = getattr(kind, field)
        assert facts[f"{structure}.{field}"] == (place.offset, place.size)


def test_every_structure_of_the_header_is_compared() -> None:
    assert set(re.findall(r"^struct (\w+) \{", HEADER.read_text(), re.MULTILINE)) == set(STRUCTURES)
    body = HEADER.read_text()
    for structure in STRUCTURES:
        declared = re.search(rf"^struct {structure} \{{\n(.*?)^\}};", body, re.MULTILINE | re.DOTALL)
        assert declared
        without_comments = re.sub(r"/\*.*?\*/", "", declared[1], flags=re.DOTALL)
        assert re.findall(r"(\w+)(?:\[\w+\])?;", without_comments) == fields(structure)
