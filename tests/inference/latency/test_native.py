"""Latencies of the CPU that runs the tests, by the clock: what every CPU of the last fifteen years agrees on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generator.chains.plan import plan_latency
from generator.factory import InstructionFactory
from inference.calibration import Calibrations
from inference.latency.infer import infer_latencies
from results.model import LatencyPart, LatencyResult
from runner.backend import BackendError
from runner.backends.tsc import TscBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from tests.attempts import undisturbed
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPECTED = {
    "ADD_01 (R64, R64)": {(1, "", 1): (1, 1), (2, "", 1): (1, 1)},
    "IMUL (R64, R64)": {(1, "", 1): (3, 4), (2, "", 1): (3, 4)},
    "MOV (R64, M64)": {(2, "addr", 1): (3, 6)},
    "CMOVZ (R64, R64)": {(2, "", 1): (1, 2), (3, "", 1): (1, 2)},
}
"""Least and greatest cycles by operands, rounded (Fog, "Instruction tables": Intel since Nehalem, AMD since Zen)."""


@pytest.fixture(scope="module")
def backend() -> Iterator[TscBackend]:
    try:
        found = TscBackend()
    except BackendError as error:
        pytest.skip(f"no clock backend here: {error}")
    yield found
    found.close()


def problems(results: tuple[LatencyResult, ...], expected: dict[tuple[int, str, int], tuple[int, int]]) -> list[str]:
    found = {(r.source, r.part.value, r.destination): r.cycles for r in results if not r.same_register}
    return [
        f"{pair}: {float(found.get(pair, -1)):.2f}"
        for pair, (least, most) in expected.items()
        if not least * 0.9 <= found.get(pair, -1) <= most * 1.1
    ]


@pytest.mark.parametrize("string", list(EXPECTED))
def test_latencies_of_this_cpu(backend: TscBackend, string: str) -> None:
    catalogue = Catalogue.load()
    instructions = InstructionFactory(catalogue)

    def wrong() -> list[str]:
        session = Session(Measurer(backend))
        plan = plan_latency(instructions, catalogue.by_string(string))
        outcome = session.run_one(infer_latencies(plan, Calibrations(instructions, loop=True)))
        assert not outcome.failures
        assert {result.part for result in outcome.latencies} <= set(LatencyPart)
        return problems(outcome.latencies, EXPECTED[string])

    undisturbed(wrong, lambda found: not found)
