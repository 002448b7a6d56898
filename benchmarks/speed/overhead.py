"""What a campaign costs besides running code.

    python -m benchmarks.speed.overhead [--backend sim --arch SKX] [--every 40]

Every N-th variant is characterized into a file, as by `characterize --all --db`. The CPU time of this process is
divided by the number of microbenchmarks. That is the time for generating, encoding, rendering, submitting, judging,
storing, inferring. With `tsc` the code runs in another process, whose time does not count; with `sim` the time within
the backend's `run` is shown apart, since that is the machine. The last columns are the size of the file and the peak of
memory.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.campaign.store import Store
from runner.backend import lacks_of
from runner.backends.registry import open_backend
from runner.campaigns.campaign import Campaign
from runner.measuring.protocol import Measurer
from runner.measuring.recording import info_to_json
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.garbage import collect_seldom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.backend import Backend, BackendInfo, Job, JobResult, Repeat

HEADER = (
    "backend",
    "variants",
    "microbenchmarks",
    "wall_s",
    "around_ms_each",
    "machine_ms_each",
    "file_bytes_each",
    "MB",
)


class TimedBackend:
    """A backend, and how much CPU time of this process was spent within its `run`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name = backend.name
        self.seconds = 0.0

    def info(self) -> BackendInfo:
        """Say what the backend says."""
        return self._backend.info()

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run the batch and take the time."""
        started = time.process_time()
        try:
            return self._backend.run(batch, counters, repeat)
        finally:
            self.seconds += time.process_time() - started

    def close(self) -> None:
        """Close the backend."""
        self._backend.close()


def row(name: str, architecture: str | None, every: int, folder: Path) -> tuple[str, ...]:
    """Characterize every N-th variant; return the figures."""
    catalogue = Catalogue.load()
    backend = open_backend(name, architecture=architecture)
    timed, path = TimedBackend(backend), folder / "campaign.sqlite"
    measurer = Measurer(timed)
    lacks = lacks_of(backend)
    started, cpu = time.monotonic(), time.process_time()
    with Store.open(path) as store:
        store.begin(measurer.info.provenance, info_to_json(measurer.info))
        campaign = Campaign(store, measurer, Characterizer(catalogue, measurer.info.capabilities, by_time=True), lacks)
        done = [
            each for each in campaign.run(list(catalogue)[::every], on_change=lambda _tally: None) if not each.skipped
        ]
        count = store.count_measurements()
    wall, cpu = time.monotonic() - started, time.process_time() - cpu
    within = timed.seconds if measurer.info.is_model else 0.0
    timed.close()
    milliseconds = (f"{1e3 * seconds / count:.2f}" for seconds in (cpu - within, within))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    size = path.stat().st_size // count
    return (name, str(len(done)), str(count), f"{wall:.1f}", *milliseconds, str(size), str(peak))


def main() -> None:
    """Print the table as TSV."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", default="tsc")
    parser.add_argument("--arch")
    parser.add_argument("--every", type=int, default=40)
    options = parser.parse_args()
    collect_seldom()  # as `characterize` does
    with tempfile.TemporaryDirectory() as folder:
        print(*HEADER, sep="\t")
        print(*row(options.backend, options.arch, options.every, Path(folder)), sep="\t")


if __name__ == "__main__":
    main()
