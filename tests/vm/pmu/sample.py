"""Variants to be characterized in the guest: those that the model knows and that TCG executes, evenly distributed."""

from simulator.machines.machine import MachineModel
from simulator.machines.shipped import load_machine
from xed_convert.catalogue.catalogue import Catalogue

ISA_SETS = {"I86", "I386", "I486", "SSE", "SSE2", "SSE3", "SSSE3", "SSE4", "SSE42", "AVX", "AVX2", "BMI1", "BMI2"}
LEFT_OUT = {"DIV", "IDIV", "CPUID", "IN", "OUT", "CLI", "STI"}
"""Slow, or not the same on the simulated core: it has no interrupts, and the module refuses code that turns them on."""

WITH_PREFIX = ("JMP (R64)", "CALL_NEAR (R64)", "RET_NEAR", "LEAVE")
"""What goes where registers or the stack say: with what has to stand before it, it must come back in ring 0, too."""


def sample(core: str, count: int) -> tuple[str, ...]:
    """Return the strings of so many variants, those `WITH_PREFIX` and others without memory, evenly distributed."""
    model = load_machine(core)
    suitable = []
    for variant in Catalogue.load():
        if variant.isa_set not in ISA_SETS or variant.cpl != 3 or variant.iclass in LEFT_OUT:
            continue
        if any(operand.memory for operand in variant.operands) or not _has_ports(model, variant):
            continue
        suitable.append(variant.string)
    step = max(1, len(suitable) // count)
    return (*WITH_PREFIX, *(string for string in suitable[::step] if string not in WITH_PREFIX))[:count]


def _has_ports(model: MachineModel, variant: object) -> bool:
    try:
        truth = model.truth(variant)  # type: ignore[arg-type] # it is a variant
    except Exception:  # noqa: BLE001 - whatever the reason, the model does not know it
        return False
    return bool(truth.ports and truth.ports.uops)
