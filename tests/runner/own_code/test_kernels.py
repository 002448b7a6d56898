"""The example kernels of docs/kernels: each is a loop, and its figures are those that can be worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analysis.bounds.components import Component, Running
from runner.own_code.analyzing.analyzed import of_text, tools_for
from tests.nonempty import some
from tests.runner.cli.commands import need_catalogue
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from analysis.explanation import PredictionFacts

KERNELS = CHECKOUT / "docs" / "kernels"


def facts(name: str) -> PredictionFacts:
    need_catalogue()
    path = KERNELS / name
    return of_text(path.read_text(), path.name).predict(tools_for("HSW", None), Running.AUTO).facts


def test_every_kernel_is_a_loop_that_is_known() -> None:
    paths = some((one for one in KERNELS.glob("*.s") if "aarch64" not in one.name), 9)
    found = {path.stem: facts(path.name) for path in paths}
    assert all(one.bounds.running is Running.LOOP for one in found.values())  # nine of them
    assert [name for name, one in some(found.items(), 9) if one.bounds.block.unknown] == []
    source = (KERNELS / "kernels.c").read_text()
    assert [name for name in some(found, 9) if f"{name}(long n" not in source] == []
    assert {one.line_of(0) is not None for one in found.values()} == {True}


@pytest.mark.parametrize(
    ("name", "dependencies", "lines"),
    [
        ("gauss_seidel.s", 3 + 3 + 3 + 5, [0, 1, 2, 3]),  # three additions, one multiplication
        ("sum_reduction.s", 4 * 3, [0, 2, 3, 4]),
        ("triad.s", 1, [3]),
    ],
)
def test_the_slowest_dependency_is_known(name: str, dependencies: int, lines: list[int]) -> None:
    found = facts(name)
    assert found.bounds.cycles_of[Component.DEPENDENCIES] == dependencies
    assert sorted(found.on_cycle) == lines


def test_a_store_per_iteration_and_loads_by_two() -> None:
    found = facts("striad.s")
    assert found.loads.best["4"] == 1
    assert found.loads.best["2"] == found.loads.best["3"] == 2  # three loads, one address of a store
