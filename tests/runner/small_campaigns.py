"""A small machine and method for campaigns: deterministic, adaptive, and able to note every run in a file.

As a program (`python -m tests.runner.small_campaigns DATABASE JOURNAL VARIANTS`) it runs a campaign and prints a line
per conclusion; the journal gets a line per run of the backend.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from fractions import Fraction  # noqa: TC003 - a class's type parameter at run time
from pathlib import Path
from typing import TYPE_CHECKING

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Procedure, Request
from results.campaign.store import Store
from results.findings import Code, NotRun
from results.model import Characterization, Form, FormResult, Provenance, Status, Throughput
from runner.backend import BackendInfo, Job, JobResult, Repeat
from runner.campaigns.campaign import Campaign, Tally
from runner.measuring.protocol import Measurer
from runner.measuring.recording import info_to_json
from xed_convert.model import InstructionVariant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROVENANCE = Provenance("FAKE", "a fake CPU", "0-0-0", "", "", "fake", "1", "2026-01-01T00:00:00+00:00", is_model=True)


def variants(count: int) -> list[InstructionVariant]:
    return [
        InstructionVariant(f"V{n}", f"V{n} ()", f"V{n}", f"V{n}", "BINARY", "BASE", "I86", 3, {}, ())
        for n in range(count)
    ]


def benchmark(name: str) -> Microbenchmark:
    return Microbenchmark((), (Line(name.encode(), name),), f"time of {name}")


@dataclass
class SmallBackend:
    name: str = "fake"
    journal: Path | None = None
    runs: list[str] = field(default_factory=list)
    breaks_after: int | None = None

    def info(self) -> BackendInfo:
        return BackendInfo("fake", PROVENANCE, ("core_cycles",), (), (), is_model=True)

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        assert list(counters) == ["core_cycles"]
        for job in batch:
            self.runs.append(f"{job.benchmark.body[0].text} {job.copies}")
            if self.breaks_after is not None and len(self.runs) > self.breaks_after:
                raise KeyboardInterrupt
        if self.journal:
            with self.journal.open("a") as file:
                file.write("".join(f"{run}\n" for run in self.runs[-len(batch) :]))
        return [self._result(job, repeat) for job in batch]

    def _result(self, job: Job, repeat: Repeat) -> JobResult:
        name = job.benchmark.body[0].text
        if "faults" in name:
            return JobResult(Status.FAULTED, {}, "SIGILL in the body at offset 0")
        cycles = hashlib.sha256(name.encode()).digest()[0] % 7 + 1
        return JobResult(Status.OK, {"core_cycles": (40 + cycles * job.copies,) * repeat.repetitions})

    def close(self) -> None:
        pass


class FakeMethod:
    """Three rounds per variant, the last depends on those before; every tenth is skipped, every 15th faults."""

    def prepare(self, variants: Iterable[InstructionVariant] = ()) -> Procedure[Fraction]:
        del variants
        (shared,) = yield [Request(benchmark("shared"))]
        return shared.cycles

    def characterize(self, variant: InstructionVariant, context: Fraction) -> Procedure[Characterization]:
        number = int(variant.iform[1:])
        first = yield [Request(benchmark(f"{variant.iform} a")), Request(benchmark(f"common {number // 4}"))]
        more = [f"{variant.iform} b{n}" for n in range(int(first[0].cycles) % 3 + 1)]
        second = yield [Request(benchmark(name)) for name in more]
        failures: tuple[NotRun, ...] = ()
        if number % 15 == 7:
            (fault,) = yield [Request(benchmark(f"{variant.iform} faults"))]
            failures = (NotRun(Code.SEQUENCE, fault.status, fault.detail),)
        total = sum((each.cycles for each in (*first, *second)), context)
        forms = {Form.PLAIN: FormResult(None, Throughput(total))}
        return Characterization(variant.key, variant.string, variant.iform, forms=forms, failures=failures)

    def skipped(self, variant: InstructionVariant) -> str:
        return "every tenth is" if variant.iform.endswith("9") else ""


def campaign(store: Store, backend: SmallBackend) -> Campaign[Fraction]:
    measurer = Measurer(backend)
    store.begin(measurer.info.provenance, info_to_json(measurer.info))
    return Campaign(store, measurer, FakeMethod())


def ignore(_tally: Tally) -> None:
    pass


def main(database: str, journal: str, count: str) -> None:
    with Store.open(Path(database)) as store:
        for result in campaign(store, SmallBackend(journal=Path(journal))).run(variants(int(count)), on_change=ignore):
            sys.stdout.write(f"{result.iform}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
