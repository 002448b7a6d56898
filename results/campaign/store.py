"""The SQLite file of a campaign: raw samples first, conclusions beside them, nothing ever changed or deleted.

Measurements are committed before anything is concluded from them. Each variant's conclusion is a transaction of its own
(write-ahead log). So killing the program at any moment loses at most the current batch. The tables are described in
`schema.sql` and docs/database.md.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial, wraps
from itertools import starmap
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from results.campaign import codec, packed
from results.campaign.file import (
    Lock,
    NoSuchFileError,
    StoreError,
    connect,
    connect_for_reading,
    damage_said,
    errors_about,
    make_tables,
    prepare,
)
from results.campaign.records import Conclusion, Outcome, Sample, StoredBenchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from results.model import Characterization, Measurement, Provenance

SAME_MACHINE = ("architecture", "cpu", "cpu_signature", "backend", "is_model")
"""Fields that agree in all provenances of one file: a campaign is about one machine."""


Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def _says_damage(
    method: Callable[Concatenate[Store, Arguments], Returned],
) -> Callable[Concatenate[Store, Arguments], Returned]:
    """Make a method that reads raise an error that names a damaged file."""

    @wraps(method)
    def reading(store: Store, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Returned:
        with damage_said(store.path):
            return method(store, *arguments, **named)

    return reading


def _fetched(path: Path, query: Callable[[], sqlite3.Cursor]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query."""
    with damage_said(path):
        rows = query()
    while True:
        with damage_said(path):
            row = rows.fetchone()
        if row is None:
            return
        yield row


class Store:
    """An open campaign file. Writers hold a lock; any number of readers may look on."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Lock | None) -> None:
        """Use `Store.open` or `Store.read` instead."""
        self.path = path
        self._connection = connection
        self._lock = lock
        self._identity = _identity(path) if lock is not None else None
        self._provenance_id: int | None = None
        self._benchmarks: set[str] = set()
        self._requests: dict[str, int] | None = None
        self._provenances: dict[int, Provenance] = {}
        self._decoded: dict[int, Characterization] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the file for writing; make it if it does not exist.

        Raises:
            StoreError: another campaign writes to it, it is not ours, or it cannot be written.
        """
        if path.name.endswith(packed.SUFFIX):
            raise StoreError(f"{path}: packed conclusions are only read", hint="name another file")
        lock = Lock(path)
        try:
            with damage_said(path):
                connection = connect(path, "rwc")
                prepare(path, connection)
                return cls(path, connection, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def in_memory(cls) -> Self:
        """Return a store that is gone when it is closed: for runs whose samples are not to be kept."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        make_tables(connection)
        return cls(Path("memory"), connection, None)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open the file for reading only: even while a campaign writes to it, or in a folder without write permission.

        Raises:
            StoreError: there is no such file, or it is not ours.
        """
        if not path.is_file():
            what = "not a file" if path.exists() else "no such file"
            raise NoSuchFileError(f"{path}: {what}", hint="characterize --db FILE makes one")
        if path.name.endswith(packed.SUFFIX):
            return cls._unpacked(path)
        with damage_said(path):
            return cls(path, connect_for_reading(path), None)

    @classmethod
    def _unpacked(cls, path: Path) -> Self:
        """Return a store in memory with what a packed file holds."""
        store = cls.in_memory()
        store.path = path
        with damage_said(path):
            for line in packed.read(path):
                if "provenance" in line:
                    store.begin(codec.decode_provenance(line["provenance"]), line["backend"])
                else:
                    result = codec.decode_characterization(line["result"])
                    store.conclude(result, [], line["inference"], line["time"], line["result"])
        return store

    def close(self) -> None:
        """Close the file and let other campaigns have it.

        At rest it is a single file without a log, so that it can be copied, and read where nothing can be written.
        """
        try:
            if self._lock is not None:
                with suppress(sqlite3.Error):  # a reader looks on: the log stays until the next writer closes
                    self._connection.rollback()  # Ctrl-C may come between any two statements
                    self._connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            with errors_about(self.path):
                self._connection.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self._check_place()
        finally:
            self.close()

    # What is added

    def begin(self, provenance: Provenance, backend: Mapping[str, Any] | None = None) -> None:
        """Name the provenance of what is added from here on.

        `backend` is what the backend said of itself, as JSON: inference needs it to look at the samples again.

        Raises:
            StoreError: the file is about another machine.
        """
        for earlier in self.provenances():
            _check_same_machine(self.path, earlier, provenance)
        with self._transaction():
            data, described = json.dumps(codec.encode_provenance(provenance)), json.dumps(dict(backend or {}))
            self._provenance_id = self._connection.execute(
                "INSERT INTO provenance (data, backend) VALUES (?, ?)", (data, described)
            ).lastrowid

    @_says_damage
    def begin_again(self) -> Provenance:
        """Begin to draw conclusions again from what is stored.

        Raises:
            StoreError: nothing was ever stored.
        """
        row = self._connection.execute("SELECT id, data FROM provenance ORDER BY id DESC LIMIT 1").fetchone()
        if row is None:
            raise StoreError(f"{self.path}: nothing was measured yet", hint="begin a campaign first")
        self._provenance_id = row[0]
        return codec.decode_provenance(json.loads(row[1]))

    def add(self, samples: Sequence[Sample]) -> None:
        """Store what was measured, in one transaction; it is safe when this returns.

        A request that has a measurement is passed over: what conclusions rest on never changes.
        """
        with self._transaction():
            self._add_benchmarks(sample.benchmark for sample in samples)
            for sample in samples:
                measured = sample.measurement
                if sample.request in self._known_requests():
                    continue
                row = self._connection.execute(
                    "INSERT INTO measurement (request, benchmark, provenance, status, detail, samples)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        sample.request,
                        sample.benchmark.id,
                        self._begun(),
                        measured.status.value,
                        measured.detail,
                        codec.encode_samples(measured.series),
                    ),
                ).lastrowid
                self._known_requests()[sample.request] = row or 0

    def conclude(
        self,
        result: Characterization,
        requests: Iterable[str],
        inference: str,
        time: str = "",
        encoded: Mapping[str, Any] | None = None,
    ) -> None:
        """Store a conclusion and which stored measurements it rests on, in one transaction.

        `time` is when it was drawn, UTC in ISO 8601 ("": now). If the result was read from JSON (`encoded`), that is
        stored, and the result kept, so that a packed file is neither encoded nor decoded again.

        Raises:
            StoreError: it rests on something that was not stored.
        """
        known = self._known_requests()
        try:
            evidence = [known[request] for request in dict.fromkeys(requests)]
        except KeyError as error:
            raise StoreError(f"{self.path}: {result.string} rests on {error}, which was not stored") from error
        with self._transaction():
            variant = self._variant_id(result)
            drawn = time or datetime.now(UTC).isoformat(timespec="seconds")
            data = json.dumps(encoded or codec.encode_characterization(result), ensure_ascii=False)
            conclusion = self._connection.execute(
                "INSERT INTO conclusion (variant, inference, provenance, time, outcome, data)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (variant, inference, self._begun(), drawn, Outcome.of(result).value, data),
            ).lastrowid
            self._connection.executemany(
                "INSERT INTO evidence (conclusion, position, measurement) VALUES (?, ?, ?)",
                [(conclusion, position, measurement) for position, measurement in enumerate(evidence)],
            )
            if encoded is not None and conclusion is not None:
                self._decoded[conclusion] = result

    # What is there

    @_says_damage
    def has_measured(self, requests: Iterable[str]) -> bool:
        """Whether there is a measurement for each of these requests."""
        return self._known_requests().keys() >= set(requests)

    @_says_damage
    def find(self, request: str) -> Measurement | None:
        """Return what was measured for that request, or None."""
        row_id = self._known_requests().get(request)
        if row_id is None:
            return None
        row = self._connection.execute(
            "SELECT status, detail, samples FROM measurement WHERE id = ?", (row_id,)
        ).fetchone()
        return codec.decode_measurement(*row)

    @_says_damage
    def provenances(self) -> list[Provenance]:
        """Return where what is stored came from: one entry per start of a campaign, oldest first."""
        rows = self._connection.execute("SELECT data FROM provenance ORDER BY id")
        return [codec.decode_provenance(json.loads(data)) for (data,) in rows]

    @_says_damage
    def backend(self) -> dict[str, Any]:
        """Return what the backend of the last start said of itself ({} before the first)."""
        row = self._connection.execute("SELECT backend FROM provenance ORDER BY id DESC LIMIT 1").fetchone()
        return {} if row is None else dict(json.loads(row[0]))

    @_says_damage
    def outcomes(self) -> dict[str, Outcome]:
        """Return the newest outcome by variant key."""
        rows = self._connection.execute(
            "SELECT variant.key, conclusion.outcome FROM conclusion JOIN variant ON variant.id = conclusion.variant"
            " ORDER BY conclusion.id"
        )
        return {key: Outcome(outcome) for key, outcome in rows}

    def conclusions(self, key: str | None = None) -> Iterator[Conclusion]:
        """Yield the newest conclusion about each variant (or about the one with that key), in the order of variants."""
        # Two statements, because the index on keys is of no use to one that also serves without a key.
        only, values = (" WHERE variant.key = ?", (key,)) if key is not None else ("", ())
        rows = partial(
            self._connection.execute,
            "SELECT max(conclusion.id), conclusion.data, inference, provenance, time FROM conclusion"  # noqa: S608 - `only` is one of two constants
            f" JOIN variant ON variant.id = conclusion.variant{only} GROUP BY variant.id ORDER BY variant.id",
            values,
        )
        for row_id, data, inference, provenance, time in _fetched(self.path, rows):
            with damage_said(self.path):
                result = self._decoded.get(row_id) or codec.decode_characterization(json.loads(data))
                found = Conclusion(row_id, result, inference, self._provenance(provenance), time)
            yield found

    def _provenance(self, number: int) -> Provenance:
        """Return the provenance of a row: no row of them ever changes."""
        if number not in self._provenances:
            (data,) = self._connection.execute("SELECT data FROM provenance WHERE id = ?", (number,)).fetchone()
            self._provenances[number] = codec.decode_provenance(json.loads(data))
        return self._provenances[number]

    @_says_damage
    def evidence(self, conclusion: Conclusion) -> list[Sample]:
        """Return the measurements that the conclusion rests on, in the order in which they were asked for."""
        rows = self._connection.execute(
            "SELECT request, benchmark, status, detail, samples FROM evidence"
            " JOIN measurement ON measurement.id = evidence.measurement WHERE conclusion = ? ORDER BY position",
            (conclusion.id,),
        ).fetchall()
        return [
            Sample(request, self.benchmark(benchmark), codec.decode_measurement(*rest))
            for request, benchmark, *rest in rows
        ]

    @_says_damage
    def benchmark(self, benchmark_id: str) -> StoredBenchmark:
        """Return a microbenchmark by its id.

        Raises:
            StoreError: the file has none of that id.
        """
        row = self._connection.execute(
            "SELECT id, purpose, divisor, setup, body FROM benchmark WHERE id = ?", (benchmark_id,)
        ).fetchone()
        if row is None:
            raise StoreError(f"{self.path}: no microbenchmark {benchmark_id}")
        return StoredBenchmark(row[0], row[1], row[2], _lines(row[3]), _lines(row[4]))

    @_says_damage
    def count_measurements(self) -> int:
        """Return how many measurements are stored."""
        return int(self._connection.execute("SELECT count(*) FROM measurement").fetchone()[0])

    # Parts

    def _check_place(self) -> None:
        """Refuse to go on, or to end well, if the name no longer leads to the file that is written to."""
        if self._identity is not None and _identity(self.path) != self._identity:
            raise StoreError(
                f"{self.path}: the file was deleted, moved or replaced while the campaign wrote to it",
                hint="what was measured since then is lost; start again, with a file that stays where it is",
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._check_place()
        with errors_about(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._requests = None
                self._benchmarks.clear()
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _begun(self) -> int:
        if self._provenance_id is None:
            raise StoreError(f"{self.path}: nothing can be added before `begin` says where it comes from")
        return self._provenance_id

    def _known_requests(self) -> dict[str, int]:
        """Return the measurement's row by request; read once, then kept up to date."""
        if self._requests is None:
            self._requests = dict(self._connection.execute("SELECT request, id FROM measurement ORDER BY id"))
        return self._requests

    def _add_benchmarks(self, benchmarks: Iterable[StoredBenchmark]) -> None:
        new = {each.id: each for each in benchmarks if each.id not in self._benchmarks}
        self._connection.executemany(
            "INSERT OR IGNORE INTO benchmark (id, purpose, divisor, setup, body) VALUES (?, ?, ?, ?, ?)",
            [(each.id, each.purpose, each.divisor, _text(each.setup), _text(each.body)) for each in new.values()],
        )
        self._benchmarks.update(new)

    def _variant_id(self, result: Characterization) -> int:
        self._connection.execute(
            "INSERT OR IGNORE INTO variant (key, string, iform) VALUES (?, ?, ?)",
            (result.key, result.string, result.iform),
        )
        row = self._connection.execute("SELECT id FROM variant WHERE key = ?", (result.key,)).fetchone()
        return int(row[0])


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file (None: there is none): another file of the same name has others."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_same_machine(path: Path, earlier: Provenance, now: Provenance) -> None:
    differing = [name for name in SAME_MACHINE if getattr(earlier, name) != getattr(now, name)]
    if differing:
        what = ", ".join(f"{name} {getattr(earlier, name)} there, {getattr(now, name)} here" for name in differing)
        raise StoreError(f"{path}: about another machine ({what})", hint="name another file")


def _text(lines: Iterable[tuple[bytes, str]]) -> str:
    return f"[{', '.join(starmap(_line, lines))}]"


@lru_cache(maxsize=1 << 14)
def _line(code: bytes, text: str) -> str:
    """Write a line as JSON; cached, since most lines stand in many microbenchmarks."""
    return f'["{code.hex()}", {encode_basestring_ascii(text)}]'


def _lines(text: str) -> tuple[tuple[bytes, str], ...]:
    return tuple((bytes.fromhex(code), line) for code, line in json.loads(text))
