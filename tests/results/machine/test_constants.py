"""Constants of cores: every file is complete and consistent, and a wrong one is named."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from results.machine.constants import CoreConstants, core_names, core_of, parse_core
from results.machine.graph import ModelError
from results.model import PORT_LETTERS
from tests.nonempty import some


def haswell() -> str:
    return (resources.files("results.machine") / "cores" / "HSW.toml").read_text(encoding="utf-8")


def cores() -> list[CoreConstants]:
    return [core_of(name) for name in core_names()]


def test_every_core_has_a_front_end() -> None:
    for core in some(cores()):
        assert core.front_end is not None
        assert core.uop_cache is not None
        assert core.microcode is not None
        assert core.loop_buffer is not None


def test_ports_with_a_task_are_ports_of_the_core() -> None:
    for core in some(cores()):
        ports = core.ports
        stores = ports.store_address + ports.store_data
        named = ports.load + stores + ports.alternating + ports.no_index + ports.not_taken
        assert set(named) - {" "} <= set(ports.all) <= set(PORT_LETTERS)
        assert {port for group in ports.shared_counters for port in group} <= set(ports.all)
        assert set(ports.resources.values()) <= set(ports.all)


def test_other_names_lead_to_one_core_each() -> None:
    names = [name for core in cores() for name in (core.name, *core.also)]
    assert len(set(names)) == len(names)
    assert core_of("cfl") is core_of("SKL")


def test_loops_of_a_haswell_are_unrolled_in_its_buffer() -> None:
    loop = core_of("HSW").loop_buffer
    assert loop is not None
    assert [loop.copies(uops) for uops in (1, 5, 13, 28, 29)] == [8, 6, 2, 2, 1]


def test_an_unknown_core_is_refused_with_what_there_is() -> None:
    with pytest.raises(ModelError) as caught:
        core_of("P6")
    assert "SKL/KBL/CFL" in caught.value.hint


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("issue_width = 4", "issue_wide = 4", r"H.toml: \[back_end\]: unknown keys \['issue_wide'\]"),
        ("retire_width = 4\n", "", r"H.toml: \[back_end\]: missing keys \['retire_width'\]"),
        ('name = "HSW"\n', "", r"H.toml: missing keys \['name'\]"),
        ("[back_end]", "[[back_end]]", r"H.toml: \[back_end\]: a table is expected"),
        ("[back_end]", "[back_end", r"H.toml: Expected"),
        (
            'not_taken = "06"\nsource = "',
            'not_taken = "06"\nsource = " " # ',
            "the source is empty",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_what_is_wrong(wrong: str, right: str, message: str) -> None:
    text = haswell()
    assert wrong in text
    with pytest.raises(ModelError) as caught:
        parse_core(text.replace(wrong, right, 1), "H.toml")
    assert re.search(message, caught.value.message)
