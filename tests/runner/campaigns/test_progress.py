"""What a campaign shows while it runs where standard error is no terminal."""

from __future__ import annotations

import re
from collections import Counter
from time import monotonic

import pytest

from results.campaign.records import Outcome
from runner.campaigns.campaign import FEWEST_FOR_PACE, Tally
from runner.cli.support import progress
from tests.results.memory.test_documents import REPORT


@pytest.mark.parametrize(
    ("prepared", "said"),
    [
        (None, r"1 of 900 variants, 7 microbenchmarks\n"),
        (-60.0, rf"{FEWEST_FOR_PACE} of 900 variants, 7 microbenchmarks, \d.* left\n"),
    ],
)
def test_a_line_says_how_far_it_is_and_how_long_it_takes_if_that_is_known(
    prepared: float | None, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", -1)
    done = 1 if prepared is None else FEWEST_FOR_PACE
    tally = Tally(900, outcomes=Counter({Outcome.MEASURED: done}), measured=7)
    tally.prepared = None if prepared is None else monotonic() + prepared
    with progress.Reporter(900, None, REPORT.provenance) as reporter:
        reporter.update(tally)
    assert re.fullmatch(said, capfd.readouterr().err)
