"""Random machines of one seed share their instructions only where these are the same."""

from runner.verification.siblings import Siblings
from simulator.machines.random_machine import RandomMachine
from simulator.machines.random_shape import KINDS
from tests.inference.simulated import catalogue
from tests.nonempty import some


def test_a_machine_is_the_one_that_is_drawn_by_itself() -> None:
    variants = list(catalogue())[::997]
    siblings = Siblings(variants)
    for seed in some([3, 4]):
        for kind in some(["", *KINDS, "hidden+intel"]):
            machine, alone = siblings.open(seed, kind)[0], RandomMachine(seed, kind=kind).model()
            assert (machine.name, machine.parameters) == (alone.name, alone.parameters)
            assert [machine.behaviour(one) for one in variants] == [alone.behaviour(one) for one in variants], kind


def test_only_kinds_that_change_instructions_have_a_slack_of_their_own() -> None:
    siblings = Siblings(list(catalogue())[::997])
    plain = siblings.open(3, "")[1]
    others = {kind: siblings.open(3, kind)[1] is plain for kind in KINDS}
    assert [kind for kind, same in others.items() if not same] == ["hidden", "loads"]
    assert siblings.open(4, "")[1] is not plain
