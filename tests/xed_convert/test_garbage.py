"""The garbage collector: switched off for a block, or made rare for a process."""

import gc

from xed_convert.garbage import SELDOM, collect_seldom, without_collection


def test_a_process_that_asks_for_it_collects_seldom() -> None:
    """The thresholds are the rare ones from then on, and the collector stays on."""
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)  # a command that ran in this process may have asked for it
        collect_seldom()
        assert gc.get_threshold() == SELDOM != (700, 10, 10)
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)


def test_the_collector_runs_again_after_a_block() -> None:
    """It is off within the block only, also in one within another."""
    assert gc.isenabled()
    with without_collection():
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
