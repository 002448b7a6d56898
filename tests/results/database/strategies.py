"""Random database entries, for the laws of reader, writer, rules and comparison."""

from __future__ import annotations

from hypothesis import strategies as st

from results.database.reader import Analysis, ArchitectureResult, Entry, LatencyRow
from results.model import PORT_LETTERS, PortUsage
from xed_convert.model import InstructionVariant, Operand, OperandKind

two_decimals = st.integers(1, 99_999).map(lambda hundredths: f"{hundredths / 100:.2f}")
counts = st.integers(0, 200).map(str)
ports = st.dictionaries(st.frozensets(st.sampled_from(PORT_LETTERS), min_size=1), st.integers(1, 9), min_size=1)


@st.composite
def measurements(draw: st.DrawFn) -> dict[str, str]:
    times = sorted((draw(two_decimals) for _ in range(3)), key=float)
    values = dict(zip(("TP_ports", "TP_loop", "TP_unrolled"), times, strict=True))
    values |= {"uops": draw(counts), "ports": str(PortUsage(draw(ports)))}
    extra = st.dictionaries(st.sampled_from(["uops_MITE", "uops_MS", "div_cycles", "uops_retire_slots"]), counts)
    return values | draw(extra)


@st.composite
def latency_rows(draw: st.DrawFn) -> tuple[LatencyRow, ...]:
    pairs = draw(st.sets(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=9))
    return tuple(
        LatencyRow(start, target, draw(st.sampled_from(["cycles", "max_cycles", "cycles_addr"]).flatmap(_values)))
        for start, target in sorted(pairs)
    )


def _values(name: str) -> st.SearchStrategy[dict[str, str]]:
    bound = st.sampled_from([{}, {f"{name}_is_upper_bound": "1"}])
    return st.builds(lambda cycles, flag: {name: cycles, **flag}, counts, bound)


@st.composite
def results(draw: st.DrawFn, name: str) -> ArchitectureResult:
    analyses = draw(st.sampled_from([(), (Analysis("LLVM", {"version": "19", "TP": "1.00"}),)]))
    return ArchitectureResult(name, draw(measurements()), draw(latency_rows()), analyses=analyses)


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    """Return entries with unique strings, sorted as they are written."""
    names = draw(st.lists(st.text("ABCDEFG", min_size=1, max_size=4), unique=True, max_size=6))
    found = []
    for name in sorted(names):
        architectures = draw(st.sets(st.sampled_from(["SKL", "HSW", "ZEN5"])))
        found.append(Entry(variant(name), {arch: draw(results(arch)) for arch in sorted(architectures)}))
    return found


def variant(name: str, extension: str = "BASE") -> InstructionVariant:
    operands = tuple(
        Operand(index, OperandKind.REGISTER, f"REG{index - 1}", read=True, width_bits=64, registers=("RAX", "RBX"))
        for index in (1, 2, 3)
    )
    return InstructionVariant(
        iform=f"{name}_GPRv_GPRv",
        string=f"{name} (R64, R64)",
        asm=name,
        iclass=name,
        category="BINARY",
        extension=extension,
        isa_set="I86",
        cpl=3,
        attributes={"eosz": "3"},
        operands=operands,
    )
