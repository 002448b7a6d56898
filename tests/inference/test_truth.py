"""Inference finds again what simulated machines were made of; it sees nothing of them but a backend's counters."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import permutations, product

import pytest

from generator.factory import InstructionFactory
from inference.calibration import find_width
from inference.characterizer import Characterizer
from results.campaign import codec
from results.database import xml
from results.findings import Indistinguishable, NoPorts, OnlyBounds, TooManyUsages
from results.model import Characterization, Form, PortUsage
from results.ports import confined, renamed
from results.sentences import failure, lines
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from runner.verification.indistinguishable import are_alike, named
from runner.verification.judge import visible_ports
from runner.verification.run import chosen, port_names, run
from simulator.judging.ports import nearest, with_usage
from tests.inference.simulated import candidates, catalogue, characterized, context

SEEDS = range(201, 211)
VARIANTS_PER_SEED = 12


@pytest.mark.parametrize(
    ("machine", "string", "ports"),
    [
        ("HSW", "ADC_11 (R64, R64)", "1*p0156+1*p06"),
        ("SKL", "ADC_13 (R32, R32)", "1*p06"),
        ("SNB", "ADC_11 (R64, R64)", "1*p015+1*p05"),
        ("SKL", "BSWAP (R32)", "1*p15"),
        ("SKL", "BSWAP (R64)", "1*p06+1*p15"),
        ("SKL", "MOVQ2DQ (XMM, MM)", "1*p015+1*p0"),
        ("HSW", "MOVDQ2Q (MM, XMM)", "1*p015+1*p5"),
        ("HSW", "SAHF", "1*p06"),
        ("SKL", "CPUID", "5*p0156+1*p06+1*p5+1*p6"),
        ("SKX", "VCVTPS2PD (ZMM, K, YMM)", "2*p05"),
        ("ADL-P", "FSTP (ST, ST0, ST(0))", "1*p0156"),
        # Five µops, of which the core issues five per cycle: that no port needs as long says nothing of ports
        ("ICX", "RCL (M16, 0)", "2*p0156+1*p06+1*p23+1*p78"),
        ("ICX", "XADD (M32, R32)", "2*p0156+1*p23+1*p49+1*p78"),
        # Two instructions block a set together, and what strays onto the ports of the one that is done first is not its
        ("random:38", "VFMSUBADD213PD (YMM, YMM, YMM)", "2*p013+1*p0"),
        ("SKX", "VZEROALL", "4*p05+1*p1+5*p6"),  # in such code only two instructions can block p05
        (
            "SKX",
            "VPCONFLICTD (ZMM, M512)",
            "7*p015+11*p01+1*p23+17*p5",
        ),  # one strays until there are more blocking ones
        ("NHM", "PBLENDVB (XMM, XMM)", "2*p05"),
        ("SKL", "VHADDPD (XMM, XMM, XMM)", "1*p01+2*p5"),
        ("SKL", "VMINPS (XMM, XMM, XMM)", "1*p01"),
        ("SNB", "LFENCE", "1*p23+1*p4"),
        ("SNB", "FLD (ST0, ST(0), M32)", "1*p01+1*p23+1*p5"),  # blocked by two that need many registers, one a chain
        ("SNB", "FXRSTOR (M4096)", "1*p01+1*p23+1*p4+2*p5"),
        ("ADL-P", "RDTSCP", "1*p015+2*p056+2*p01+7*p06+2*p0+4*p1+3*p5"),  # nothing else has p056
        # By time, since six µops are issued per cycle, and by counters as far as ports have their own
        ("ADL-P", "FXCH (ST0, ST(0), ST)", "4*p0156+2*p05+2*p0+1*p1+2*p5+4*p6"),
        ("ADL-P", "FNINIT", "6*p0156+3*p05+6*p5"),  # p0156 is kept busy evenly by p06 and p15, not by p6 and p015
        # Each of eight instances waits for itself in the copy before, as long as two load ports would take
        ("SPR", "VMOVDQU8 (YMM, K, M256)", "1*p015+1*p23B"),
        ("SPR", "VPMULLW (XMM, K, XMM, M128)", "1*p23B+1*p01"),
    ],
)
def test_examples_of_the_paper_and_others(machine: str, string: str, ports: str) -> None:
    found = characterized(machine, string)
    assert str(found.ports) == ports, found.failures


@pytest.mark.parametrize("string", ["VDIVPH (XMM, XMM, M128)", "VSQRTPD (ZMM, M512)"])
def test_what_is_executed_in_bursts_is_not_faster_unrolled_than_it_can_be(string: str) -> None:
    found = characterized("SPR", string)
    for throughput in (found.throughput, found.of(Form.INDEXED).throughput):
        assert throughput is not None
        assert throughput.unrolled is not None
        assert abs(throughput.unrolled - 2) <= Fraction(2, 50)


@pytest.mark.parametrize(
    ("machine", "string", "most"),
    [
        ("HSW", "VFMADD213PS (XMM, XMM, XMM)", "0.5"),  # latency 5 on two ports, among fourteen registers
        ("SPR", "VDIVPH (XMM, K, XMM, M128)", "2"),  # latency 32, merged into the old value
        ("SPR", "VPMULLQ (YMM, K, YMM, M256)", "1.5"),
        ("HSW", "LSL (R32, R32)", "1.1"),  # 100 cycles, as often as the reorder buffer has room
    ],
)
def test_throughput_is_not_that_of_chains_through_own_registers(machine: str, string: str, most: str) -> None:
    throughput = characterized(machine, string).throughput
    for cycles in (throughput.unrolled, throughput.loop):
        assert cycles is not None
        assert cycles <= Fraction(most) * Fraction(51, 50)


@pytest.mark.parametrize("string", ["JMP (M64)", "CALL_NEAR (R64)", "RET_NEAR", "LEAVE"])
def test_what_stands_around_an_instruction_is_not_counted_with_it(string: str) -> None:
    found = characterized("HSW", string)
    assert found.ports == open_machine("HSW").truth(catalogue().by_string(string)).ports, found.failures
    assert found.ports is not None
    assert found.uops == found.attributes["uops_issued"] == found.ports.total


def test_what_loads_does_not_use_a_port_of_stores_on_which_it_never_ran() -> None:
    """Stores do not keep their ports busy, so they may have fewer; but port 2 is beyond what a load was seen on."""
    found = characterized("random:small:5112", "VFIXUPIMMPS (ZMM, ZMM, M512, I8)")
    assert found.ports == PortUsage.parse("1*p367+1*p04")


def test_of_usages_with_what_stands_around_an_instruction_those_without_its_uops_are_ruled_out() -> None:
    """The count is set before every repeated instruction: one of the usages of both does not have that µop."""
    found = characterized("random:hidden:3001", "MOVSQ_REPNE")
    assert found.ports == open_machine("random:hidden:3001").truth(catalogue().by_string("MOVSQ_REPNE")).ports


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("random:counters:2", "MOV (M64, R64)"),  # the address port shares a counter with two that compute
        ("random:counters:2", "ADD (M64, R64)"),
        ("random:counters:1", "PUSH (R64)"),  # one of two data ports does
    ],
)
def test_of_stores_nothing_wrong_is_stated_where_their_ports_share_a_counter(machine: str, string: str) -> None:
    found, model = characterized(machine, string), open_machine(machine)
    truth = model.truth(catalogue().by_string(string)).ports
    stated = [found.ports] if found.ports else named(found.failures, Form.PLAIN)
    groups = model.parameters.shared_counters  # nothing tells which of a counter's ports is which
    orders = [
        dict(zip("".join(groups), "".join(map("".join, names)), strict=True))
        for names in product(*map(permutations, groups))
    ]
    assert not is_complete(found) or truth in [renamed(usage, names) for usage in stated for names in orders]


def test_all_code_names_ports_with_a_shared_counter_alike_whatever_is_measured_with_it() -> None:
    """Each variant is measured by itself, as `characterize` does with one; both use p0, counted together with p1."""
    backend = SimBackend(open_machine("SKX").with_parameters(shared_counters=("01",)), catalogue())
    characterizer = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    ports = set()
    for string in ("PMOVMSKB (R32, XMM)", "VPMOVMSKB (R32, XMM)"):
        session, variant = Session(Measurer(backend)), catalogue().by_string(string)
        known = session.run_one(characterizer.prepare([variant]))
        ports.add(str(session.run_one(characterizer.characterize(variant, known)).ports))
    assert ports == {"1*p0"}


def test_what_no_experiment_tells_apart_is_stated_as_such() -> None:
    found = characterized("ADL-P", "FST (M32, ST0, ST(0))")  # ports 4 and 9 share a counter
    assert found.ports is None
    assert any("several port usages fit: " in text for text in map(failure, found.failures))
    truth = open_machine("ADL-P").truth(catalogue().by_string("FST (M32, ST0, ST(0))"))
    assert truth.ports in named(found.failures, Form.PLAIN)


@pytest.mark.parametrize(("machine", "width"), [("HSW", 4), ("ICX", 5), ("ADL-P", 6), ("random:2", 4), ("random:5", 5)])
def test_the_issue_width_is_measured(machine: str, width: int) -> None:
    model = open_machine(machine)
    session = Session(Measurer(SimBackend(model, catalogue())))
    assert session.run_one(find_width(InstructionFactory(catalogue()))) == model.parameters.issue_width == width


def test_idle_cycles_are_not_taken_for_uops_where_ports_share_a_counter() -> None:
    found = characterized("random:60", "RCL_R4 (R8l, 0)")
    truth = open_machine("random:60").truth(catalogue().by_string("RCL_R4 (R8l, 0)")).ports
    assert truth in ([found.ports] if found.ports else named(found.failures, Form.PLAIN))


def is_complete(found: Characterization) -> bool:
    """Return whether a usage is stated, or all usages are named that are left."""
    reasons = [one.why for one in found.failures if isinstance(one, NoPorts)]
    return not any(
        isinstance(why, TooManyUsages) or (isinstance(why, Indistinguishable) and why.others) for why in reasons
    )


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("SPR", "XRSTOR (M4608)"),  # its 22 loads take the time of 21 on two of the three ports that share a counter
        ("ADL-P", "FLD (ST0, ST(0), M32)"),  # two per cycle, which three loads per cycle would allow, too
        # Nothing blocks one of two ports with a shared counter beside those that the other µops use
        ("random:81", "VPMOVUSQB (M32, YMM)"),
        ("random:195", "VPABSQ (YMM, YMM)"),
        ("random:195", "PSRLW (MM, M64)"),
        ("random:212", "ADD (M64, R64)"),
    ],
)
def test_of_what_evidence_leaves_the_true_usage_is_named(machine: str, string: str) -> None:
    found = characterized(machine, string)
    truth = open_machine(machine).truth(catalogue().by_string(string)).ports
    assert truth in ([found.ports] if found.ports else named(found.failures, Form.PLAIN))


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("BDW", "POPFQ"),  # two of 16 µops of p0156 stray onto p015 however often it is blocked
        ("HSW", "XRSTOR (M4608)"),
    ],
)
def test_what_is_too_much_to_list_is_said_to_be(machine: str, string: str) -> None:
    found = characterized(machine, string)
    (why,) = [one.why for one in found.failures if isinstance(one, NoPorts)]
    assert found.ports is None
    assert isinstance(why, TooManyUsages)


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("ADL-P", "STOSQ"),  # nothing blocks p056A, so that one of its µops may not be able to use p1
        ("SPR", "LODSB"),
        ("ADL-P", "CMPXCHG8B (M64)"),
        ("SPR", "WRPKRU"),
        ("random:114", "VPMOVDB (M64, K, YMM)"),  # nothing blocks p126
        ("random:1", "STR (R16)"),  # a set as wide as the core issues never queues up
        ("HSW", "DIV (R64)"),  # of p015 and other sets only bounds are known
        ("SKL", "DIV (R64)"),
        ("SPR", "LAR (R32, R32)"),
    ],
)
def test_nothing_is_stated_where_another_usage_agrees_with_every_measurement(machine: str, string: str) -> None:
    found = characterized(machine, string)
    truth = open_machine(machine).truth(catalogue().by_string(string)).ports
    (why,) = [one.why for one in found.failures if isinstance(one, NoPorts)]
    assert found.ports is None
    assert isinstance(why, Indistinguishable)
    assert truth in why.usages


@pytest.mark.parametrize("machine", ["HSW", "ICX"])
def test_of_very_long_microcode_only_bounds_are_told_and_they_hold(machine: str) -> None:
    """That one of IDIV's µops cannot use p6 makes no difference in any experiment, so nothing can tell it."""
    found = characterized(machine, "IDIV (R64)")
    truth = open_machine(machine).truth(catalogue().by_string("IDIV (R64)")).ports
    assert found.ports is None
    (why,) = [one.why for one in found.failures if isinstance(one, NoPorts)]
    assert isinstance(why, OnlyBounds)
    bounds = {one.ports: one.uops for one in why.bounds}
    assert len(bounds) >= len(["p0", "p1", "p5", "p6", "p01", "p06", "p15", "p015"])
    assert all(confined(truth, ports) <= most for ports, most in bounds.items())
    assert is_alike(machine, "IDIV (R64)", "33*p0156+1*p015+14*p06+4*p0+2*p1+4*p5+8*p6")


def is_alike(name: str, string: str, ports: str) -> bool:
    machine, variant = open_machine(name), catalogue().by_string(string)
    blocking = context(name, variant).blocking
    other = with_usage(machine, variant, PortUsage.parse(ports))
    assert other is not None
    return are_alike(machine, other, catalogue(), variant, blocking)


def test_loads_that_are_a_little_uneven_do_not_make_a_novel_set_true() -> None:
    found = characterized("random:213", "VFNMADD132PD_Z (YMM, K, YMM, M256)")  # p3 and p4 share a counter
    assert PortUsage.parse("2*p03+1*p1") in ([found.ports] if found.ports else named(found.failures, Form.PLAIN))


@pytest.mark.parametrize(
    ("string", "ports", "alike"),
    [
        ("FISTTP (M64, ST0, ST(0))", ("237", "49", "5"), True),  # LLVM says p4 for p49, which share a counter
        ("FISTTP (M64, ST0, ST(0))", ("237", "49", "15"), False),
    ],
)
def test_another_machine_proves_what_cannot_be_told(string: str, ports: tuple[str, ...], alike: bool) -> None:
    assert is_alike("ADL-P", string, "+".join(f"1*p{one}" for one in ports)) is alike


@pytest.mark.parametrize(
    ("string", "column"),
    [
        ("IDIV (R64)", "ports_proved"),
        ("PCMPESTRM (XMM, XMM, I8)", "ports_unstated"),  # a set is idle for too long, but experiments differ
    ],
)
def test_what_another_machine_proves_counts_as_proved(string: str, column: str) -> None:
    report = run(
        open_machine("HSW"), catalogue(), [catalogue().by_string(string)], thorough=False, candidates=candidates()
    )
    assert {name: n for name, n in report.counts.items() if name.startswith("ports_")} == {column: 1}
    (line,) = [line for line in report.exceptions if f"\t{column}\t" in line]
    assert ("the same in every measurement: 33*p0156+1*p015+" in line) is (column == "ports_proved")


def test_the_nearest_usages_come_first() -> None:
    true = PortUsage.parse("3*p0156+1*p0")
    left = [PortUsage.parse(text) for text in ("1*p0156+2*p015+1*p0", "3*p0156+1*p0", "2*p0156+1*p015+1*p0", "5*p5")]
    found = nearest(true, left, [frozenset(ports) for ports in ("0", "06", "015", "0156", "23")])
    assert [str(usage) for usage in found] == [
        str(PortUsage.parse(text))
        for text in ("2*p0156+1*p015+1*p0", "1*p0156+2*p015+1*p0", "2*p0156+1*p06+1*p0", "2*p0156+2*p0")
    ]


def test_adc_on_haswell_looks_like_half_a_uop_on_each_of_four_ports() -> None:
    derivation = next(d for d in characterized("HSW", "ADC_11 (R64, R64)").derivations if d.quantity == "ports")
    assert lines(derivation)[0].startswith("alone: p0 0.50, p1 0.50, p5 0.50, p6 0.50")


def test_the_explanation_of_ports_says_what_kept_which_ports_busy() -> None:
    derivation = next(d for d in characterized("HSW", "ADC_11 (R64, R64)").derivations if d.quantity == "ports")
    assert "with p06 kept busy by 10 x ROR (R64, 0): 11 µops on p06 - 10 = 1" in lines(derivation)


def test_the_same_register_can_use_other_ports() -> None:
    found = characterized("SKL", "SHLD_IMMB (R64, R64, I8)")
    assert (str(found.ports), str(found.of(Form.SAME_REGISTER).ports)) == ("1*p1", "1*p06")


@pytest.mark.parametrize("string", ["ADC_11 (R64, R64)", "SBB_1B (R64, R64)", "ADCX (R64, R64)"])
def test_the_same_register_is_as_fast_unrolled_as_its_ports_allow(string: str) -> None:
    """Instances wait for the flags, in either form; breakers help in either."""
    throughput = characterized("SKL", string).of(Form.SAME_REGISTER).throughput
    assert throughput.unrolled is not None
    assert throughput.ports is not None
    assert throughput.unrolled <= throughput.ports * Fraction(11, 10)


@pytest.mark.parametrize(
    ("machine", "string", "percent"),
    [
        ("random:3", "MOV_8B (R32, R32)", 50),
        ("random:8", "MOV_89 (R64, R64)", 67),
        ("HSW", "MOV_89 (R64, R64)", 100),
        ("HSW", "NOP", None),
        ("HSW", "MOVSX (R64, R8l)", None),
    ],
)
def test_the_share_of_eliminated_moves_reaches_the_database(machine: str, string: str, percent: int | None) -> None:
    truth = open_machine(machine).truth(catalogue().by_string(string))
    assert round(truth.eliminated_share * 100) == (percent or 0)
    found = characterized(machine, string)
    stored = codec.decode_characterization(json.loads(json.dumps(codec.encode_characterization(found))))
    assert xml.measurement_attributes(stored).get("eliminated_percent") == (str(percent) if percent else None)
    explained = [lines(one) for one in stored.derivations if one.quantity == "eliminated_percent"]
    assert len(explained) == (percent is not None)


@pytest.mark.parametrize(
    ("machine", "string"),
    [("HSW", "MOV (M64, R64)"), ("HSW", "PUSH (M64)"), ("HSW", "ADD (R64, M64)")],
)
def test_an_index_in_the_address_can_use_other_ports(machine: str, string: str) -> None:
    """On Haswell port 7 forms no store addresses with an index; what PUSH stores has none, whatever it loads."""
    truth = open_machine(machine).truth(catalogue().by_string(string))
    found = characterized(machine, string)
    assert found.ports == truth.ports
    assert found.of(Form.INDEXED).ports == (truth.ports_indexed if truth.ports_indexed != truth.ports else None)
    assert found.of(Form.INDEXED).throughput is not None
    assert found.of(Form.INDEXED).throughput.unrolled is not None
    assert found.of(Form.INDEXED).throughput.loop is not None


def test_the_model_knows_which_stores_have_an_index() -> None:
    usages = {
        string: str(open_machine("HSW").truth(catalogue().by_string(string)).ports_indexed)
        for string in ("MOV (M64, R64)", "PUSH (M64)", "PUSH (R64)")
    }
    assert usages == {
        "MOV (M64, R64)": "1*p23+1*p4",
        "PUSH (M64)": "1*p0156+1*p237+1*p23+1*p4",
        "PUSH (R64)": "1*p0156+1*p237+1*p4",
    }


def test_measured_and_computed_throughput_agree() -> None:
    throughput = characterized("SKL", "BSWAP (R64)").throughput
    assert throughput.ports is not None
    assert throughput.unrolled is not None
    assert abs(throughput.unrolled - throughput.ports) <= throughput.ports / 50
    spreads = (throughput.unrolled_spread, throughput.loop_spread)
    assert spreads == (Fraction(0), Fraction(0))  # stated, and this machine has no noise


@pytest.mark.parametrize(
    ("machine", "string"),
    [
        ("ADL-P", "ADOX (R32, R32)"),  # a loop around one copy takes longer by more than its jump
        ("ADL-P", "PTWRITE (M32)"),  # it takes 100 cycles and fills the reorder buffer, in periods longer than a window
        ("random:223", "SETNBE (R8l)"),
    ],
)
def test_nothing_is_faster_than_its_ports_allow(machine: str, string: str) -> None:
    found = characterized(machine, string)
    truth = open_machine(machine).truth(catalogue().by_string(string)).throughput
    for cycles in (found.throughput.unrolled, found.throughput.loop):
        assert cycles is not None
        assert truth * Fraction(98, 100) <= cycles <= truth * Fraction(103, 100)
    assert any("its ports need" in line for derivation in found.derivations for line in lines(derivation))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_wrong_is_said_about_machines_drawn_at_random(seed: int) -> None:
    name = f"random:{seed}"
    machine = open_machine(name)
    variants = chosen(catalogue(), machine, ["BASE", "SSE2", "AVX"], 1)
    few = variants[:: max(1, len(variants) // VARIANTS_PER_SEED)]
    found = [(variant, characterized(name, variant.string)) for variant in few]
    names = port_names(machine, found)
    stated = {variant.string: str(renamed(one.ports, names)) for variant, one in found if one.ports is not None}
    true = {variant.string: str(visible_ports(machine.truth(variant))) for variant in few}
    # Many sets of these machines cannot be blocked, so that several usages agree with everything
    assert sum(ports == true[string] for string, ports in stated.items()) >= len(few) // 2
    other = {string: ports for string, ports in stated.items() if ports != true[string]}
    assert [string for string, ports in other.items() if not is_alike(name, string, ports)] == []


def test_jumps_to_fuse_with_are_among_the_conclusions() -> None:
    found = characterized("NHM", "CMP (R64, I8)")
    assert found.macro_fusible is not None
    assert {"JZ", "JNZ", "JB", "JL"} <= set(found.macro_fusible)
    assert "JS" not in found.macro_fusible
    assert characterized("NHM", "INC (R64)").macro_fusible == ()
    assert characterized("SKL", "BSWAP (R64)").macro_fusible is None
