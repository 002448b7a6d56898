"""A program takes the same time in every process, and whatever ran before it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from runner.backend import Job, Repeat
from runner.backends.sim import SimBackend, open_machine
from tests.shared import CHECKOUT
from tests.simulator.programs import backend, benchmark, catalogue, line

REPEAT = Repeat(warm_ups=0, repetitions=5)
NOISY = next(name for seed in range(50) if open_machine(name := f"random:{seed}").parameters.noise.upwards > 1)
"""A machine whose counters are off now and then."""

PROGRAMS = {
    "four ports": line("ADD_01 (R64, R64)", "RAX", "RBX"),
    "several µops": line("XADD (R64, R64)", "RAX", "RBX"),
    "a divider": line("DIV (R64)", "RBX"),
    "vectors": line("PADDD (XMM, XMM)", "XMM0", "XMM1"),
}


def jobs(names: list[str]) -> list[Job]:
    return [Job(benchmark(PROGRAMS[name]), 113) for name in names]


def samples(machine: SimBackend, names: list[str]) -> dict[str, dict[str, list[int]]]:
    results = machine.run(jobs(names), machine.info().counters, REPEAT)
    found = zip(names, results, strict=True)
    return {name: {counter: list(taken) for counter, taken in one.samples.items()} for name, one in found}


def fresh(architecture: str) -> SimBackend:
    """Return a machine that ran nothing: a noisy one gives other samples when a job is repeated."""
    return SimBackend(open_machine(architecture), catalogue())


def in_another_process(architecture: str, hash_seed: str) -> dict[str, dict[str, list[int]]]:
    """Run the programs where strings hash differently, so that sets of ports come in another order."""
    script = (
        f"import json; from {__name__} import *; print(json.dumps(samples(fresh({architecture!r}), list(PROGRAMS))))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, dict[str, list[int]]] = json.loads(done.stdout)
    return found


def test_the_noisy_machine_is_noisy() -> None:
    found = samples(backend(NOISY), list(PROGRAMS))
    assert any(len(set(taken)) > 1 for one in found.values() for taken in one.values())


@pytest.mark.parametrize("architecture", ["HSW", NOISY])
def test_the_order_of_sets_does_not_matter(architecture: str) -> None:
    here = samples(fresh(architecture), list(PROGRAMS))
    assert here["four ports"]["core_cycles"]
    assert in_another_process(architecture, "1") == here
    assert in_another_process(architecture, "2") == here


@pytest.mark.parametrize("architecture", ["HSW", NOISY])
def test_what_ran_before_does_not_matter(architecture: str) -> None:
    alone = {name: samples(fresh(architecture), [name])[name] for name in PROGRAMS}
    assert samples(fresh(architecture), list(PROGRAMS)) == alone
    assert samples(fresh(architecture), list(reversed(PROGRAMS))) == alone
    assert alone["a divider"] != alone["four ports"]
