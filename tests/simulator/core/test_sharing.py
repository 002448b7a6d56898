"""Registers that share a physical one: how many moves can be eliminated at a time and in a cycle."""

from __future__ import annotations

from results.machine.constants import NO_LIMIT
from simulator.core.sharing import RegisterFile, Sharing, SharingPipeline

GENERAL, VECTOR = RegisterFile.GENERAL, RegisterFile.VECTOR


def test_a_slot_is_a_physical_register_however_many_registers_share_it() -> None:
    sharing = Sharing(1, NO_LIMIT, NO_LIMIT)
    assert sharing.move(GENERAL, 0, 1, 0)
    assert sharing.move(GENERAL, 1, 2, 0)
    assert sharing.move(GENERAL, 0, 3, 0)
    assert not sharing.move(GENERAL, 4, 5, 0)


def test_a_slot_is_free_in_the_cycle_after_all_but_one_register_were_overwritten() -> None:
    sharing = Sharing(1, NO_LIMIT, NO_LIMIT)
    assert sharing.move(GENERAL, 0, 1, 0)
    assert sharing.move(GENERAL, 0, 2, 0)
    sharing.overwrite((1,), 1)
    assert not sharing.move(GENERAL, 4, 5, 2)
    sharing.overwrite((0,), 3)
    assert not sharing.move(GENERAL, 4, 5, 3)
    assert sharing.move(GENERAL, 4, 5, 4)


def test_each_file_has_its_own_slots() -> None:
    sharing = Sharing(1, 1, NO_LIMIT)
    assert sharing.move(GENERAL, 0, 1, 0)
    assert sharing.move(VECTOR, 10, 11, 0)
    assert not sharing.move(VECTOR, 12, 13, 0)


def test_a_move_that_is_not_eliminated_overwrites_its_register() -> None:
    sharing = Sharing(1, 0, NO_LIMIT)
    assert sharing.move(GENERAL, 0, 1, 0)
    assert not sharing.move(GENERAL, 2, 1, 0)
    assert sharing.move(GENERAL, 2, 3, 1)


def test_a_move_between_registers_that_share_one_already_takes_no_slot() -> None:
    sharing = Sharing(1, 1, NO_LIMIT)
    assert all(sharing.move(GENERAL, 0, 1, cycle) and sharing.move(GENERAL, 1, 0, cycle) for cycle in range(3))


def test_so_many_moves_are_eliminated_in_a_cycle() -> None:
    sharing = Sharing(NO_LIMIT, NO_LIMIT, 2)
    found = [sharing.move(GENERAL, 0, number, cycle) for cycle in range(2) for number in (1, 2, 3)]
    assert found == [True, True, False] * 2


def test_a_copy_goes_its_own_way_and_equal_states_have_equal_futures() -> None:
    first = Sharing(2, 0, NO_LIMIT)
    assert first.move(GENERAL, 0, 1, 5)
    second = first.copy()
    assert first.state(6) == second.state(6)
    second.overwrite((1,), 6)
    assert first.state(7) != second.state(7)
    assert first.move(GENERAL, 1, 2, 7)
    assert second.state(7) == Sharing(2, 0, NO_LIMIT).state(7)


def pipeline(cycles: int = 2, *, all_overwritten: bool = True, general: int = 4) -> SharingPipeline:
    return SharingPipeline(general, 4, NO_LIMIT, cycles, all_overwritten=all_overwritten)


def eliminated(sharing: SharingPipeline, now: int, file: RegisterFile = GENERAL) -> int:
    """Return how many of four copies of one register are eliminated in a cycle."""
    return sum(sharing.move(file, 0, target, now) for target in (1, 2, 3, 4))


def test_moves_of_the_cycles_before_count_as_slots_until_it_is_known_how_many_they_need() -> None:
    for cycles, expected in ((2, [4, 0, 3, 0, 3]), (3, [4, 0, 0, 3, 0])):
        sharing = pipeline(cycles)
        assert [eliminated(sharing, now) for now in range(5)] == expected


def test_a_general_purpose_register_keeps_its_slot_until_all_that_share_it_are_overwritten() -> None:
    for kept, file, expected in ((True, GENERAL, 3), (False, GENERAL, 4), (True, VECTOR, 4)):
        sharing = pipeline(all_overwritten=kept)
        assert sharing.move(file, 10, 11, 0)
        sharing.overwrite((11,), 1)
        assert eliminated(sharing, 9, file) == expected
        sharing.overwrite((10,), 10)
        sharing.overwrite((0, 1, 2, 3, 4), 10)
        assert eliminated(sharing, 19, file) == 4


def test_a_slot_stays_taken_while_moves_are_eliminated() -> None:
    sharing = pipeline(all_overwritten=False)
    assert sharing.move(GENERAL, 10, 11, 0)
    sharing.overwrite((11,), 1)
    assert sharing.move(GENERAL, 0, 1, 1)
    assert eliminated(sharing, 3) == 2  # both slots were taken at the end of cycle 1, and were free behind it
    assert pipeline(general=0).move(GENERAL, 0, 1, 0) is False


def test_a_copy_of_a_pipeline_goes_its_own_way() -> None:
    first = pipeline()
    assert eliminated(first, 5) == 4
    second = first.copy()
    assert first.state(6) == second.state(6)
    assert eliminated(second, 7) == 3
    assert first.state(8) != second.state(8)
    assert first.state(20) == first.state(30)
