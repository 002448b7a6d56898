"""Writes the site: assets, data, and every page, on all cores, into a new folder that is then renamed."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from results.campaign.store import Store
from results.database.entries import is_model
from results.database.reader import DatabaseError
from results.processes import sensible_processes
from results.site import experiments, memory, pages, tables, views
from results.site.lists import list_pages
from xed_convert.files import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from results.database.reader import Entry
    from results.memory.model import MemoryReport
    from results.model import Provenance

MARK = ".uopscope-site"
"""A file that marks a folder as a site, so that it may be replaced."""

CHUNK = 5 * experiments.SHARE
"""Variants per task: enough work to be worth sending, few enough for steady progress."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a site is made of.

    `entries` are all variants of the catalogue, `campaigns` the files whose experiments the pages show, `skipped`
    counts for each architecture why variants were not measured. `memories` are measurements of memory, of these and of
    other architectures.
    """

    entries: tuple[Entry, ...]
    provenances: tuple[Provenance, ...] = ()
    campaigns: tuple[Path, ...] = ()
    skipped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    memories: tuple[MemoryReport, ...] = ()


def build_site(
    site: Site, folder: Path, jobs: int, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> int:
    """Write a site to `folder` and return the number of pages; an older site there is replaced at the end.

    Args:
        site: its contents.
        folder: where; it must not exist, be empty, or be a site.
        jobs: how many processes.
        progress: called with the variants that are done and all.

    Raises:
        DatabaseError: the folder is something else, or there is nothing to show.
        OutputError: the disk is full, or the folder beside it cannot be written.
    """
    _check_folder(folder)
    _check_names(site.entries)
    entries = tuple(entry for entry in site.entries if entry.results)
    if not entries:
        raise DatabaseError("no variant has a result: there is nothing to show")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            count = _write(site, entries, work, jobs, progress)
            _replace(folder, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"{folder}: the site cannot be written: {error.strerror or error}") from error
    return count


def _check_folder(folder: Path) -> None:
    if folder.exists() and not (folder / MARK).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DatabaseError(f"{folder} exists and is no site", hint="name a folder that does not exist yet")


def _check_names(entries: Iterable[Entry]) -> None:
    """Refuse architectures whose names cannot be file names: files may come from anybody."""
    for name in {name for entry in entries for name in entry.results}:
        if not _FILE_NAME.fullmatch(name):
            raise DatabaseError(f"{name[:60]!r} is no name of an architecture", hint="letters, digits, - + . and _")


_FILE_NAME = re.compile(r"[A-Za-z0-9][\w+.-]{0,39}", re.ASCII)


def _replace(folder: Path, work: Path) -> None:
    work.chmod(0o755)
    if folder.exists():
        shutil.rmtree(folder)
    work.rename(folder)


def _write(site: Site, entries: Sequence[Entry], work: Path, jobs: int, progress: Callable[[int, int], None]) -> int:
    architectures = sorted({name for entry in entries for name in entry.results})
    names = views.slugs(entry.variant.string for entry in entries)
    memories = {
        one.provenance.architecture: one for one in site.memories if _FILE_NAME.fullmatch(one.provenance.architecture)
    }
    lists = list_pages(entries)
    of_architectures = [f"{kind}/{name}" for kind in "ve" for name in architectures]
    for part in ("assets", "data", "arch", "memory", "list", *of_architectures):
        (work / part).mkdir(parents=True)
    (work / MARK).write_text("made by uopscope site\n", encoding="utf-8")
    for asset in resources.files("results.site").joinpath("assets").iterdir():
        (work / "assets" / asset.name).write_bytes(asset.read_bytes())
    where = {name: report.provenance for name, report in memories.items()}
    cards = pages.cards(architectures, entries, site.provenances, where)
    _page(work / "index.html", pages.index_page(architectures, cards, lists, shows_experiments=bool(site.campaigns)))
    _page(work / "compare.html", pages.compare_page(architectures, _models(entries)))
    _page(work / "data" / "variants.js", tables.variants_script(entries, names))
    catalogue = Counter(entry.variant.extension for entry in site.entries)
    for name in architectures:
        _page(work / "data" / f"{name}.js", tables.architecture_script(name, entries))
        coverage = pages.Coverage(catalogue, site.skipped.get(name, {}), name in memories)
        page = pages.architecture_page(name, names, architectures, entries, site.provenances, coverage)
        _page(work / "arch" / f"{name}.html", page)
    for number, one in enumerate(lists):
        _page(work / "list" / f"{one.name}.html", pages.list_page(number, lists, names, architectures))
    for name, report in memories.items():
        _page(work / "memory" / f"{name}.html", memory.page(report, architectures))
    return (
        2
        + len(architectures)
        + len(memories)
        + len(lists)
        + _variant_pages(_Task(site, names, architectures, work), entries, jobs, progress)
    )


def _models(entries: Iterable[Entry]) -> set[str]:
    """Return the names of the architectures that are machine models."""
    return {name for entry in entries for name, result in entry.results.items() if is_model(result.measurement)}


def _page(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Task:
    """What every process needs to write pages of variants."""

    site: Site
    names: Mapping[str, str]
    architectures: Sequence[str]
    work: Path


def _variant_pages(task: _Task, entries: Sequence[Entry], jobs: int, progress: Callable[[int, int], None]) -> int:
    starts = range(0, len(entries), CHUNK)
    count = 0
    with ProcessPoolExecutor(
        max_workers=sensible_processes(jobs, len(starts)), initializer=_start, initargs=(task, entries)
    ) as pool:
        for start, written in zip(starts, pool.map(_chunk, starts), strict=True):
            count += written
            progress(min(start + CHUNK, len(entries)), len(entries))
    return count


class _Worker:
    """One process's share: the task, and the campaigns open for reading."""

    def __init__(self, task: _Task, entries: Sequence[Entry]) -> None:
        self.task = task
        self.entries = entries
        self.stores = [Store.read(path) for path in task.site.campaigns]

    def write(self, start: int, entries: Sequence[Entry]) -> int:
        """Write the pages of some variants, of which the first is number `start`, with their experiments."""
        return sum(
            self._write_share(name, (start + at) // experiments.SHARE, entries[at : at + experiments.SHARE])
            for at in range(0, len(entries), experiments.SHARE)
            for name in self.task.architectures
        )

    def _write_share(self, name: str, share: int, entries: Sequence[Entry]) -> int:
        """Write the pages of variants on one architecture that share a script."""
        of_this = [entry for entry in entries if name in entry.results]
        path = f"e/{name}/{share}.js"
        backgrounds: list[experiments.Background] = []
        for entry in of_this:
            background = self._background(entry.variant.key, name)
            place = (
                experiments.ExperimentsPlace(path, len(backgrounds), len(background.evidence)) if background else None
            )
            text = pages.variant_page(entry, name, self.task.names, self.task.architectures, place)
            _page(self.task.work / pages.page_of(name, self.task.names[entry.variant.string]), text)
            backgrounds += [background] if background else []
        if backgrounds:
            _page(self.task.work / path, experiments.script(backgrounds))
        return len(of_this)

    def _background(self, key: str, architecture: str) -> experiments.Background | None:
        """Return the derivations and measurements of a variant's numbers, None if no campaign has them."""
        for store in self.stores:
            for conclusion in store.conclusions(key):
                if conclusion.provenance.architecture == architecture and not conclusion.result.skipped:
                    found = tuple(store.evidence(conclusion))
                    return experiments.Background(conclusion.result.derivations, found) if found else None
        return None


_worker: list[_Worker] = []
"""This process's worker: a pool's processes have no other place for what they open once."""


def _start(task: _Task, entries: Sequence[Entry]) -> None:
    _worker[:] = [_Worker(task, entries)]


def _chunk(start: int) -> int:
    (worker,) = _worker
    return worker.write(start, worker.entries[start : start + CHUNK])
