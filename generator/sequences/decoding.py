"""Code for the decoders: instances among so many NOPs that no µop cache can hold the code.

    ADC RAX, RBX; NOP; NOP; ... NOP      64 bytes: all of it comes from the decoders, one µop per NOP

A µop cache has lines of a few µops, and a limit of lines per window of code. That is 18 µops per 32 bytes from Sandy
Bridge to Skylake, 36 per 64 bytes on Ice Lake, and 48 per 64 bytes on Golden Cove. NOPs of one byte exceed all of them,
at any number of copies. Source of the limits: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter
2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.microbenchmark import Microbenchmark, code_bytes
from generator.operands.effects import MOVING_CATEGORIES
from generator.operands.values import kinds_of, values_of
from generator.sequences.throughput import SequenceShape, setup_of, stack_bytes
from generator.support.prologue import prologue_and_epilogue, with_prologue
from results.model import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from generator.microbenchmark import Line
    from generator.sequences.throughput import ThroughputFactory
    from xed_convert.model import Instance

LINE_BYTES = 64
"""One instance in so many bytes leaves no window of a µop cache with few µops."""

INSTANCES = 4
"""Instances among NOPs when decoders are timed: one alone would wait for its own result."""

DENSE = 3, 4
"""µops per byte, as a fraction, that exceed what any µop cache holds."""


def counted(factory: ThroughputFactory, form: Form) -> tuple[Microbenchmark, int]:
    """Return an instance and NOPs in 64 bytes, and how many NOPs there are.

    Raises:
        AllocationError: there are not enough registers for one instance.
        EncodingError: the instance cannot be encoded.
    """
    (instance,) = _instances(factory, form, 1)
    lines = with_prologue(factory.instructions, instance)
    nops = max(1, LINE_BYTES - code_bytes(lines))
    body = [*lines, *_nops(factory.instructions, nops)]
    purpose = f"decoding of {factory.variant.string}: an instance and {nops} NOPs in {LINE_BYTES} bytes{_words(form)}"
    return _benchmark(factory, [instance], body, purpose, 1), nops


def prologue_counted(factory: ThroughputFactory) -> tuple[Microbenchmark, int]:
    """Return the prologue and epilogue of an instance and NOPs, in 64 bytes, and how many NOPs there are.

    Raises:
        AllocationError: there are not enough registers for one instance.
    """
    (instance,) = _instances(factory, Form.PLAIN, 1)
    lines = prologue_and_epilogue(factory.instructions, instance)
    nops = max(1, LINE_BYTES - code_bytes(lines))
    body = [*lines, *_nops(factory.instructions, nops)]
    purpose = f"what stands beside {factory.variant.string}, alone, and {nops} NOPs in {LINE_BYTES} bytes"
    return _benchmark(factory, [instance], body, purpose, 1), nops


def grouped(factory: ThroughputFactory, form: Form, nops: int) -> Microbenchmark:
    """Return independent instances, each followed by `nops` NOPs; `divisor` is how many instances.

    Raises:
        AllocationError: there are not enough registers for one instance.
        EncodingError: an instance cannot be encoded.
    """
    instances = _instances(factory, form, INSTANCES)
    body: list[Line] = []
    for instance in instances:
        body += [*with_prologue(factory.instructions, instance), *_nops(factory.instructions, nops)]
    purpose = f"decoders of {factory.variant.string}: {len(instances)} instances, each with {nops} NOPs{_words(form)}"
    return _benchmark(factory, instances, body, purpose, len(instances))


def fenced(factory: ThroughputFactory, form: Form) -> Microbenchmark:
    """Return one instance that begins when all before it is done, and is done before anything after it begins.

    Raises:
        AllocationError: there are not enough registers for one instance.
        EncodingError: the instance cannot be encoded.
    """
    (instance,) = _instances(factory, form, 1)
    body = [factory.instructions.line("LFENCE"), *with_prologue(factory.instructions, instance)]
    return _benchmark(factory, [instance], body, f"{factory.variant.string} between LFENCEs{_words(form)}", 1)


def fenced_chain(instructions: InstructionFactory, links: int) -> Microbenchmark:
    """Return a chain of `links` instructions between LFENCEs."""
    body = (instructions.line("LFENCE"), *_chain(instructions, links))
    return Microbenchmark((), body, f"a chain of {links} IMUL between LFENCEs", 1)


def slow_chains(instructions: InstructionFactory, links: int, nops: int) -> Microbenchmark:
    """Return chains that any decoder takes, each with `nops` NOPs: they last as long as instances of `grouped`."""
    body = [*_chain(instructions, links), *_nops(instructions, nops)] * INSTANCES
    purpose = f"{INSTANCES} chains of {links} IMUL, each with {nops} NOPs"
    return Microbenchmark((), tuple(body), purpose, INSTANCES)


def _chain(instructions: InstructionFactory, links: int) -> list[Line]:
    """Return a chain that does not depend on what was before it."""
    begin = instructions.line("MOV (R32, I32)", "EAX", 1)
    return [begin, *[instructions.line("IMUL (R64, R64)", "RAX", "RAX")] * links]


def nops_alone(instructions: InstructionFactory) -> Microbenchmark:
    """Return NOPs of one byte each; `divisor` is how many."""
    return Microbenchmark((), tuple(_nops(instructions, LINE_BYTES)), "NOPs, each of one byte", LINE_BYTES)


def least_nops(factory: ThroughputFactory, form: Form) -> int:
    """Return after how many NOPs each instance has to be, so that no µop cache holds the code.

    Raises:
        AllocationError: there are not enough registers for one instance.
        EncodingError: an instance cannot be encoded.
    """
    most = max(code_bytes(with_prologue(factory.instructions, one)) for one in _instances(factory, form, INSTANCES))
    part, whole = DENSE
    # A window of 64 bytes may hold one instance more than its share
    return -(-most * part // (whole - part)) + most


def moves_addresses(factory: ThroughputFactory) -> bool:
    """Whether instances move the stack pointer or the address of a string, which a loop around them would undo."""
    return bool(stack_bytes(factory.variant)) or factory.variant.category in MOVING_CATEGORIES


def _instances(factory: ThroughputFactory, form: Form, count: int) -> list[Instance]:
    return factory.instances(SequenceShape(count, form=form))


def _nops(instructions: InstructionFactory, count: int) -> list[Line]:
    return [instructions.line("NOP")] * count


def _words(form: Form) -> str:
    return f" ({form.words})" if form is not Form.PLAIN else ""


def _benchmark(
    factory: ThroughputFactory, instances: Sequence[Instance], body: Sequence[Line], purpose: str, divisor: int
) -> Microbenchmark:
    values = values_of(factory.variant, kinds_of(factory.variant)[-1])
    setup = setup_of(factory.instructions, instances, values)
    return Microbenchmark(setup, tuple(body), purpose, divisor, factory.variant.cpl == 0)
