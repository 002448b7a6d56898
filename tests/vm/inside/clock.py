"""Inside the guest, without a PMU: what the kmod backend says of itself and counts by the clock."""

import json

from generator.microbenchmark import Line, Microbenchmark
from runner.backend import Job, Repeat
from runner.backends.kmod import create

ADD = Microbenchmark((), (Line(bytes.fromhex("4801c0"), "ADD RAX, RAX"),), "counting")
WRONG = Microbenchmark((), (Line(b"\x90", "NOP"), Line(bytes.fromhex("0f0b"), "UD2")), "a fault")
PRIVILEGED = Microbenchmark((), (Line(bytes.fromhex("0f20d0"), "MOV RAX, CR2"),), "ring 0")


def main() -> None:
    backend = create()
    info = backend.info()
    jobs = [Job(ADD, 10), Job(ADD, 110), Job(ADD, 10, 50, fenced=True), Job(WRONG, 2), Job(PRIVILEGED, 10)]
    results = backend.run(jobs, info.counters, Repeat(warm_ups=2, repetitions=5))
    backend.close()
    report = {
        "counters": info.counters,
        "ports": info.ports,
        "caveats": info.caveats,
        "iterations": info.preferred_iterations,
        "core_cycles": info.calibration_core_cycles,
        "results": [(each.status.value, dict(each.samples), each.detail) for each in results],
    }
    print("REPORT", json.dumps(report))


main()
