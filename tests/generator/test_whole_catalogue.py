"""Nothing is silently missing: every variant of the catalogue is planned, or excluded by name of a reason."""

from collections import defaultdict
from functools import cache

from generator.chains.plan import plan_latency
from generator.exclusions import excluded
from generator.factory import InstructionFactory
from generator.operands.values import kinds_of
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from generator.support.prologue import with_prologue
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.model import InstructionVariant

EVERY = 23
"""Latencies of every so many variants are planned here, for the time that all would take."""


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


def measured() -> list[InstructionVariant]:
    return [variant for variant in catalogue() if not excluded(variant, privileged=True)]


def test_every_variant_has_a_sequence_or_a_reason() -> None:
    instructions = InstructionFactory(catalogue())
    for variant in some(measured()):
        (instance,) = ThroughputFactory(instructions, variant).instances(SequenceShape(1))
        assert with_prologue(instructions, instance)


def test_every_class_has_a_whole_microbenchmark_that_decodes_to_it() -> None:
    instructions, decoder = InstructionFactory(catalogue()), Decoder(catalogue())
    first = {variant.iclass: variant for variant in reversed(measured())}
    for variant in some(first.values()):
        for kind in some(kinds_of(variant)):
            benchmark = ThroughputFactory(instructions, variant).sequence(SequenceShape(2, kind=kind, balanced=True))
            assert benchmark.divisor == 2
            offset, classes = 0, []
            while offset < len(benchmark.body_code):
                decoded = decoder.decode(benchmark.body_code, offset)
                offset += decoded.length_bytes
                classes.append(decoded.variant.iclass)
            assert classes.count(variant.iclass) >= 2, variant.string


def test_every_pair_of_operands_has_a_chain_or_a_reason() -> None:
    instructions = InstructionFactory(catalogue())
    for variant in some(measured()[::EVERY]):
        plan = plan_latency(instructions, variant)
        assert plan.reason or plan.pairs, variant.string
        assert all(pair.reason or pair.routes or pair.direct for pair in plan.pairs), variant.string


def test_reasons_are_specific() -> None:
    """A reason stands for what instructions have in common, not for whatever was left over."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for variant in catalogue():
        if reason := excluded(variant, privileged=True):
            reasons[reason].add(variant.category)
            assert len(reason.split()) >= 3, reason
            assert not {"unknown", "unsupported", "todo", "various"} & set(reason.lower().split()), reason
    assert max(map(len, reasons.values())) <= 6, reasons


def test_few_are_left_out_altogether() -> None:
    left_out = [variant.string for variant in catalogue() if excluded(variant, privileged=True)]
    assert len(left_out) < 250
    assert len(measured()) > 22_000
