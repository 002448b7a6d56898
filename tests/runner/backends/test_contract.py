"""What every backend that the folder has must do; a backend that cannot be used here is skipped with its reason."""

from collections.abc import Iterator

import pytest

from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import Backend, BackendError, Job, Repeat
from runner.backends.registry import AUTO, backends, open_backend
from tests.attempts import undisturbed

SIMULATED_ARCHITECTURE = "SKL"
ADD = Line(bytes.fromhex("4801c0"), "ADD RAX, RAX")
FEW = Repeat(warm_ups=1, repetitions=5)


@pytest.fixture(scope="module", params=list(backends()))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    opened = opened_or_reason(request.param)
    if isinstance(opened, BackendError):
        pytest.skip(f"{request.param}: {opened.message}")
    yield opened
    opened.close()


def opened_or_reason(name: str) -> Backend | BackendError:
    try:
        simulated = name != AUTO and backends()[name].preference is None
        opened = open_backend(name, architecture=SIMULATED_ARCHITECTURE if simulated else None)
        opened.info()
    except BackendError as error:
        return error
    return opened


@pytest.mark.parametrize("name", backends())
def test_a_backend_that_cannot_be_used_says_what_to_do(name: str) -> None:
    opened = opened_or_reason(name)
    if isinstance(opened, BackendError):
        assert opened.hint
    else:
        assert opened.info().name == name
        opened.close()


def job(copies: int, iterations: int, *body: Line) -> Job:
    return Job(Microbenchmark((), body or (ADD,), "a test"), copies, iterations)


def test_a_backend_says_what_it_is(backend: Backend) -> None:
    info = backend.info()
    assert info.name == backend.name
    assert info.provenance.backend == backend.name
    assert set(info.ports) <= set(info.counters)
    assert {"core_cycles"} <= set(info.counters) or {"tsc", "calibration"} <= set(info.counters)
    assert info.is_model == info.provenance.is_model


def test_results_come_in_order_with_as_many_samples_as_repetitions(backend: Backend) -> None:
    info = backend.info()
    iterations = info.preferred_iterations
    batch = [job(copies, iterations) for copies in (110, 10, 110, 10)]
    clock = "core_cycles" if "core_cycles" in info.counters else "tsc"

    def medians() -> list[int]:
        results = backend.run(batch, info.counters, FEW)
        assert [result.status for result in results] == [Status.OK] * 4
        for result in results:
            assert set(result.samples) <= set(info.counters)
            assert all(len(samples) == FEW.repetitions for samples in result.samples.values())
        return [sorted(result.samples[clock])[2] for result in results]

    undisturbed(medians, lambda found: min(found[::2]) > max(found[1::2]))


def test_an_empty_batch_gives_nothing(backend: Backend) -> None:
    assert backend.run([], backend.info().counters, FEW) == []


def test_a_backend_can_be_closed_and_used_again(backend: Backend) -> None:
    backend.close()
    (result,) = backend.run([job(10, 10)], backend.info().counters, FEW)
    assert result.status is Status.OK


def test_auto_is_never_a_model() -> None:
    chosen = opened_or_reason(AUTO)
    if isinstance(chosen, BackendError):
        pytest.skip(f"no backend for a real CPU: {chosen.message}")
    assert not chosen.info().is_model
    chosen.close()


def test_a_cpu_that_is_not_there_is_one_reason_not_one_per_backend() -> None:
    with pytest.raises(BackendError, match=r"^CPU 4711 is not there[^;]*$"):
        open_backend(AUTO, cpu=4711)


def test_an_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(BackendError) as caught:
        open_backend("frobnicate")
    assert "tsc" in caught.value.hint
