"""Campaigns: whatever stops them, they go on where they were, measure nothing twice, and conclude the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.campaign.records import Outcome
from results.campaign.store import Store
from results.findings import Code, FractionalUops, NoLatency, NoPorts, NotRun, Text
from results.model import Characterization, Failure, Form, LatencyKey, Status
from runner.campaigns.campaign import FEWEST_FOR_PACE, Tally
from runner.measuring.session import StoredOnly
from tests.effort import sample
from tests.runner.small_campaigns import FakeMethod, SmallBackend, campaign, ignore, variants
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path


VARIANTS = 60


def conclusions(store: Store) -> dict[str, Characterization]:
    return {each.result.key: each.result for each in store.conclusions()}


def undisturbed(count: int = VARIANTS) -> tuple[dict[str, Characterization], list[str]]:
    with Store.in_memory() as store:
        backend = SmallBackend()
        list(campaign(store, backend).run(variants(count), on_change=ignore))
        return conclusions(store), backend.runs


def test_every_variant_is_concluded_skipped_or_failed() -> None:
    with Store.in_memory() as store:
        tallies: list[Tally] = []
        results = list(campaign(store, SmallBackend()).run(variants(VARIANTS), on_change=tallies.append))
        assert {result.key for result in results} == {variant.key for variant in variants(VARIANTS)}
        outcomes = list(store.outcomes().values())
    assert outcomes.count(Outcome.SKIPPED) == 6
    assert outcomes.count(Outcome.FAILED) == 4
    tally = tallies[-1]
    assert (tally.done, tally.total, tally.seconds_left) == (VARIANTS, VARIANTS, 0)
    found = {kind: (reason.count, reason.names) for kind, reason in tally.reasons.items()}
    assert found == {
        "skipped: every tenth is": (6, "V9 (); V19 (); V29 (); and 3 more"),
        "failed: a throughput sequence faulted": (4, "V7 (); V22 (); V37 (); and 1 more"),
    }


@settings(max_examples=10)
@given(st.lists(st.integers(0, 300), max_size=4))
def test_what_was_stopped_goes_on_and_nothing_is_measured_twice(stops: list[int]) -> None:
    expected, runs_expected = undisturbed()
    runs: list[str] = []
    with Store.in_memory() as store:
        for stop in [*stops, None]:
            backend = SmallBackend(breaks_after=stop)
            with suppress(KeyboardInterrupt):
                list(campaign(store, backend).run(variants(VARIANTS), on_change=ignore))
            runs += backend.runs if stop is None or len(backend.runs) <= stop else []
        assert conclusions(store) == expected
    assert set(runs) <= set(runs_expected)


def test_more_variants_can_be_added_later() -> None:
    with Store.in_memory() as store:
        list(campaign(store, SmallBackend()).run(variants(20), on_change=ignore))
        tallies: list[Tally] = []
        results = list(campaign(store, SmallBackend()).run(variants(VARIANTS), on_change=tallies.append))
        assert len(results) == VARIANTS - 20
        assert tallies[0].resumed == 20
        assert conclusions(store) == undisturbed()[0]


def test_conclusions_are_drawn_again_from_samples_alone() -> None:
    expected, _ = undisturbed()
    with Store.in_memory() as store:
        first = campaign(store, SmallBackend())
        list(first.run(variants(VARIANTS), on_change=ignore))
        again = type(first)(store, StoredOnly(), FakeMethod())
        results = list(again.run(variants(VARIANTS), again=True, on_change=ignore))
        assert {result.key: result for result in results} == {
            key: result for key, result in expected.items() if not result.skipped
        }
        assert conclusions(store) == expected


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (NotRun(Code.SEQUENCE, Status.FAULTED, "SIGILL at 3."), "failed: a throughput sequence faulted"),
        (NoLatency(LatencyKey(1, 2)), "failed: no latency: no chain could be built"),
        (
            NoPorts(Form.PLAIN, FractionalUops(Fraction(5, 2))),
            "failed: no ports: the µops per port do not add up to an integer",
        ),
        (Text("the ports do not add up\nin any order"), "failed: the ports do not add up"),
    ],
)
def test_failures_of_a_kind_are_counted_together(failure: Failure, reason: str) -> None:
    tally = Tally(2)
    for _ in range(2):
        tally.count(Characterization("key", "ADD", "ADD", failures=(failure,)))
    (kind,) = tally.reasons
    assert kind == reason
    assert tally.reasons[kind].names == "ADD; ADD"
    assert "#" not in tally.reasons[kind].text


def test_the_time_left_does_not_count_the_preparation() -> None:
    tally = Tally(5000)
    tally.started -= 3600
    assert tally.seconds_left is None
    tally.prepared = time.monotonic() - 10
    for number in range(1000):
        assert (tally.seconds_left is None) == (number < FEWEST_FOR_PACE)
        tally.count(Characterization(f"key {number}", "ADD", "ADD"))
    assert tally.seconds_left == pytest.approx(40, rel=0.1)


def kill_and_resume(folder: Path, kills: int, count: int, seed: int) -> None:
    """Kill campaigns with SIGKILL at random moments, then let one finish; nothing is lost or measured twice."""
    expected, _ = undisturbed(count)
    generator = random.Random(seed)
    command = [
        sys.executable,
        "-m",
        "tests.runner.small_campaigns",
        str(folder / "c.sqlite"),
        str(folder / "journal"),
        str(count),
    ]
    acknowledged: set[str] = set()
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as process:
            assert process.stdout is not None
            for _ in range(generator.randrange(1 + 2 * count // kills)):
                acknowledged.add(process.stdout.readline().strip())
            process.send_signal(signal.SIGKILL)
    subprocess.run(command, check=True, cwd=CHECKOUT, stdout=subprocess.DEVNULL)
    acknowledged.discard("")
    with Store.read(folder / "c.sqlite") as store:
        assert conclusions(store) == expected
        assert acknowledged <= {result.iform for result in expected.values()}
        assert store._connection.execute("SELECT count(*) FROM conclusion").fetchone() == (count,)
        stored = store.count_measurements()
    measured = (folder / "journal").read_text().splitlines()
    # what was measured but not yet stored when the process was killed is one batch per kill at most
    assert len(set(measured)) == 2 * stored
    assert len(measured) - len(set(measured)) <= kills * 2 * 256


def test_kill_9_at_a_few_random_moments(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=6, count=300, seed=1)


@pytest.mark.slow
def test_kill_9_at_many_random_moments(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=sample(25, 100), count=1500, seed=2)
