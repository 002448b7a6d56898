"""Latencies of a variant whose throughput sequences could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from inference.characterizer import Characterizer
from inference.experiment import Measured
from results.model import Status
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from simulator.machines.shipped import load_machine
from tests.inference.simulated import catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.experiment import Request

STRING = "PSUBUSW (XMM, XMM)"


class Disturbed(Measurer):
    """Measures everything but the throughput of one variant, of which it says what became of it."""

    status = Status.UNCLEAN

    def measure(self, requests: Sequence[Request]) -> list[Measured]:
        bad = f"throughput of {STRING}: "
        return [
            Measured(one.request, self.status, {}, {}, None, "p3 carries too much")
            if one.request.benchmark.purpose.startswith(bad)
            else one
            for one in super().measure(requests)
        ]


@pytest.mark.parametrize(("status", "known"), [(Status.UNCLEAN, True), (Status.FAULTED, False)])
def test_what_runs_but_was_disturbed_has_latencies_and_what_faults_has_none(status: Status, known: bool) -> None:
    backend = SimBackend(load_machine("HSW"), catalogue())
    measurer = Disturbed(backend)
    measurer.status = status
    characterizer = Characterizer(catalogue(), backend.info().capabilities, thorough=False)
    session = Session(measurer, limits=Limits(keep_raw=False))
    variant = catalogue().by_string(STRING)
    context = session.run_one(characterizer.prepare([variant]))
    found = session.run_one(characterizer.characterize(variant, context))
    assert found.throughput.unrolled is None
    assert {(one.source, one.destination) for one in found.latencies} == ({(1, 1), (2, 1)} if known else set())
