"""The harness: what it saves, runs and reads, in blobs that this CPU runs."""

import ctypes
import mmap
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iced_x86 import Decoder, Formatter, FormatterSyntax, Mnemonic, OpKind

from generator.harness import assemble_templates, assembly, native
from generator.harness.harness import ALIGNMENT, ENTRY_OFFSET, RDTSC, CounterReader, layout, render
from generator.harness.style import LOOP_REGISTERS, State, Style
from generator.microbenchmark import Line, Microbenchmark
from tests.nonempty import some

ADD_R8_1 = Line(bytes.fromhex("4983c001"), "ADD R8, 1")
STORE_R8 = Line(bytes.fromhex("4d8906"), "MOV [R14], R8")
STD = Line(b"\xfd", "STD")
BREAK_STATE = [
    Line(bytes.fromhex("31e4"), "XOR ESP, ESP"),
    Line(bytes.fromhex("31db"), "XOR EBX, EBX"),
    Line(bytes.fromhex("31ed"), "XOR EBP, EBP"),
    Line(bytes.fromhex("4d31e4"), "XOR R12, R12"),
    Line(bytes.fromhex("4d31ed"), "XOR R13, R13"),
    Line(bytes.fromhex("0f77"), "EMMS"),
    Line(bytes.fromhex("d9e8"), "FLD1"),
    Line(bytes.fromhex("410fae56f8"), "LDMXCSR [R14 - 8]"),
]


def benchmark(*body: Line, setup: tuple[Line, ...] = ()) -> Microbenchmark:
    return Microbenchmark(setup, body, "a test")


class Loaded:
    """A blob in executable memory with a context, to be called in this process (only well-behaved blobs)."""

    def __init__(self, blob: bytes) -> None:
        self.memory = mmap.mmap(-1, 1 << 20, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.context, self.area, self.code = 0, 0x4000, 0x8000
        struct.pack_into("<5Q", self.memory, 0x40, *[self.base + self.area] * 5)
        self.memory[self.code : self.code + len(blob)] = blob
        struct.pack_into("<Q", self.memory, self.code, self.base)

    def give_registers(self, value: int) -> None:
        """Give the registers that value before each iteration, and a page that serves all others."""
        struct.pack_into("<2Q", self.memory, 0x230, self.base + 0x10000, value)

    def run(self) -> None:
        ctypes.CFUNCTYPE(None)(self.base + self.code + ENTRY_OFFSET)()

    def u64(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.memory, offset)[0])


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize(("copies", "iterations"), [(0, 0), (1, 0), (110, 0), (10, 1), (110, 100), (0, 3)])
def test_every_copy_runs_in_every_iteration(copies: int, iterations: int, fenced: bool) -> None:
    bench = benchmark(ADD_R8_1, STORE_R8)
    loaded = Loaded(render(bench, copies, iterations, RDTSC, Style(fenced=fenced, clear_end=True)))
    loaded.run()
    assert loaded.u64(loaded.area) == copies * max(1, iterations)
    assert loaded.u64(0x180) > loaded.u64(0x100) > 0


@pytest.mark.parametrize("warm_up", [0, 1, 7])
def test_iterations_that_warm_up_run_but_do_not_count(warm_up: int) -> None:
    """The clock is read anew behind them, and registers are given again before each iteration."""
    bench = benchmark(
        Line(bytes.fromhex("48ff03"), "INC QWORD PTR [RBX]"),
        Line(bytes.fromhex("0f31"), "RDTSC"),
        Line(bytes.fromhex("894308"), "MOV [RBX + 8], EAX"),
        Line(bytes.fromhex("89530c"), "MOV [RBX + 12], EDX"),
    )
    counted = {}
    for iterations in (1, 5):
        loaded = Loaded(render(bench, 2, iterations, style=Style(state=State.AGAIN, warm_up=warm_up)))
        loaded.give_registers(loaded.base + loaded.area)
        loaded.run()
        assert loaded.u64(loaded.area) == 2 * (warm_up + iterations)
        assert loaded.u64(0x100) < loaded.u64(loaded.area + 8) < loaded.u64(0x180)
        counted[iterations] = loaded.u64(0x100)
    assert all(counted.values())


def test_the_clock_is_read_behind_the_iterations_that_warm_up() -> None:
    """As the first iteration's own reading shows: it is later than the start only where nothing warms up."""
    first = benchmark(
        Line(bytes.fromhex("48833b00"), "CMP QWORD PTR [RBX], 0"),
        Line(bytes.fromhex("750c"), "JNE + 12"),
        Line(bytes.fromhex("0f31"), "RDTSC"),
        Line(bytes.fromhex("48c1e220"), "SHL RDX, 32"),
        Line(bytes.fromhex("4809d0"), "OR RAX, RDX"),
        Line(bytes.fromhex("488903"), "MOV [RBX], RAX"),
    )
    for warm_up in (0, 3):
        loaded = Loaded(render(first, 1, 4, style=Style(state=State.AGAIN, warm_up=warm_up)))
        loaded.give_registers(loaded.base + loaded.area)
        loaded.run()
        assert (loaded.u64(loaded.area) > loaded.u64(0x100)) == (warm_up == 0)


def test_the_caller_survives_code_that_destroys_its_registers() -> None:
    loaded = Loaded(render(benchmark(*BREAK_STATE, STD), 3, 2))
    struct.pack_into("<I", loaded.memory, loaded.area - 8, 0x7F80)
    loaded.run()
    assert loaded.u64(0x180) > loaded.u64(0x100) > 0
    assert [x / 3 for x in range(4)] == [0, 1 / 3, 2 / 3, 1]  # rounding is to nearest again


def test_registers_are_zero_and_setup_values_reach_the_body() -> None:
    mov_rax_7 = Line(bytes.fromhex("b807000000"), "MOV EAX, 7")
    mov_edx_9 = Line(bytes.fromhex("ba09000000"), "MOV EDX, 9")
    add = Line(bytes.fromhex("4801d0"), "ADD RAX, RDX")
    add_rcx = Line(bytes.fromhex("4801c8"), "ADD RAX, RCX")
    store = Line(bytes.fromhex("498906"), "MOV [R14], RAX")
    loaded = Loaded(render(benchmark(add, add_rcx, store, setup=(mov_rax_7, mov_edx_9)), 2))
    loaded.run()
    assert loaded.u64(loaded.area) == 7 + 2 * 9


@given(
    setup=st.binary(max_size=200),
    body=st.binary(min_size=1, max_size=40),
    copies=st.integers(0, 300),
    iterations=st.integers(0, 1000),
    fenced=st.booleans(),
    counters=st.lists(st.integers(0, 15), max_size=8).map(tuple),
)
def test_the_blob_is_made_as_its_layout_says(
    *, setup: bytes, body: bytes, copies: int, iterations: int, fenced: bool, counters: tuple[int, ...]
) -> None:
    bench = benchmark(Line(body, "body"), setup=(Line(setup, "setup"),))
    arguments = (bench, copies, iterations, CounterReader(counters), Style(fenced=fenced))
    blob, shape = render(*arguments), layout(*arguments)
    assert len(blob) == shape.size
    assert shape.body_offset % ALIGNMENT == 0
    assert blob[shape.setup_offset : shape.setup_end] == setup
    assert blob[shape.body_offset :].startswith(body * copies)
    assert blob.endswith(b"\xc3")
    assert blob.count(b"\x57\x7e") <= (setup + body * copies).count(b"\x57\x7e") + 1
    literal_loads = [i for i in Decoder(64, blob[shape.body_end :], ip=shape.body_end) if i.is_ip_rel_memory_operand]
    assert [i.memory_displacement for i in literal_loads] == [0]


@given(
    body=st.binary(min_size=1, max_size=70),
    copies=st.integers(0, 300),
    offset=st.integers(0, 63),
    register=st.sampled_from([*LOOP_REGISTERS]),
)
def test_the_end_of_a_loop_touches_no_boundary_of_32_bytes(
    *, body: bytes, copies: int, offset: int, register: str
) -> None:
    style = Style(offset_bytes=offset, loop_register=register, clear_end=True)
    arguments = (benchmark(Line(body, "body")), copies, 7, RDTSC, style)
    blob, shape = render(*arguments), layout(*arguments)
    behind = shape.body_offset + len(body) * copies
    nop, counted, jump = Decoder(64, blob[behind : shape.body_end], ip=behind)
    assert [one.mnemonic for one in (nop, counted, jump)] == [Mnemonic.NOP, Mnemonic.DEC, Mnemonic.JNE]
    assert counted.ip // 32 == jump.next_ip // 32  # the byte behind it is in the same stretch, too
    assert jump.near_branch_target == shape.body_offset


def test_a_loop_with_a_fence_and_one_that_nobody_asked_to_be_clear_end_with_the_count() -> None:
    for style in (Style(), Style(fenced=True, clear_end=True)):
        arguments = (benchmark(ADD_R8_1), 3, 7, RDTSC, style)
        blob, shape = render(*arguments), layout(*arguments)
        ending = Decoder(64, blob[shape.body_offset + 3 * len(ADD_R8_1.code) : shape.body_end])
        assert [one.mnemonic for one in ending] == [Mnemonic.DEC, Mnemonic.JNE]


def test_only_the_counter_reads_differ_between_backends() -> None:
    bench = benchmark(ADD_R8_1)
    clock = [i.mnemonic for i in Decoder(64, render(bench, 1)[8:])]
    pmu = [i.mnemonic for i in Decoder(64, render(bench, 1, reader=CounterReader((0x40000001, 0, 3)))[8:])]
    reads = {Mnemonic.RDTSC, Mnemonic.RDPMC, Mnemonic.MOV, Mnemonic.NOP}
    assert [m for m in clock if m not in reads] == [m for m in pmu if m not in reads]
    assert clock.count(Mnemonic.RDTSC) == 2
    assert pmu.count(Mnemonic.RDPMC) == 6


def test_the_table_is_what_the_assembler_makes_of_the_templates() -> None:
    keystone = pytest.importorskip("keystone")
    assert keystone is not None
    assert assemble_templates.assembled_table() == assembly.TABLE.read_text(encoding="utf-8")


def test_templates_without_parameters_are_in_their_table() -> None:
    assert assemble_templates.fixed_table() == assembly.FIXED.read_text(encoding="utf-8")
    for name in some(assembly.FIXED_TEMPLATES):
        assert assembly.fixed_fragments(name) == assembly.fragments(assembly.fixed_text(name))


def test_another_disassembler_reads_the_same_in_the_table() -> None:
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    for line in some(assemble_templates.template_lines()):
        (decoded,) = list(Decoder(64, assembly.bytes_of(line)))
        assert line.startswith(formatter.format_mnemonic(decoded) + " ") or line == formatter.format_mnemonic(decoded)
        assert decoded.len == len(assembly.bytes_of(line))


def test_a_template_line_without_bytes_says_what_to_do() -> None:
    with pytest.raises(assembly.TemplateError, match=r"python -m generator\.harness\.assemble_templates"):
        assembly.bytes_of("vfrobnicate rax")
    with pytest.raises(assembly.TemplateError, match="before the first @name"):
        assembly.fragments("rdtsc")


def test_too_many_counters_and_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 16"):
        CounterReader(tuple(range(17)))
    with pytest.raises(ValueError, match="-1 copies"):
        render(benchmark(ADD_R8_1), -1)


def test_places_in_a_blob_have_names() -> None:
    shape = layout(benchmark(ADD_R8_1, setup=(STORE_R8,)), 10)
    assert shape.place_of(shape.setup_offset) == "setup"
    assert shape.place_of(shape.body_offset + 5) == "body"
    assert shape.place_of(shape.body_end) == shape.place_of(shape.setup_end) == "harness"


def test_a_clocked_blob_measures_between_calibration_and_contention_probe() -> None:
    """The three counters of the kernel module's clock; the code under test runs, and the caller survives it."""
    clocked = native.clocked(benchmark(ADD_R8_1, STORE_R8, *BREAK_STATE, STD), 5, 20, 100)
    loaded = Loaded(clocked.blob)
    struct.pack_into("<I", loaded.memory, loaded.area - 8, 0x1F80)
    struct.pack_into("<3Q", loaded.memory, 0x100, 11, 12, 13)
    loaded.run()
    assert loaded.u64(loaded.area) == 5 * 20
    assert [loaded.u64(0x100 + 8 * slot) for slot in range(3)] == [0, 0, 0]
    ticks = [loaded.u64(0x180 + 8 * slot) for slot in range(3)]
    assert all(0 < each < 1 << 40 for each in ticks)
    shape = layout(benchmark(ADD_R8_1), 1)
    for loads in (False, True):
        probed = native.clocked(benchmark(ADD_R8_1), 1, 0, 100, loads=loads).blob
        assert native.contention_probe(loads=loads)[-1000:] in probed
    alone = native.clocked(benchmark(ADD_R8_1), 1, 0, 100)
    assert alone.test_offset % ALIGNMENT == 0
    assert alone.blob[alone.test_offset + shape.body_offset :].startswith(ADD_R8_1.code)


@pytest.mark.parametrize("loads", [False, True])
def test_a_contention_probe_runs_its_adds_and_leaves_two_readings(loads: bool) -> None:
    blob = native.contention_probe(loads=loads)
    loaded = Loaded(blob)
    loaded.run()
    assert 0 < loaded.u64(0x180) - loaded.u64(0x100) < 1 << 40
    decoded = list(Decoder(64, blob[ENTRY_OFFSET:]))
    adds = [one for one in decoded if one.mnemonic == Mnemonic.ADD]
    passes = [one.immediate(1) for one in decoded if one.op1_kind == OpKind.IMMEDIATE32]
    assert passes == [assembly.PROBE_WARM_UP, assembly.PROBE_ITERATIONS]
    assert len(adds) * passes[-1] == native.PROBE_ADDS
    within = [one for one in decoded if adds[0].ip < one.ip < adds[-1].ip and one.op1_kind == OpKind.MEMORY]
    assert len(within) == (len(adds) // 2 if loads else 0)
    back = {one.ip - 1: one.near_branch_target for one in decoded if one.mnemonic == Mnemonic.JNE}
    first, last = adds[0].ip, adds[-1].ip
    assert list(back.values()) == [first, min(one.ip for one in decoded if one.mnemonic == Mnemonic.LFENCE)]
    assert min(back) > last


def test_msrs_are_read_by_rdmsr() -> None:
    blob = render(benchmark(ADD_R8_1), 1, reader=CounterReader((0xE8, 0xE7), "rdmsr"))
    reads = [i.mnemonic for i in Decoder(64, blob[8:]) if i.mnemonic in {Mnemonic.RDMSR, Mnemonic.RDPMC}]
    assert reads == [Mnemonic.RDMSR] * 4
