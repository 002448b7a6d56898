"""The garbage collector: switched off or made rare for a block, and as it was afterwards."""

import gc

import pytest

from xed_convert.memory import SELDOM, seldom_collection, without_collection


def test_thresholds_are_back_after_a_block_that_raises() -> None:
    """What is collected seldom during a campaign is collected as before after it, however it ends."""
    before = gc.get_threshold()
    with pytest.raises(KeyError), seldom_collection():
        _raise_if(gc.get_threshold() == SELDOM)
    assert gc.get_threshold() == before != SELDOM


def _raise_if(condition: bool) -> None:
    if condition:
        raise KeyError


def test_the_collector_runs_again_after_a_block() -> None:
    """It is off within the block only, also in one within another."""
    assert gc.isenabled()
    with without_collection():
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
