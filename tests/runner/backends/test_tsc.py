"""The clock backend on this CPU: known code, bad code, and what a job leaves to the next one."""

import os
import signal
import statistics

import pytest

from generator.chains.plan import plan_latency
from generator.factory import InstructionFactory
from generator.harness.harness import RDTSC, layout, render
from generator.harness.style import PAUSE, RESUME
from generator.microbenchmark import Line, Microbenchmark
from generator.operands.values import kinds_of
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from results.model import Status
from runner.backend import BackendError, Conditions, Job, JobResult, Repeat
from runner.backends.tsc import TscBackend
from runner.host.cpu import choose, read_cpu
from tests.attempts import seconds_of, undisturbed
from tests.nonempty import some
from tests.runner import descendants
from xed_convert.catalogue.catalogue import Catalogue

ADD = "4801c0"
IMUL = "480fafc0"
BAD_CODE = {
    "ud2": ("0f0b", "SIGILL in the body at offset 0"),
    "int3": ("90cc", "SIGTRAP in the body at offset 2"),
    "divide error": ("48f7f1", "SIGFPE in the body at offset 0"),
    "load from NULL": ("90488b042500000000", "SIGSEGV in the body at offset 1"),
    "store to a kernel address": ("48890425f8ffffff", "SIGSEGV in the body at offset 0"),
    "no stack": ("31e450", "SIGSEGV in the body at offset 2"),
    "privileged": ("f4", "SIGSEGV in the body at offset 0"),
    "exit": ("b8e700000031ff0f05", "SIGSYS in the body at offset 7: system call 231 is refused"),
    "fork": ("b8390000000f05", "SIGSYS in the body at offset 5: system call 57 is refused"),
    "close": ("b80300000031ff0f05", "SIGSYS in the body at offset 7: system call 3 is refused"),
    "a call of 32-bit programs": ("b801000000cd80", "SIGSYS in the body at offset 5: system call 1 is refused"),
    "jump away": ("31c0ffe0", "SIGSEGV outside of the code under test"),
}
FEW = Repeat(warm_ups=1, repetitions=10, time_limit_seconds=0.2)


def job(code: str, copies: int = 10, iterations: int = 100, *, setup: str = "", privileged: bool = False) -> Job:
    lines = (Line(bytes.fromhex(setup), "setup"),) if setup else ()
    bench = Microbenchmark(lines, (Line(bytes.fromhex(code), code),), "a test", privileged=privileged)
    return Job(bench, copies, iterations, fenced=True)


def core_cycles(backend: TscBackend, result: JobResult) -> float:
    ratios = [t / c for t, c in zip(result.samples["tsc"], result.samples["calibration"], strict=True)]
    return statistics.median(ratios) * backend.info().calibration_core_cycles


def test_a_chain_of_imuls_takes_three_core_cycles_each(tsc: TscBackend) -> None:
    def cycles() -> float:
        few, many = tsc.run([job(IMUL, copies) for copies in (10, 110)], (), Repeat(repetitions=60))
        return (core_cycles(tsc, many) - core_cycles(tsc, few)) / (100 * 100)

    undisturbed(cycles, lambda found: found == pytest.approx(3, rel=0.05))


@pytest.mark.parametrize("name", BAD_CODE)
def test_code_that_kills_its_process_is_a_result_and_the_rest_goes_on(tsc: TscBackend, name: str) -> None:
    code, detail = BAD_CODE[name]
    results = tsc.run([job(ADD), job(code), job(IMUL)], (), FEW)
    assert [result.status for result in results] == [Status.OK, Status.FAULTED, Status.OK]
    assert results[1].detail == detail
    assert results[1].samples == {}


CALLS = Conditions(may_call=True)
FORK_AND_STAY = "b8390000000f05ebfe"
ALLOWED = {
    "getpid": ("b8270000000f05", Status.OK, ""),
    "exit with success": ("b8e700000031ff0f05", Status.FAULTED, "the process ended itself, exit code 0"),
    "exit with a signal's number": (
        "b8e7000000bf0b0000000f05",
        Status.FAULTED,
        "the process ended itself, exit code 11",
    ),
    "close all files": ("31ffb803000000" + "0f05ffc781ff000100007cef", Status.OK, ""),
    "children that stay": (FORK_AND_STAY, Status.TIMED_OUT, "not done after 0.2 s for one job"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_system_calls_that_are_allowed_cost_no_more_than_their_own_job(tsc: TscBackend, name: str) -> None:
    code, status, detail = ALLOWED[name]
    few = Repeat(warm_ups=0, repetitions=1, time_limit_seconds=0.2)
    calling = Job(job(code).benchmark, 1, 1, conditions=CALLS)
    results = tsc.run([job(ADD), calling, job(IMUL)], (), few)
    assert [result.status for result in results] == [Status.OK, status, Status.OK]
    assert results[1].detail == detail


def test_children_of_code_under_test_end_with_it(tsc: TscBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    tsc.close()
    mark = descendants.mark(monkeypatch)
    tsc.run([job(ADD)], (), FEW)
    assert len(descendants.marked(mark)) == 1
    tsc.run([Job(job(FORK_AND_STAY).benchmark, 1, 1, conditions=CALLS)], (), FEW)
    tsc.close()
    assert descendants.marked(mark) == set()


SUMS = (
    ("once", Line(bytes.fromhex("49830605"), "ADD QWORD PTR [R14], 5")),
    ("setup", Line(bytes.fromhex("4983060a"), "ADD QWORD PTR [R14], 10")),
    ("late", Line(bytes.fromhex("49830664"), "ADD QWORD PTR [R14], 100")),
)


def test_parts_run_once_per_job_per_repetition_and_before_all_copies(tsc: TscBackend) -> None:
    parts = {name: (line,) for name, line in SUMS}
    body = (Line(bytes.fromhex("490306"), "ADD RAX, [R14]"),)
    # Faults (division by zero) if and only if the sum is what three repetitions make of it
    for wrong in (0, 1):
        total = 5 + 3 * (10 + 100) + wrong
        check = bytes.fromhex("4d8b0e4981e9") + total.to_bytes(4, "little") + bytes.fromhex("31d249f7f1")
        benchmark = Microbenchmark(
            parts["setup"], (*body, Line(check, "check")), "a test", late=parts["late"], once=parts["once"]
        )
        (result,) = tsc.run([Job(benchmark, 1, 1)], (), Repeat(warm_ups=0, repetitions=3))
        assert result.status is (Status.OK if wrong else Status.FAULTED), result.detail


def test_what_is_between_marks_is_not_counted(tsc: TscBackend) -> None:
    slow = bytes.fromhex(IMUL) * 2000
    add = bytes.fromhex(ADD)
    marked = Line(PAUSE + slow + RESUME + add, "marked")
    both = [Microbenchmark((), (line,), "a test") for line in (marked, Line(slow + add, "counted"))]

    def cycles() -> tuple[float, ...]:
        return tuple(core_cycles(tsc, result) for result in tsc.run([Job(one, 1, 1) for one in both], (), FEW))

    undisturbed(cycles, lambda found: found[0] < 1500 and found[1] > 6000)


@pytest.mark.parametrize("offset", [0, 1, 17, 63])
def test_the_body_begins_where_it_is_wanted(offset: int) -> None:
    one = job(ADD)._replace(conditions=Conditions(offset_bytes=offset, drained=True))
    style = one.style(clean_uppers=True)
    assert style.clear_end
    shape = layout(one.benchmark, 3, 5, RDTSC, style)
    blob = render(one.benchmark, 3, 5, RDTSC, style)
    assert shape.body_offset % 64 == offset
    assert blob[shape.body_offset :].startswith(bytes.fromhex(ADD) * 3)
    assert shape.size == len(blob)


def test_a_fault_in_the_setup_says_so(tsc: TscBackend) -> None:
    (result,) = tsc.run([job(ADD, setup="90900f0b")], (), FEW)
    assert result.detail == "SIGILL in the setup at offset 2"


def test_an_endless_loop_is_timed_out(tsc: TscBackend) -> None:
    def run() -> None:
        results = tsc.run([job("ebfe"), job(ADD), job("ebfe")], (), FEW)
        assert [result.status for result in results] == [Status.TIMED_OUT, Status.OK, Status.TIMED_OUT]
        assert "0.2 s" in results[0].detail

    undisturbed(seconds_of(run), lambda seconds: seconds < 5)


def test_what_code_leaves_behind_is_no_neighbour(tsc: TscBackend) -> None:
    """Code may fill the instruction caches and branch predictors; the contention probe takes no longer behind it.

    A neighbour disturbs most repetitions; so the fastest of many count. Each code is compared with a NOP behind it.
    """
    codes = ("4c8936", "90" * 48_000, "0fa2", "490fc306")  # a store, 48 kB, CPUID, MOVNTI
    jobs = [job(code, 1, 5) for pair in zip(codes, ["90"] * len(codes), strict=True) for code in pair]

    def longest_beside_nop() -> float:
        fastest = [10**9] * len(jobs)
        for _ in range(20):
            for place, result in enumerate(tsc.run(jobs, (), Repeat(1, 20))):
                fastest[place] = min(fastest[place], sorted(result.samples["contention_probe"])[1])
        return max(code / nop for code, nop in zip(fastest[::2], fastest[1::2], strict=True))

    undisturbed(longest_beside_nop, lambda found: found < 1.03)


def test_privileged_and_oversized_jobs_are_refused_where_they_stand(tsc: TscBackend) -> None:
    batch = [job(ADD), job("f4", privileged=True), job(ADD), job("90" * 15, copies=2_000_000), job(ADD)]
    results = tsc.run(batch, (), FEW)
    ok, refused = Status.OK, Status.REFUSED
    assert [result.status for result in results] == [ok, refused, ok, refused, ok]
    assert "ring 0" in results[1].detail
    assert "too many" in results[3].detail


def test_state_does_not_leak_from_job_to_job(tsc: TscBackend) -> None:
    dirty = job("49c70607000000fd", setup="41bd99000000")  # MOV [R14], 7; STD; and R13 = 0x99
    divide_by_memory = job("49f736")  # DIV [R14] faults if and only if the area is zero again
    clean, result = tsc.run([dirty, divide_by_memory], (), FEW)
    assert clean.status is Status.OK
    assert result.detail == "SIGFPE in the body at offset 0"


def test_more_jobs_than_fit_at_once(tsc: TscBackend) -> None:
    results = tsc.run([job(ADD, 10 + index % 3, 1) for index in range(1500)], (), Repeat(repetitions=2))
    assert len(results) == 1500
    assert all(result.status is Status.OK for result in results)


def test_the_child_stays_on_its_cpu_and_ends_with_the_backend(tsc: TscBackend) -> None:
    tsc.run([job(ADD)], (), FEW)
    pid = tsc._runner.process
    assert pid is not None
    assert os.sched_getaffinity(pid) == {tsc._cpu.number}
    tsc.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_was_killed_is_an_error_with_a_hint(tsc: TscBackend) -> None:
    tsc.run([job(ADD)], (), FEW)
    assert tsc._runner.process is not None
    os.kill(tsc._runner.process, signal.SIGKILL)
    with pytest.raises(BackendError, match="does not answer"):
        tsc.run([job(ADD)], (), FEW)
    tsc.close()


def test_asking_for_what_the_machine_is_not(tsc: TscBackend) -> None:
    assert tsc.info().provenance.architecture == read_cpu(choose()).architecture
    with pytest.raises(BackendError, match="not FROBNICATE"):
        TscBackend(architecture="FROBNICATE")
    with pytest.raises(BackendError, match="CPU 12345"):
        TscBackend(cpu=12345)


AWKWARD = (
    *("JMP (R64)", "JMP (M64)", "CALL_NEAR (R64)", "CALL_NEAR (M64)", "RET_NEAR", "RET_NEAR (I16)", "LEAVE", "LEAVE_W"),
    *("ENTER (I16, I8)", "ENTER_W (I16, I8)", "IDIV (R8h)", "IDIV (M16)", "IDIV (R32)", "IDIV (R64)", "DIV (R64)"),
    *("MOVSQ_REPE", "SCASB_REPNE", "LODSQ", "POP (M64)", "POPFQ", "CLZERO", "WRFSBASE (R64)", "WRGSBASE (R64)"),
    *("XGETBV", "XLAT", "LDMXCSR (M32)", "FXRSTOR (M4096)"),
    *("MOV (AL, Moffs8)", "MOV (AX, Moffs16)", "MOV (EAX, Moffs32)", "MOV (RAX, Moffs64)"),
    *("MOV (Moffs8, AL)", "MOV (Moffs16, AX)", "MOV (Moffs32, EAX)", "MOV (Moffs64, RAX)"),
)
"""Instructions that fault unless their operands, the stack and the target of their jump are right."""


@pytest.mark.parametrize("string", AWKWARD)
def test_awkward_instructions_run_for_as_long_as_a_measurement_takes(tsc: TscBackend, string: str) -> None:
    catalogue = Catalogue.load()
    variant = catalogue.by_string(string)
    if reason := tsc.lacks(variant):
        pytest.skip(reason)
    factory = ThroughputFactory(InstructionFactory(catalogue), variant)
    jobs = [
        Job(factory.sequence(SequenceShape(8, breakers, balanced=True, kind=kind)), 113, 64, fenced=True)
        for kind in kinds_of(variant)
        for breakers in (False, True)
    ]
    chains = [
        Job(pair.chain(None if pair.direct else pair.routes[0]).benchmark, 110, 64, fenced=True)
        for pair in plan_latency(factory.instructions, variant).pairs
        if not pair.reason
    ]
    results = tsc.run([*jobs, *chains], (), Repeat(warm_ups=0, repetitions=1))
    assert [result.detail for result in some(results) if result.status is not Status.OK] == []
