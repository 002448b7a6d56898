"""A run every night: the campaign (or the rest of one), the database, the changes, a summary.

The state folder holds `current.sqlite` of the running campaign, `campaigns/` and `summaries/` of finished ones, and the
last `instructions.xml`. A killed run is continued by the next one. The campaign's file is renamed when it is finished,
so it is always either complete or can be continued.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from results.campaign.file import StoreError
from results.campaign.store import Store
from results.database.diff import ChangeKind, compare, group, only_in_one
from results.database.merge import Campaigns, Merge
from results.database.reader import read_database
from results.database.writer import write_database
from runner.campaigns.campaign import SkipReason, count_reason, most_frequent
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.campaign.records import Outcome
    from results.database.diff import Group
    from results.model import Provenance

FREE_BYTES = 2_000_000_000
"""A full-ISA campaign with all samples and the database made from it take less than this."""

KEPT = 14
"""How many finished campaigns and summaries are kept."""

DUE_SECONDS = 20 * 3600
"""A run that starts sooner after the last finished one (the one after a reboot) has nothing to do."""

FINISHED = (0, 4)
"""Exit codes of `characterize` with which a campaign is done: nothing failed, or some variants did."""

SHOWN_NAMES = 3
"""Variants that a summary names of those that only one of two runs has."""

WATCHED = ("cpu", "cpu_signature", "microcode", "kernel", "backend", "version")
"""Fields of the provenance that are compared with the night before: a change may explain changed numbers."""


class NightlyError(UopscopeError):
    """The nightly run cannot start, or its campaign ended early; what was measured is kept."""

    exit_code = 3


class NightlyInputError(NightlyError):
    """What was asked for is wrong: another night would not help."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Places:
    """Where the files of nightly runs are."""

    state: Path

    @property
    def current(self) -> Path:
        """The campaign in work."""
        return self.state / "current.sqlite"

    @property
    def database(self) -> Path:
        """The instructions.xml of the last finished campaign."""
        return self.state / "instructions.xml"

    @property
    def campaigns(self) -> Path:
        """Finished campaigns."""
        return self.state / "campaigns"

    @property
    def summaries(self) -> Path:
        """Summaries, one text per finished campaign."""
        return self.state / "summaries"


@contextmanager
def locked(places: Places) -> Iterator[None]:
    """Hold the lock of the state folder, which ends with the process whatever becomes of it.

    Raises:
        NightlyError: another run holds it, or the folder cannot be made.
        NightlyInputError: it is a file.
    """
    if places.state.exists() and not places.state.is_dir():
        raise NightlyInputError(f"{places.state}: not a folder", hint="--state names a folder")
    try:
        places.state.mkdir(parents=True, exist_ok=True)
        file = (places.state / "lock").open("a+b")
    except OSError as error:
        raise NightlyError(
            f"{places.state}: {error.strerror}", hint="run it as root, or name another --state"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise NightlyError(f"another nightly run is at work in {places.state}") from error
        yield


def run(places: Places, selection: Sequence[str], *, free_bytes: int = FREE_BYTES, again: bool = False) -> str:
    """Do tonight's run and return its summary ("" if there was nothing to do).

    Args:
        places: the state folder.
        selection: options of `characterize`: what is measured, and how.
        free_bytes: how much space there has to be.
        again: also if the last run was finished a short time ago.

    Raises:
        NightlyError: another run is at work, the disk is full, or the campaign was interrupted.
        NightlyInputError: `characterize` calls its options wrong.
    """
    with locked(places):
        _check_space(places, free_bytes)
        resumed = _unfinished(places)
        if resumed is None and not again and not _is_due(places):
            return ""
        code, ending = _characterize(places, selection)
        if code == NightlyInputError.exit_code:
            raise NightlyInputError("`characterize` refuses these options (see above)")
        if code not in FINISHED:
            raise NightlyError(f"the campaign ended early (exit code {code})", hint="the next run resumes it")
        return _finish(places, resumed, ending)


def _check_space(places: Places, wanted: int) -> None:
    free = shutil.disk_usage(places.state).free
    if free < wanted:
        raise NightlyError(
            f"{places.state}: {free / 1e9:.1f} GB are free, {wanted / 1e9:.1f} GB are needed",
            hint="free some space, or name another folder with --state",
        )


def _unfinished(places: Places) -> int | None:
    """Return how many variants an interrupted campaign has, None if there is no such campaign.

    A campaign that was killed while it made its file has none; opening it will tell whether it can continue.
    """
    if not places.current.exists():
        return None
    try:
        with Store.read(places.current) as store:
            return len(store.outcomes())
    except StoreError:
        return 0


def _is_due(places: Places) -> bool:
    finished = [path.stat().st_mtime for path in places.campaigns.glob("*.sqlite")]
    return time.time() - max(finished, default=0.0) >= DUE_SECONDS


def _characterize(places: Places, selection: Sequence[str]) -> tuple[int, str]:
    """Run the campaign in a process of its own; return its exit code and its last line, which tells the time.

    Its messages go where ours go (the journal), its table nowhere.
    """
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "runner.cli.characterize", *selection, "--db", str(places.current)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            last = "".join(deque(process.stdout, maxlen=1)).strip()
            return process.wait(), last
        except BaseException:
            process.terminate()
            raise


def _finish(places: Places, resumed: int | None, ending: str) -> str:
    """Build the database, compare it with the last one, put the campaign away, and return the summary."""
    new = places.state / "new.xml"
    with Campaigns([places.current]) as campaigns, atomic_write(new) as file:
        write_database(Merge(Catalogue.load(), campaigns.lookup).entries(), campaigns.provenances(), file)
    with Store.read(places.current) as store:
        outcomes, provenance = Counter(store.outcomes().values()), store.provenances()[-1]
    reasons = _reasons(places.current)
    previous = _previous_provenance(places)
    groups = group(compare(read_database(places.database), read_database(new))) if places.database.exists() else None
    text = summary_text(Night(provenance, previous, outcomes, reasons, groups, resumed, ending))
    _put_away(places, new, text)
    return text


def _reasons(campaign: Path) -> list[SkipReason]:
    """Return why variants were skipped or failed, the most frequent reasons first."""
    reasons: dict[str, SkipReason] = {}
    with Store.read(campaign) as store:
        for conclusion in store.conclusions():
            count_reason(reasons, conclusion.result)
    return most_frequent(reasons)


def _previous_provenance(places: Places) -> Provenance | None:
    finished = sorted(places.campaigns.glob("*.sqlite"))
    if not finished:
        return None
    with Store.read(finished[-1]) as store:
        return store.provenances()[-1]


def _put_away(places: Places, new: Path, text: str) -> None:
    """Rename everything to its place, the campaign last: until then the next run would do this again."""
    name = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    places.campaigns.mkdir(exist_ok=True)
    places.summaries.mkdir(exist_ok=True)
    with atomic_write(places.summaries / f"{name}.txt") as file:
        file.write(text.encode())
    new.replace(places.database)
    with sqlite3.connect(places.current) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    os.utime(places.current)
    places.current.rename(places.campaigns / f"{name}.sqlite")
    log = places.current.with_name(places.current.name + ".log")
    if log.exists():
        log.rename(places.campaigns / f"{name}.log")
    for suffix in ("-wal", "-shm"):
        places.current.with_name(places.current.name + suffix).unlink(missing_ok=True)
    for folder, pattern in ((places.campaigns, "*.sqlite"), (places.campaigns, "*.log"), (places.summaries, "*.txt")):
        for path in sorted(folder.glob(pattern))[:-KEPT]:
            path.unlink()


@dataclass(frozen=True, slots=True)
class Night:
    """What a summary is about.

    `groups` is None without an earlier database, `resumed` the variants done before. `ending` is the last line of the
    campaign's own summary: how long it took, and whether the machine was busy.
    """

    provenance: Provenance
    previous: Provenance | None
    outcomes: Counter[Outcome]
    reasons: list[SkipReason]
    groups: list[Group] | None
    resumed: int | None
    ending: str = ""


def summary_text(night: Night, shown: int = 20) -> str:
    """Return the summary: what was measured where, failures by reason, changes by kind."""
    machine = night.provenance
    lines = [f"{machine.architecture} ({machine.cpu}), backend {machine.backend}, {machine.time[:10]}"]
    if night.resumed is not None:
        lines.append(f"Went on with an interrupted campaign: {night.resumed} variants were done already.")
    lines += _machine_changes(night)
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in sorted(night.outcomes.items()))
    lines.append(f"{night.outcomes.total()} variants: {counts}.")
    lines += [f"  {reason.count} x {reason.text}: {reason.names}" for reason in night.reasons[:shown]]
    lines += [f"The campaign: {night.ending}."] if night.ending else []
    lines += _change_lines(night.groups, shown)
    return "\n".join(lines) + "\n"


def _machine_changes(night: Night) -> Iterator[str]:
    for name in WATCHED:
        before = getattr(night.previous, name) if night.previous else None
        now = getattr(night.provenance, name)
        if before is not None and before != now:
            yield f"The {name.replace('_', ' ')} changed since last time: {before} → {now}."


def _change_lines(groups: Sequence[Group] | None, shown: int) -> Iterator[str]:
    if groups is None:
        yield "This is the first run: there is nothing to compare with."
        return
    real = [one for one in groups if one.kind.is_change]
    noise = sum(len(one.strings) for one in groups if one.kind is ChangeKind.NOISE)
    yield f"{sum(len(one.strings) for one in real)} changes, {noise} differences within the spread."
    for one in real[:shown]:
        where = one.strings[0] if len(one.strings) == 1 else f"{len(one.strings)} variants of {one.isa_set}"
        yield f"  {one.kind.value}: {one.attribute} {one.old or '-'} → {one.new or '-'}: {where}"
    if len(real) > shown:
        yield f"  ... {len(real)} groups in all"
    for kind, run in ((ChangeKind.ONLY_NEW, "the earlier run"), (ChangeKind.ONLY_OLD, "this run")):
        if found := only_in_one(groups, kind):
            more = ", ..." if len(found) > SHOWN_NAMES else ""
            yield f"Not in {run}: {len(found)} variants ({', '.join(found[:SHOWN_NAMES])}{more})."
