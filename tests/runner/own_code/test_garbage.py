"""Text and bytes of all kinds of rubbish through the whole measurement: a result with a reason, or an error of ours."""

import random
import sys
from functools import partial
from pathlib import Path

from runner.backends.tsc import TscBackend
from runner.own_code.measure import CodeRequest, MachineCode, Runs, Settings, measure
from runner.own_code.reading.sources import code_of
from runner.own_code.reading.text import OperandSyntax
from tests.attempts import seconds_of, undisturbed
from tests.effort import sample
from xed_convert.errors import UopscopeError

COUNT = sample(300, 1000)
SEED = 20
LIMIT_SECONDS = 5
TEXT = """add mov imul rax rbx [ ] , ; : .rept .endr .align 5 0x80 jmp x: lock rep movsb syscall int vaddps zmm0
{k1} {z} % $ ( ) # |7 ret call push cpuid rdtsc hlt pause_counting resume_counting"""


def source(rng: random.Random, program: bytes) -> str:
    """Return words of assembly in any order, random bytes, a piece of a program, or random characters."""
    at = rng.randrange(len(program))
    return rng.choice(
        (
            " ".join(rng.choices(TEXT.split(), k=rng.randrange(1, 25))),
            "hex:" + rng.randbytes(rng.randrange(1, 60)).hex(),
            "hex:" + program[at : at + rng.randrange(1, 300)].hex(),
            "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(1, 50))),
        )
    )


def outcome(text: str, rng: random.Random, backend: TscBackend) -> str:
    """Return the status of the measurement, or "error" where it was refused with a message."""
    runs = Runs(unroll=rng.choice((1, 10, 100)), loop=rng.choice((0, 10)), measurements=3, warm_ups=1)
    try:
        code = MachineCode(code_of(text, rng.choice(list(OperandSyntax))))
        request = CodeRequest(code, Settings(runs, on_demand=rng.choice((None, 0x2324000)), time_limit_seconds=0.5))
        (mode,) = measure(request, backend).modes.values()
    except UopscopeError as error:
        return "error" if error.message else "no message"
    assert mode.ok or mode.reason
    return mode.status.value


def test_rubbish_is_a_result_or_an_error_of_ours_in_time(tsc: TscBackend) -> None:
    rng = random.Random(SEED)
    program = Path(sys.executable).resolve().read_bytes()
    seen: set[str] = set()

    def run(text: str) -> None:
        seen.add(outcome(text, rng, tsc))

    for _ in range(COUNT):
        undisturbed(seconds_of(partial(run, source(rng, program))), lambda seconds: seconds < LIMIT_SECONDS)
    assert {"ok", "error", "faulted"} <= seen
    assert "no message" not in seen
