"""The campaign file: what is committed stays, nothing changes, and every kind of trouble is a clear error."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.campaign.file import APPLICATION_ID, StoreError
from results.campaign.records import Outcome, Sample, StoredBenchmark
from results.campaign.store import Store
from results.findings import KINDS, Text
from results.model import Characterization, Measurement, Provenance, Series, Status
from tests.results import strategies
from tests.shared import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINE = Provenance("SKL", "a CPU", "6-5E-3", "0xf0", "6.1", "kmod", "0.1", "2026-01-01T00:00:00+00:00")
BENCHMARK = StoredBenchmark("b1", "latency 1→1 of ADD", 1, ((b"\x90", "nop"),), ((b"\x48\x01\xc0", "add rax, rax"),))
MEASURED = Measurement(Status.OK, (Series(10, 0, {"core_cycles": (10, 11)}),))


def result(name: str, **more: object) -> Characterization:
    return dataclasses.replace(Characterization(key=name, string=f"{name} ()", iform=name), **more)  # type: ignore[arg-type] # any field


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "campaign.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        opened.begin(MACHINE)
        yield opened


def test_no_finding_has_a_field_that_its_name_is_stored_under() -> None:
    named = [name for name, kind in KINDS.items() if hasattr(kind, "kind")]
    assert KINDS
    assert named == []


@settings(max_examples=20)
@given(st.lists(st.tuples(strategies.measurements, strategies.characterizations), max_size=4))
def test_everything_that_was_stored_is_there_after_opening_again(
    stored: list[tuple[Measurement, Characterization]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "campaign.sqlite"
        with Store.open(path) as store:
            store.begin(MACHINE)
            for number, (measurement, conclusion) in enumerate(stored):
                benchmark = dataclasses.replace(BENCHMARK, id=f"b{number}")
                store.add([Sample(f"request {number}", benchmark, measurement)])
                store.conclude(conclusion, [f"request {number}"], "1")
        with Store.read(path) as store:
            assert [store.find(f"request {number}") for number in range(len(stored))] == [each for each, _ in stored]
            newest = {conclusion.key: conclusion for _, conclusion in stored}
            found = {each.result.key: each.result for each in store.conclusions()}
            assert found == newest
            assert store.outcomes() == {key: Outcome.of(each) for key, each in newest.items()}


def test_the_newest_of_several_conclusions_counts_and_the_old_ones_stay(store: Store) -> None:
    store.add([Sample("r1", BENCHMARK, MEASURED)])
    store.conclude(result("ADD", failures=(Text("the ports do not add up"),)), ["r1"], "1")
    store.conclude(result("ADD", uops=1), ["r1"], "2")
    (newest,) = store.conclusions("ADD")
    assert (newest.result.uops, newest.inference) == (1, "2")
    assert store.outcomes() == {"ADD": Outcome.MEASURED}
    assert store._connection.execute("SELECT count(*) FROM conclusion").fetchone() == (2,)


def test_what_was_measured_once_is_not_measured_again(store: Store) -> None:
    store.add([Sample("r1", BENCHMARK, MEASURED)])
    store.add(
        [Sample("r1", BENCHMARK, dataclasses.replace(MEASURED, detail="again")), Sample("r2", BENCHMARK, MEASURED)]
    )
    assert store.find("r1") == MEASURED
    assert store.count_measurements() == 2


def test_what_the_backend_said_of_itself_is_kept(store: Store) -> None:
    assert store.backend() == {}
    store.begin(MACHINE, {"ports": ["p0"], "calibration_core_cycles": 300})
    assert store.backend() == {"ports": ["p0"], "calibration_core_cycles": 300}


def test_at_rest_a_campaign_is_one_file(store: Store, path: Path) -> None:
    store.add([Sample("r1", BENCHMARK, MEASURED)])
    store.close()
    with Store.read(path) as reader:
        assert reader.find("r1") == MEASURED
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_store_in_memory_is_like_any_other() -> None:
    with Store.in_memory() as store:
        store.begin(MACHINE)
        store.add([Sample("r1", BENCHMARK, MEASURED)])
        store.conclude(result("ADD"), ["r1"], "1")
        (conclusion,) = store.conclusions()
        assert [each.measurement for each in store.evidence(conclusion)] == [MEASURED]


def test_evidence_is_kept_in_the_order_in_which_it_was_asked_for(store: Store) -> None:
    for request in ("r1", "r2", "r3"):
        store.add([Sample(request, BENCHMARK, MEASURED)])
    store.conclude(result("ADD"), ["r3", "r1", "r3"], "1")
    (conclusion,) = store.conclusions()
    evidence = store.evidence(conclusion)
    assert [each.request for each in evidence] == ["r3", "r1"]
    assert evidence[0].benchmark == BENCHMARK
    assert evidence[0].measurement == MEASURED


def test_a_conclusion_must_rest_on_what_was_stored(store: Store) -> None:
    with pytest.raises(StoreError, match="not stored"):
        store.conclude(result("ADD"), ["never measured"], "1")
    assert store.outcomes() == {}


@pytest.mark.parametrize("statement", ["DELETE FROM measurement", "UPDATE conclusion SET data = ''"])
def test_nothing_can_be_changed_or_deleted(store: Store, statement: str) -> None:
    store.add([Sample("r1", BENCHMARK, MEASURED)])
    store.conclude(result("ADD"), ["r1"], "1")
    with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
        store._connection.execute(statement)


def test_one_campaign_at_a_time(store: Store, path: Path) -> None:
    with pytest.raises(StoreError, match="another campaign"):
        Store.open(path)
    store.close()
    with Store.open(path) as other:
        assert other.outcomes() == {}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_readers_look_on_while_a_campaign_writes(store: Store, path: Path) -> None:
    store.add([Sample("r1", BENCHMARK, MEASURED)])
    with Store.read(path) as reader:
        assert reader.find("r1") == MEASURED


@pytest.mark.parametrize("field", ["architecture", "cpu", "cpu_signature", "backend", "is_model"])
def test_a_file_is_about_one_machine(store: Store, path: Path, field: str) -> None:
    store.close()
    other = dataclasses.replace(MACHINE, **{field: True if field == "is_model" else "other"})  # type: ignore[arg-type] # any field
    with Store.open(path) as again, pytest.raises(StoreError, match="another machine.*" + field):
        again.begin(other)


def test_a_new_microcode_is_the_same_machine_and_is_recorded(store: Store, path: Path) -> None:
    store.close()
    with Store.open(path) as again:
        again.begin(dataclasses.replace(MACHINE, microcode="0xf1"))
        assert [each.microcode for each in again.provenances()] == ["0xf0", "0xf1"]


def test_a_failed_transaction_leaves_what_was_there(store: Store) -> None:
    store.add([Sample("r1", BENCHMARK, MEASURED)])
    store._connection.execute("PRAGMA max_page_count = 1")
    big = Series(10, 0, {"core_cycles": tuple(range(200_000))})
    with pytest.raises(StoreError, match=r"(?s)full.*free some space"):
        store.add([Sample("r2", BENCHMARK, dataclasses.replace(MEASURED, series=(big,)))])
    assert store.find("r1") == MEASURED
    assert store.find("r2") is None
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.add([Sample("r2", BENCHMARK, MEASURED)])
    assert store.find("r2") == MEASURED


def test_other_files_are_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="not an SQLite file"):
        Store.open(path)
    with pytest.raises(StoreError, match="not an SQLite file"):
        Store.read(path)
    assert path.read_bytes() == b"not a database" * 1000


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreError, match="not one of uopscope's"):
        Store.open(path)


def test_another_schema_version_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE TABLE x (y); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99;")
    connection.close()
    for way in (Store.open, Store.read):
        with pytest.raises(StoreError, match="version 99"):
            way(path)


def test_a_file_of_the_first_version_is_gone_on_with(path: Path) -> None:
    """There the table of microbenchmarks has no row numbers; all else is the same."""
    schema = (CHECKOUT / "results" / "campaign" / "schema.sql").read_text(encoding="utf-8")
    table, end, rest = schema.partition("body TEXT NOT NULL\n)")
    connection = sqlite3.connect(path)
    connection.executescript(f"{table}{end} WITHOUT ROWID{rest}")
    connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;")
    connection.close()
    for request in ("r1", "r2"):
        with Store.open(path) as store:
            store.begin(MACHINE)
            store.add([Sample(request, BENCHMARK, MEASURED)])
    with Store.read(path) as reader:
        assert [reader.find(request) for request in ("r1", "r2")] == [MEASURED, MEASURED]
        assert reader.benchmark(BENCHMARK.id) == BENCHMARK


def test_an_empty_file_is_taken_as_new(path: Path) -> None:
    path.touch()
    with Store.open(path) as store:
        store.begin(MACHINE)
        assert store.provenances() == [MACHINE]


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        Store.read(tmp_path / "none.sqlite")
    with pytest.raises(StoreError, match="folder has to exist"):
        Store.open(tmp_path / "none" / "x.sqlite")
    with pytest.raises(StoreError):
        Store.open(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_refused(store: Store, path: Path) -> None:
    store.close()
    path.parent.chmod(0o555)
    try:
        with pytest.raises(StoreError):
            Store.open(path)
        with Store.read(path) as reader:
            assert reader.provenances() == [MACHINE]
    finally:
        path.parent.chmod(0o755)


WRITER = """
import sys
from pathlib import Path
from tests.results.campaign.test_store import BENCHMARK, MACHINE, MEASURED, result
from results.campaign.records import Sample
from results.campaign.store import Store

with Store.open(Path(sys.argv[1])) as store:
    store.begin(MACHINE)
    for number in range(len(store.outcomes()), 1_000_000):
        store.add([Sample(f"r{number}", BENCHMARK, MEASURED)])
        store.conclude(result(f"V{number}"), [f"r{number}"], "1")
        print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(path: Path) -> None:
    acknowledged = -1
    for lines in (1, 30, 200, 3, 77):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        ) as writer:
            assert writer.stdout is not None
            for _ in range(lines):
                acknowledged = max(acknowledged, int(writer.stdout.readline()))
            writer.send_signal(signal.SIGKILL)
        with Store.read(path) as store:
            done = store.outcomes()
            assert list(done) == [f"V{number}" for number in range(len(done))]
            assert len(done) > acknowledged
            assert all(store.evidence(each)[0].measurement == MEASURED for each in store.conclusions())


def test_an_interrupt_within_a_transaction_leaves_a_single_file(path: Path) -> None:
    store = Store.open(path)
    store.begin(MACHINE)
    store._connection.execute("BEGIN IMMEDIATE")  # where Ctrl-C comes between two statements
    store.close()
    with Store.read(path) as again:
        assert again.count_measurements() == 0
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(path.name)] == [path.name]


def test_a_file_that_is_deleted_or_replaced_while_a_campaign_writes_is_said(path: Path) -> None:
    store = Store.open(path)
    store.begin(MACHINE)
    path.unlink()
    with pytest.raises(StoreError, match="deleted, moved or replaced"):
        store.begin(MACHINE)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="deleted, moved or replaced"):
        store.begin(MACHINE)
    store.close()


def test_a_file_that_is_deleted_after_the_last_conclusion_is_said(path: Path) -> None:
    store = Store.open(path)
    store.begin(MACHINE)
    path.unlink()
    with pytest.raises(StoreError, match="deleted, moved or replaced"):
        store.__exit__(None, None, None)
    with Store.open(path):  # nobody holds the lock any more
        pass
