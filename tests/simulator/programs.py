"""Small programs for the simulated machines, written as variants with operands."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import Job, Repeat
from runner.backends.sim import SimBackend, open_machine
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.encoder import encode

if TYPE_CHECKING:
    from xed_convert.model import OperandValue

ONCE = Repeat(warm_ups=0, repetitions=1)


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def backend(architecture: str) -> SimBackend:
    return SimBackend(open_machine(architecture), catalogue())


def line(string: str, *values: OperandValue) -> Line:
    """The variant of that string with values for its explicit operands, in order."""
    variant = catalogue().by_string(string)
    explicit = [operand.index for operand in variant.operands if operand.explicit]
    return Line(encode(variant, dict(zip(explicit, values, strict=True))), string)


def benchmark(*body: Line, setup: tuple[Line, ...] = ()) -> Microbenchmark:
    return Microbenchmark(setup, body, "a test")


def counts(architecture: str, job: Job) -> dict[str, int]:
    """What one run counts in all, harness included."""
    machine = backend(architecture)
    (result,) = machine.run([job], machine.info().counters, ONCE)
    assert result.status is Status.OK, result.detail
    return {name: samples[0] for name, samples in result.samples.items()}


def per_copy(architecture: str, *body: Line, setup: tuple[Line, ...] = (), iterations: int = 0) -> dict[str, float]:
    """What 100 more copies count more, per copy."""
    code = benchmark(*body, setup=setup)
    few, many = (counts(architecture, Job(code, copies, iterations)) for copies in (10, 110))
    return {name: (many[name] - few[name]) / 100 / max(1, iterations) for name in few}
