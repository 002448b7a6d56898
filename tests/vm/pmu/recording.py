"""Runs inference on the simulated core, and records what a PMU would have to count for kmod to see the same.

Every job is rendered exactly as the kmod backend renders it, once per set of counters; the record says for each blob
and each programmed event what the simulator counts. What the simulator has no counter for counts zero. Without a PMU
it is APERF and MPERF that count.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from results.model import Status
from runner.backends.kmod import blob_job
from runner.host.kmod import abi
from runner.host.kmod.passes import FREE_RUNNING, Hardware, countable, needed, plan
from runner.uarch import tables
from tests.vm.pmu.fakepmu import COUNT, FIXED_SELECTOR, FREE_SELECTOR, RECORD, blob_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.backend import Backend, BackendInfo, Job, JobResult, Repeat
    from runner.host.kmod.passes import Slot

ALL_BITS = (1 << 64) - 1


class RecordingKmod:
    """A backend that looks like kmod on a given PMU (None: without one), simulates, and keeps the counts."""

    name = "sim"

    def __init__(self, simulated: Backend, core: str, hardware: Hardware | None, *, clean_uppers: bool) -> None:
        self._simulated = simulated
        self._uarch = tables.by_name(core)
        self._hardware = hardware
        self._clean_uppers = clean_uppers
        self.counts: dict[tuple[int, int], int] = {}

    def info(self) -> BackendInfo:
        """Say what kmod will say, as far as inference looks at it."""
        if self._hardware is None:
            free = tuple(slot.counter for slot in FREE_RUNNING)
            return dataclasses.replace(self._simulated.info(), counters=free, ports=())
        counters = countable(self._uarch, self._hardware)
        ports = tuple(name for name in self._uarch.port_counters if name in counters)
        return dataclasses.replace(self._simulated.info(), counters=counters, ports=ports)

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Simulate the jobs."""
        runs = plan(self._uarch, self._hardware, counters) if self._hardware else [FREE_RUNNING]
        events = needed(self._uarch, counters) if self._hardware else tuple(slot.counter for slot in FREE_RUNNING)
        results = self._simulated.run(batch, events, repeat)
        completed = []
        for job, result in zip(batch, results, strict=True):
            if result.status is not Status.OK:
                completed.append(result)
                continue
            zeros = (0,) * repeat.repetitions
            samples = {name: result.samples.get(name, zeros) for name in events}
            for slots in runs:
                self._record(job, slots, repeat, {name: values[0] for name, values in samples.items()})
            completed.append(result._replace(samples={name: samples[name] for name in counters if name in samples}))
        return completed

    def _record(self, job: Job, slots: tuple[Slot, ...], repeat: Repeat, counted: dict[str, int]) -> None:
        key = blob_key(blob_job(job, slots, repeat, job.style(clean_uppers=self._clean_uppers)).blob)
        for slot in slots:
            unselected = {abi.COUNTER_FIXED: FIXED_SELECTOR, abi.COUNTER_MSR: FREE_SELECTOR}.get(slot.kind)
            selector = slot.config if unselected is None else unselected + slot.index
            self.counts[key, selector] = counted[slot.counter]

    def close(self) -> None:
        """Close the simulator."""
        self._simulated.close()

    def records(self) -> bytes:
        """Return the counts for /dev/fakepmu, in the order in which it searches."""
        return b"".join(RECORD.pack(COUNT, *key, count) for key, count in sorted(self.counts.items()))
