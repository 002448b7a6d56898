"""How conclusions depend on each constant of inference.

    python -m benchmarks.changes.sensitivity [--jobs 2] [--untried]

Every numeric constant of `inference/` is set to half and to twice its value. (A share between 0.9 and 1.1 is a
tolerance around 1, so its distance from 1 is.) Inference then characterizes variants of simulated machines, and what it
says is compared with what it says otherwise. A machine on which inference never looks at a constant is left out for it.
Each run is kept in `--work` under the version of inference, so a run that was stopped goes on where it was. A new row
replaces an older one in the table. Rows of constants that have another value are deleted.

Columns of `sensitivity.tsv`:

- `constant`, `value`, `factor`, `tried`: the last is the value that was tried;
- `machines` on which the constant is looked at; `verdicts` that were compared (ports, µops, throughput, each latency);
- `lost`: right with the constant's own value, not stated with the one that was tried; `gained`: the reverse;
- `wrong`: wrong with the value that was tried only; `mended`: the reverse;
- `other`: stated with neither value, but differently ("named" and "none");
- `measurements`: percent of those that the constant's own value takes;
- `inference`: the version that was tried; `example`: the first change, or an error.

Where inference asks without end, it is stopped and states nothing.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import subprocess
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.changes.constants import import_changed, scaled
from docs.constants import CHECKOUT, COUNTS, Constant, constants, text
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLE = Path(__file__).with_name("sensitivity.tsv")
FACTORS = (Fraction(1, 2), Fraction(2))
MACHINES = {
    "HSW": 16,
    "random:1": 4,
    "random:2": 4,
    "random:7": 4,
    "random:hidden:1": 4,
    "random:hidden:2": 4,
    "SPR": 2,
    "random:counters:1": 4,
    "random:width:1": 4,
    "random:intel:1": 4,
    "random:sample1:1": 4,
    "time HSW": 8,
    "time random:2": 16,
    "time SKX:job1": 16,
    "decoders HSW": 1,
    "decoders random:small:3": 4,
    "divider SKX": 8,
    "divider ICX": 8,
    "divider HSW": 8,
    "fusion HSW": 1,
    "clock HSW": 12,
    "clock random:drift:1": 4,
    "random:sample2:1": 4,
    "random:job2:8274": 2,
    "forwarding typical": 60,
    "forwarding renaming": 60,
    "forwarding merging": 60,
    "levels": 1,
    "policies": 1,
    "rings": 1,
    "fit": 1,
    "attributes bypass": 1,
    "attributes producers": 1,
    "attributes values": 1,
    "attributes elimination": 1,
}
"""How many variants (or cases) of each machine are asked about: so few that a trial takes about 20 s.

`verdicts_apart` explains first words like `time`. `clock` is a machine without counters.
"""

TIME_LIMIT_SECONDS = 1800
"""For one trial: most take less than a minute, so what takes longer asks without end."""

HEADING = (
    *("constant", "value", "factor", "tried", "machines", "verdicts"),
    *COUNTS,
    *("measurements", "inference", "example"),
)
Rows = dict[tuple[str, str, str], dict[str, str]]
WRONG = {"wrong", "bound too low", "no dependency", "missing"}


@dataclass(frozen=True)
class Found:
    """What inference said about the machines: verdicts by machine and what they are about, and measurements."""

    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    measurements: dict[str, int] = field(default_factory=dict)
    looked_at: dict[str, list[str]] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Trial:
    """A constant at a multiple of its value, on the machines where it matters (None: the constants as they are)."""

    constant: Constant | None
    factor: Fraction
    machines: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return a name for the file of its outcome."""
        if self.constant is None:
            return f"unchanged {' '.join(self.machines).replace(':', ' ')}"
        return f"{self.constant} x {str(self.factor).replace('/', ' by ')}"


def characterize(trial: Trial, work: Path) -> Found:
    """Characterize the variants in this process; what breaks is an outcome, too."""
    changed = str(trial.constant) if trial.constant else ""
    looked_at = import_changed(changed, trial.factor, note=not changed)
    from benchmarks.changes.verdicts import STOPPED, VerdictSource  # noqa: PLC0415 - it imports inference, changed here

    source, verdicts, measurements, seen = VerdictSource(work), {}, {}, {}
    at_import = set(looked_at)
    try:
        for name in trial.machines:
            looked_at.clear()
            verdicts[name], measurements[name] = source.verdicts(name, MACHINES[name])
            seen[name] = sorted(looked_at | at_import)
            if trial.constant is None and STOPPED in verdicts[name].values():
                return Found(error="inference asks for more than a session's limits allow")
    except Exception as error:  # noqa: BLE001 - whatever a changed constant breaks is what is asked about
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Found(error=f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")
    return Found(verdicts, measurements, seen)


def run_apart(trial: Trial, work: Path) -> tuple[Found, float]:
    """Run a trial in a process of its own, or return what is kept of it; and the seconds that it took."""
    kept = work / f"{trial.key}.json"
    if kept.exists():
        return Found(**json.loads(kept.read_text(encoding="utf-8"))), 0.0
    begun = time.monotonic()
    changed = str(trial.constant) if trial.constant else ""
    module = "benchmarks.changes.sensitivity"
    command = [sys.executable, "-m", module, "--one", changed, str(trial.factor), *trial.machines]
    command += ["--work", str(work)]
    try:
        done = subprocess.run(
            command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        found = Found(error=f"not done after {TIME_LIMIT_SECONDS} s")
    else:
        if done.returncode:
            raise RuntimeError(f"{trial.key}: {done.stderr.strip()}")
        found = Found(**json.loads(done.stdout))
    with atomic_write(kept) as file:
        file.write(json.dumps(asdict(found)).encode())
    return found, time.monotonic() - begun


def unchanged(machines: Iterable[str], work: Path) -> Found:
    """Return what inference says with its constants as they are."""
    found = Found()
    for machine in machines:
        one, seconds = run_apart(Trial(None, Fraction(1), (machine,)), work)
        if one.error:
            sys.exit(f"{machine}: {one.error}")
        print(f"{machine}, unchanged: {len(one.verdicts[machine])} verdicts ({seconds:.0f} s)", flush=True)
        found.verdicts.update(one.verdicts)
        found.measurements.update(one.measurements)
        found.looked_at.update(one.looked_at)
    return found


def trials(before: Found) -> Iterator[Trial]:
    """Yield a trial for each constant and factor that gives another value, on the machines where it is looked at."""
    for constant in constants():
        machines = tuple(name for name, looked_at in before.looked_at.items() if str(constant) in looked_at)
        for factor in FACTORS:
            if scaled(constant.value, factor) != constant.value:
                yield Trial(constant, factor, machines)


def row(trial: Trial, before: Found, after: Found) -> dict[str, str]:
    """Return a line of the table."""
    from inference.version import inference_version  # noqa: PLC0415 - no trial may find inference imported

    assert trial.constant is not None
    found = {
        "constant": str(trial.constant).removeprefix("inference."),
        "value": text(trial.constant.value),
        "factor": str(trial.factor),
        "tried": text(scaled(trial.constant.value, trial.factor)),
        "machines": str(len(trial.machines)),
        "inference": inference_version(),
    }
    if after.error:
        return {**dict.fromkeys(HEADING, ""), **found, "example": " ".join(after.error.split())}
    counts: Counter[str] = Counter()
    example = ""
    for machine in trial.machines:
        old, new = before.verdicts[machine], after.verdicts[machine]
        for about in sorted(old.keys() | new.keys()):
            was, became = old.get(about, "none"), new.get(about, "none")
            kind = change(was, became)
            counts[kind] += 1
            if kind != "same" and (not example or kind == "wrong"):
                example = f"{machine} {about}: {was}, then {became}"
    taken = sum(before.measurements[machine] for machine in trial.machines)
    percent = 100 * sum(after.measurements.values()) / taken if taken else 100
    numbers = {kind: str(counts[kind]) for kind in COUNTS}
    total = str(counts.total())
    return {**found, "verdicts": total, **numbers, "measurements": f"{percent:.0f}", "example": example}


def change(was: str, became: str) -> str:
    """Return the column that a change of a verdict counts in, "same" for none."""
    if was == became:
        return "same"
    if became in WRONG or was in WRONG:
        return "wrong" if was not in WRONG else "mended" if became not in WRONG else "other"
    if "right" in (was, became):
        return "lost" if was == "right" else "gained"
    return "other"


def version() -> str:
    """Return a hash over inference and what it is tried on."""
    digest = hashlib.blake2b(digest_size=4)
    folders = ("inference", "generator", "runner", "simulator", "results")
    paths = [path for folder in folders for path in (CHECKOUT / folder).rglob("*.py")]
    here = Path(__file__).parent
    own = [here / "constants.py", here / "sensitivity.py", *sorted(here.glob("verdicts*.py"))]
    for path in [*sorted(paths), *own, CHECKOUT / "docs" / "constants.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read(path: Path) -> Rows:
    """Return the rows of the table, by constant, value and factor."""
    if not path.exists():
        return {}
    heading, *lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    rows = (dict(zip(heading, line, strict=True)) for line in lines)
    return {(one["constant"], one["value"], one["factor"]): one for one in rows}


def name(trial: Trial) -> tuple[str, str, str]:
    """Return the constant, value and factor of a trial as the table has them."""
    assert trial.constant is not None
    return str(trial.constant).removeprefix("inference."), text(trial.constant.value), str(trial.factor)


def untried(trial: Trial, rows: Rows) -> bool:
    """Return whether the table lacks a trial, or no machine looked at the constant although one does by now."""
    found = rows.get(name(trial))
    return found is None or (found["machines"] == "0" and bool(trial.machines))


def write(path: Path, rows: Rows, every: Iterable[Trial]) -> None:
    """Write the table, constants in the order of their files; that no machine looks at one must hold still."""
    known = [row for one in every if (row := rows.get(name(one))) and not (row["machines"] == "0" and one.machines)]
    lines = ["\t".join(HEADING), *("\t".join(one[column] for column in HEADING) for one in known)]
    with atomic_write(path) as file:
        file.write("\n".join([*lines, ""]).encode())


def main() -> None:
    """Do the trials that are not kept, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", default="", help="only constants with this in their names")
    parser.add_argument("--machines", nargs="+", default=(), help="only machines whose names begin so")
    parser.add_argument("--untried", action="store_true", help="only what the table lacks, or no machine looked at")
    parser.add_argument("--kept", action="store_true", help="do no trial; write the table with those that were done")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--work", type=Path, default=CHECKOUT / "build" / "sensitivity", help="where runs are kept")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        wanted_name, factor, *machines = options.one
        constant = next((one for one in constants() if str(one) == wanted_name), None)
        json.dump(asdict(characterize(Trial(constant, Fraction(factor), tuple(machines)), options.work)), sys.stdout)
        return
    work = options.work / version()
    work.mkdir(parents=True, exist_ok=True)
    before = unchanged([one for one in MACHINES if one.startswith(tuple(options.machines) or "")], work)
    every, rows = list(trials(before)), read(options.table)
    wanted = [one for one in every if options.only in str(one.constant) and (one.machines or not options.machines)]
    if options.untried:
        wanted = [one for one in wanted if untried(one, rows)]
    if options.kept:
        wanted = [one for one in wanted if (work / f"{one.key}.json").exists()]
    pool = ThreadPoolExecutor(options.jobs)
    try:
        running = {pool.submit(functools.partial(run_apart, one, work)): one for one in wanted}
        for number, done in enumerate(as_completed(running), 1):
            trial = running[done]
            after, seconds = done.result()
            rows[name(trial)] = found = row(trial, before, after)
            said = " ".join(f"{column} {found[column]}" for column in COUNTS)
            print(f"[{number}/{len(wanted)}] {trial.key}: {said} {found['example']} ({seconds:.0f} s)", flush=True)
    except KeyboardInterrupt:
        sys.exit("stopped; the next start goes on with the trials that are not done")
    finally:
        pool.shutdown(cancel_futures=True)
        write(options.table, rows, every)


if __name__ == "__main__":
    main()
