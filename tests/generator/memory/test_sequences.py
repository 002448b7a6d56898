"""The language of access sequences, and their code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.factory import InstructionFactory
from generator.memory.sequences import AccessStep, SequenceCode, SequenceError, SetLines, of_numbers, parse, text_of
from xed_convert.catalogue.catalogue import Catalogue

steps = st.lists(
    st.builds(AccessStep, st.sampled_from(["A", "B", "L12", "x_1"]), st.booleans())
    | st.builds(AccessStep, st.just("C"), flush=st.just(True)),
    min_size=1,
    max_size=20,
)


@given(steps)
def test_what_was_written_is_read_back(found: list[AccessStep]) -> None:
    assert parse(text_of(found)) == tuple(found)


def test_repetitions_are_written_out() -> None:
    assert text_of(parse("A 2*(B 2*(C?)) D!")) == "A B C? C? B C? C? D!"
    assert text_of(of_numbers([0, 10])) == "L0 L10"
    assert parse("0*(A) B") == (AccessStep("B"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no access"),
        ("A ; B", "unexpected ' ;"),
        ("2*(A", "not closed"),
        ("A) B", "unexpected"),
        ("A?!", "unexpected"),
        ("999999999*(A)", "more than 1000"),
        ("900*(A) 200*(B)", "more than 1000"),
        ("0*(A)", "no access"),
    ],
)
def test_a_wrong_sequence_is_refused(text: str, said: str) -> None:
    with pytest.raises(SequenceError, match=said.replace(")", r"\)")):
        parse(text)


def test_the_code_is_a_chain_of_loads_of_one_set() -> None:
    code = SequenceCode(InstructionFactory(Catalogue.load()), SetLines(4096, 64))
    made = code.chain(parse("A B A? C!"))
    assert [line.text for line in made.body] == [
        "MOV RAX, qword ptr [R14+RAX+0x40]",
        "MOV RAX, qword ptr [R14+RAX+0x1040]",
        "MOV RAX, qword ptr [R14+RAX+0x40]",
        "CLFLUSH zmmword ptr [R14+RAX+0x2040]",
        "MFENCE",
    ]
    assert len(made.setup) == 3


def test_each_access_to_a_second_level_is_followed_by_evictors() -> None:
    where = SetLines(1 << 18, 1 << 20, evictors=4)
    made = SequenceCode(InstructionFactory(Catalogue.load()), where).chain(parse("A B"))
    assert len(made.body) == 2 * 5
    assert len({place.displacement % 4096 for place in [where.place(1), *where.evicting()]}) == 1
    assert len({line.text for line in made.body}) == 2 + 4
