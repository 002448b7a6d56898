"""Ports by time where times are noisy: each code is measured in several orders, and too much noise says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.microbenchmark import Line, Microbenchmark
from inference.characterizer import CandidateCache, Characterizer
from inference.experiment import MOST_AGAIN, Measured, Procedure, Request
from inference.ports.by_time.counterparts import infer_beside_registers
from inference.ports.by_time.infer import infer_by_time
from inference.ports.by_time.mixes import MixFactory
from inference.ports.by_time.orders import ORDERS, in_orders
from results.findings import Note, Remark, TooNoisy
from results.model import PortUsage, Status
from results.sentences import failure
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from runner.port_sets import lines_of
from runner.verification.by_time import Verdict, run
from simulator.machines.noise import CounterNoise
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.sequences.blocking import CodeKind
    from inference.ports.blocking_instructions import Candidate
    from inference.ports.by_time.machine import TimedMachine
    from results.model import Measurement


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def request(text: str) -> Request:
    """Return a request for a body with a line for each letter."""
    return Request(Microbenchmark((), tuple(Line(one.encode(), one) for one in text), "", len(text)), loop=True)


def measured(one: Request, cycles: Fraction, status: Status = Status.OK) -> Measured:
    return Measured(one, status, {"core_cycles": cycles, "uops": Fraction(7)}, {})


def asking(requests: list[Request]) -> Procedure[list[Measured]]:
    return list((yield requests))


def bodies(requests: Sequence[Request]) -> list[str]:
    return ["".join(line.text for line in one.benchmark.body) for one in requests]


def answered(requests: list[Request], times: list[Fraction]) -> tuple[list[str], list[Measured]]:
    """Return the bodies that are measured for requests, and what the procedure is told if they take these times."""
    procedure = in_orders(asking(requests))
    orders = next(procedure)
    with pytest.raises(StopIteration) as ended:
        procedure.send([measured(one, cycles) for one, cycles in zip(orders, times, strict=True)])
    return bodies(orders), ended.value.value


def test_lines_are_measured_in_orders_that_begin_further_on_and_the_middle_times_count() -> None:
    asked = request("abcdefghij")
    times = [Fraction(one) for one in (90, 11, 10, 12, 1)]
    orders, (told,) = answered([asked], times)
    assert orders == ["abcdefghij", "cdefghijab", "efghijabcd", "ghijabcdef", "ijabcdefgh"]
    assert told.request is asked
    assert told.values == {"core_cycles": Fraction(11), "uops": Fraction(7)}


def test_no_code_is_measured_twice() -> None:
    single, equal, two = request("a"), request("aaaaa"), request("ab")
    orders, told = answered([single, equal, two], [Fraction(one) for one in (1, 2, 3, 5)])
    assert orders == ["a", "aaaaa", "ab", "ba"]
    assert [one.cycles for one in told] == [1, 2, 4]


def test_one_order_changes_nothing() -> None:
    asked = [request("abc"), request("d")]
    procedure = in_orders(asking(asked), 1)
    assert list(next(procedure)) == asked


def test_what_fails_in_one_order_has_failed() -> None:
    asked = request("abcde")
    procedure = in_orders(asking([asked]))
    found = [measured(one, Fraction(1)) for one in next(procedure)]
    found[3] = measured(found[3].request, Fraction(1), Status.FAULTED)
    with pytest.raises(StopIteration) as ended:
        procedure.send(found)
    ((told,)) = ended.value.value
    assert (told.request, told.status) == (asked, Status.FAULTED)


@dataclass
class Remembered:
    """Keeps measurements in memory, so that a second session does not simulate them again."""

    known: dict[str, Measurement] = field(default_factory=dict)

    def lookup(self, request: Request) -> Measurement | None:
        return self.known.get(request.key)

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        self.known.update((request.key, measurement) for request, measurement in measured)


class FewCandidates(CandidateCache):
    """One of eight candidates: enough for the sets of a Haswell, and measured in a quarter of the time."""

    def candidates(self, kind: CodeKind, *, every_class: bool, timed: bool = False) -> list[Candidate]:
        return super().candidates(kind, every_class=every_class, timed=timed)[::8]


def haswell(catalogue: Catalogue, noise: int) -> SimBackend:
    machine = open_machine("HSW").with_parameters(noise=CounterNoise(job_percent=noise))
    return SimBackend(machine, catalogue, hide_counters=True)


def searched(backend: SimBackend, catalogue: Catalogue, source: Remembered) -> TimedMachine:
    """Return what a search for sets of ports among few candidates finds."""
    capabilities = backend.info().capabilities
    characterizer = Characterizer(catalogue, capabilities, candidates=FewCandidates(catalogue), by_time=True)
    found = Session(Measurer(backend), source).run_one(characterizer.find_port_sets())
    assert found is not None
    return found


def test_where_times_of_one_order_are_too_noisy_those_of_several_show_the_sets(catalogue: Catalogue) -> None:
    quiet, noisy = (searched(haswell(catalogue, noise), catalogue, Remembered()) for noise in (0, 2))
    assert (quiet.orders, noisy.orders) == (1, ORDERS)
    assert not noisy.is_noisy
    assert {one.ports for one in noisy.sets} == {one.ports for one in quiet.sets}
    assert {len(one.ports) for one in noisy.sets} == {1, 2, 3}
    assert "although each is of code in 5 orders" in next(lines_of(noisy))
    mixes = MixFactory(InstructionFactory(catalogue))
    (ports, variant), *_ = (
        (one.ports, catalogue.by_string(one.members[0])) for one in noisy.sets if len(one.ports) == 1
    )
    task = infer_beside_registers(noisy, mixes, variant, Fraction(1), Fraction(0))
    said = Session(Measurer(haswell(catalogue, 2)), Remembered()).run_one(task)
    assert said.usage == PortUsage({noisy.public(ports): 1})
    assert said.steps[0] == Remark(Note.SEVERAL_ORDERS)


def test_nothing_is_said_where_times_are_off_by_too_much(catalogue: Catalogue) -> None:
    """With 4% of noise, five orders of each code are too noisy, too."""
    backend, source = haswell(catalogue, 4), Remembered()
    session = Session(Measurer(backend), source)
    timed = searched(backend, catalogue, source)
    assert timed.is_noisy
    # All searches were made, each with measurements of its own
    again = {key.partition(":loop:")[2] for key in source.known if ":loop" in key}
    assert {int(number or 0) // MOST_AGAIN for number in again} == {0, 1, 2}
    asked = [catalogue.by_string("IMUL (R64, R64)")]
    found = run(backend, catalogue, asked, FewCandidates(catalogue), source)
    assert found.verdicts == {Verdict.UNSTATED: 1}
    variant = catalogue.by_string("IMUL (R64, R64)")
    said = session.run_one(infer_by_time(timed, MixFactory(InstructionFactory(catalogue)), variant, Fraction(1)))
    assert said.usage is None
    assert isinstance(said.failure, TooNoisy)
    assert re.fullmatch(r"times are off by \d\.\d\d%, too much for ports by time: .*", failure(said.failure))
