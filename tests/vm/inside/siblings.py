"""Inside the guest: how much of the time a busy process has on the measured CPU's sibling, as it is and kept idle."""

import os
import signal
import sys
import time
from pathlib import Path

from generator.microbenchmark import Line, Microbenchmark
from runner.backend import ExecutionEnvironment, Job, Repeat
from runner.backends.tsc import TscBackend
from runner.host.cpu import siblings

SECONDS = 3.0
WARM_UP_SECONDS = 0.5
CHAIN = Microbenchmark((), (Line(bytes.fromhex("480fafc0"), "IMUL RAX, RAX"),), "busy")


def busy_process(cpu: int) -> int:
    """Start a process that never sleeps on a CPU; return its number."""
    child = os.fork()
    if not child:
        os.sched_setaffinity(0, {cpu})
        while True:
            pass
    return child


def seconds_of(process: int) -> float:
    """Return the CPU time of a process (proc(5): utime)."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


def share(backend: TscBackend, process: int) -> int:
    """Return the percentage of the time of a measurement that the process has had."""
    job, repeat = Job(CHAIN, 100, 1000), Repeat(0, 20)
    begin = time.monotonic()
    while time.monotonic() - begin < WARM_UP_SECONDS:
        backend.run([job], (), repeat)
    begin, used = time.monotonic(), seconds_of(process)
    while time.monotonic() - begin < SECONDS:
        backend.run([job] * 5, (), repeat)
    return round(100 * (seconds_of(process) - used) / (time.monotonic() - begin))


def main(cpu: int) -> None:
    """Print the siblings, and the shares by who is busy and what is asked for."""
    others = siblings(cpu)
    elsewhere = next(one for one in range(os.cpu_count() or 1) if one not in (cpu, *others))
    print("SIBLINGS", cpu, others)
    backend = TscBackend(cpu)
    os.sched_setaffinity(0, {elsewhere})
    for name, where in (("sibling", others[0]), ("elsewhere", elsewhere + 1)):
        process = busy_process(where)
        for asked in (False, True):
            backend.provide(ExecutionEnvironment(idle_siblings=asked))
            print("SHARE", name, int(asked), share(backend, process), *backend.info().provenance.options.values())
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    backend.close()


main(int(sys.argv[1]))
