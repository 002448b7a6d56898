"""Sessions: procedures get what they ask for, and nothing is measured twice."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Procedure, Request, Want, repeated
from results.campaign.store import Store
from results.model import Measurement, Status
from runner.backend import BackendError, Job
from runner.measuring.protocol import Measurer
from runner.measuring.session import (
    EndlessError,
    Finished,
    Limits,
    Progress,
    Session,
    SessionError,
    StoredOnly,
    StoreSource,
    Task,
    sample_of,
)
from tests.runner.fake_backend import PROVENANCE, FakeBackend
from xed_convert.errors import UopscopeError


def request(cycles: int) -> Request:
    return Request(Microbenchmark((), (Line(bytes([cycles]), f"{cycles} cycles"),), "a test"))


def cycles_of(job: Job, _: int) -> dict[str, int]:
    return {"core_cycles": 50 + job.copies * job.benchmark.body_code[0]}


def total(rounds: Sequence[Sequence[int]]) -> Procedure[Fraction]:
    """Ask for some cycles in each round, and return the sum of all."""
    found = Fraction(0)
    for numbers in rounds:
        answers = yield [request(number) for number in numbers]
        assert [answer.request.benchmark.body_code[0] for answer in answers] == list(numbers)
        found += sum((answer.cycles for answer in answers), Fraction(0))
    return found


def fails(error: Exception) -> Procedure[Fraction]:
    yield [request(1)]
    raise error


def endless(requests: Sequence[Request]) -> Procedure[Fraction]:
    while True:
        yield requests


def session(**options: object) -> tuple[FakeBackend, Session]:
    backend = FakeBackend(cycles_of)
    return backend, Session(Measurer(backend), **options)  # type: ignore[arg-type] # options of the session under test


def by_name(outcomes: Sequence[Finished[Fraction]]) -> dict[str, Finished[Fraction]]:
    return {outcome.name: outcome for outcome in outcomes}


def test_every_procedure_gets_what_it_asked_for() -> None:
    _, runs = session(limits=Limits(active=3, batch=2))
    wanted = {f"task {n}": [[n, n + 1], [], [2 * n]] for n in range(1, 12)}
    outcomes = by_name(list(runs.run(Task(name, total(rounds)) for name, rounds in wanted.items())))
    assert {name: outcome.result for name, outcome in outcomes.items()} == {
        name: sum(map(sum, rounds)) for name, rounds in wanted.items()
    }
    assert outcomes["task 4"].requests == tuple(request(number).key for number in (4, 5, 8))


def test_the_same_experiment_is_measured_once() -> None:
    backend, runs = session()
    assert runs.run_one(total([[7, 7], [7, 9]])) == 30
    assert runs.run_one(total([[9, 7]])) == 16
    measured = [job.benchmark.body_code[0] for batch in backend.batches for job in batch]
    assert sorted(set(measured)) == [7, 9]
    assert len(measured) == 2 * 2  # two sizes of each


def test_a_procedure_that_is_repeated_has_measurements_of_its_own() -> None:
    backend, runs = session()
    assert [runs.run_one(repeated(total([[3], [4]]), number)) for number in (0, 1, 1)] == [7, 7, 7]
    assert runs.run_one(total([[3], [4]])) == 7
    measured = [job.benchmark.body_code[0] for batch in backend.batches for job in batch]
    assert sorted(measured) == [3] * 4 + [4] * 4  # two sizes of each, for two numbers


def test_what_a_procedure_measures_twice_itself_is_measured_twice_when_it_is_repeated() -> None:
    def twice() -> Procedure[None]:
        yield [request(3)]
        yield [replace(request(3), again=1)]

    backend, runs = session()
    for number in (0, 1):
        runs.run_one(repeated(twice(), number))
    assert len([job for batch in backend.batches for job in batch]) == 2 * 2 * 2  # two sizes of each


@pytest.mark.parametrize("again", [0, 2])
@pytest.mark.parametrize("loop", [False, True])
def test_a_stored_request_says_what_was_asked(again: int, loop: bool) -> None:
    asked = Request(request(3).benchmark, Want.ALL, loop, again)
    sample = sample_of(asked, Measurement(Status.OK, ()))
    assert sample.asked == ("all", "loop" if loop else "unrolled", again)


def test_requests_of_many_procedures_are_merged_into_one_batch() -> None:
    backend, runs = session()
    list(runs.run(Task(str(n), total([[n]])) for n in range(1, 20)))
    assert len(backend.batches) == 1


def test_errors_end_their_own_procedure_only() -> None:
    _, runs = session()
    known, fault = UopscopeError("known"), ZeroDivisionError("oops")
    outcomes = by_name(list(runs.run([Task("a", fails(known)), Task("b", fails(fault)), Task("c", total([[3]]))])))
    assert outcomes["a"].error is known
    assert isinstance(outcomes["b"].error, SessionError)
    assert "ZeroDivisionError: oops" in str(outcomes["b"].error)
    assert outcomes["b"].error.__cause__ is fault
    assert outcomes["c"].result == 3
    with pytest.raises(UopscopeError, match="known"):
        runs.run_one(fails(known))


@pytest.mark.parametrize("requests", [[], [request(1)]])
def test_a_procedure_that_never_ends_is_ended(requests: list[Request]) -> None:
    _, runs = session(limits=Limits(rounds_per_procedure=20))
    (outcome,) = list(runs.run([Task("endless", endless(requests))]))
    assert isinstance(outcome.error, EndlessError)
    _, runs = session(limits=Limits(requests_per_procedure=3))
    (outcome,) = list(runs.run([Task("greedy", endless([request(n) for n in range(1, 5)]))]))
    assert "more than 3" in str(outcome.error)


def test_a_preparation_may_ask_for_more_than_one_variant_may() -> None:
    _, runs = session(limits=Limits(requests_per_procedure=3, requests_alone=5))
    assert runs.run_one(total([[1, 2, 3, 4, 5]])) == 15
    with pytest.raises(EndlessError, match="preparation: asks for more than 5 measurements"):
        runs.run_one(total([[1, 2, 3, 4, 5, 6]]))


def test_a_broken_backend_ends_the_session_and_closes_the_procedures() -> None:
    backend, runs = session()

    def broken(_: Job, __: int) -> dict[str, int]:
        raise BackendError("gone", hint="start again")

    backend.counts = broken
    procedure = total([[1]])
    with pytest.raises(BackendError, match="gone"):
        list(runs.run([Task("a", procedure)]))
    with pytest.raises(StopIteration):
        next(procedure)


def test_an_interrupt_keeps_what_was_yielded() -> None:
    _, runs = session(limits=Limits(active=1))
    outcomes = runs.run(Task(str(n), total([[n]])) for n in (1, 2, 3))
    assert next(outcomes).result == 1
    outcomes.close()  # type: ignore[attr-defined] # it is a generator
    assert list(outcomes) == []


def test_what_was_not_asked_for_for_long_is_forgotten() -> None:
    backend, runs = session(limits=Limits(remembered=2))
    assert runs.run_one(total([[1], [2], [1], [3], [1], [4, 5, 6, 7], [1]])) == 31
    measured = [job.benchmark.body_code[0] for batch in backend.batches for job in batch]
    assert measured.count(1) == 2 * 2  # forgotten once, when four others were asked for together
    assert len(runs._known) == 2


def test_progress_counts_requests_and_measurements() -> None:
    seen: list[Progress] = []
    _, runs = session(on_progress=seen.append)
    list(runs.run(Task(str(n), total([[1, 2], [n]])) for n in (1, 2, 3)))
    assert seen[-1] == Progress(requests=9, measured=3)


def test_stored_measurements_are_used_again_without_hardware(tmp_path: Path) -> None:
    path = tmp_path / "campaign.db"
    with Store.open(path) as store:
        store.begin(PROVENANCE)
        _, runs = session(source=StoreSource(store))
        assert runs.run_one(total([[5], [6]])) == 11
    with Store.open(path) as store:
        store.begin(PROVENANCE)
        backend, runs = session(source=StoreSource(store))
        assert runs.run_one(total([[5], [6]])) == 11
        assert backend.batches == []
    with Store.read(path) as store:
        offline = Session(StoredOnly(), StoreSource(store))
        assert offline.run_one(total([[6, 5]])) == 11


def statuses(requests: Sequence[Request]) -> Procedure[list[Measured]]:
    answers = yield requests
    return list(answers)


def test_what_was_not_stored_is_refused_offline() -> None:
    (found,) = Session(StoredOnly()).run_one(statuses([request(1)]))
    assert found.status is Status.REFUSED
    assert "stored" in found.detail


def test_raw_samples_are_dropped_where_memory_matters() -> None:
    _, runs = session(limits=Limits(keep_raw=False))
    (found,) = runs.run_one(statuses([request(1)]))
    assert found.measurement is None
    assert found.cycles == 1
    _, runs = session()
    (found,) = runs.run_one(statuses([request(1)]))
    assert isinstance(found.measurement, Measurement)
