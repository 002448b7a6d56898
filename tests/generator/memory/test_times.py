"""The cases of loads and stores: what they do to memory, and that all are different."""

import pytest

from generator.factory import InstructionFactory
from generator.memory.accesses import accesses_of
from generator.memory.times import TimesCase, TimingCode
from results.memory.model import RENAMED
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import InstructionVariant


@pytest.fixture(scope="module")
def cases() -> list[TimesCase]:
    instructions = InstructionFactory(Catalogue.load())
    return list(TimingCode(instructions, lambda _: "").cases(accesses_of(instructions, lambda _: "")))


def test_every_case_has_its_own_name_and_code(cases: list[TimesCase]) -> None:
    assert len({(case.kind, case.parameters) for case in some(cases, 120)}) == len(cases)
    codes = {case.benchmark.id for case in cases}
    # Plain loads stand among addresses and among sizes; a store of 64 bytes is a line apart in any case
    assert len(cases) - len(codes) <= 4


def test_latencies_are_chains_through_the_loaded_register(cases: list[TimesCase]) -> None:
    for case in some([case for case in cases if case.kind == "load latency"], 20):
        load = case.benchmark.body[-1].text
        target, _, source = load.partition(", ")
        assert "AX" in target.partition(" ")[2] or target.endswith("AL")
        assert "RAX" in source


def test_a_throughput_has_as_many_instances_as_it_is_divided_by(cases: list[TimesCase]) -> None:
    for case in some([case for case in cases if "throughput" in case.kind], 60):
        assert len(case.benchmark.body) == case.divisor == case.benchmark.divisor


def test_what_a_cpu_lacks_is_left_out() -> None:
    instructions = InstructionFactory(Catalogue.load())

    def lacks(variant: InstructionVariant) -> str:
        return "old" if variant.extension.startswith("AVX") or variant.extension.startswith("CL") else ""

    known = accesses_of(instructions, lacks)
    found = list(TimingCode(instructions, lacks).cases(known))
    kinds = {case.kind for case in found}
    assert kinds.isdisjoint({"gather", "scatter"})
    texts = [line.text for case in some(found, 60) for line in case.benchmark.body]
    assert [text for text in some(texts, 500) if text.startswith("V") or "ZMM" in text] == []


def test_flushes_say_that_their_line_is_always_the_same(cases: list[TimesCase]) -> None:
    flushes = [case for case in cases if case.kind == "flush"]
    for case in some(flushes, 4):
        lines = {line.text.partition("[")[2].partition("]")[0] for line in case.benchmark.body}
        assert len(lines) == 1
        assert dict(case.parameters)["line"] in RENAMED.values()
