"""Campaign files that somebody damaged or made up: a sentence, whatever is in them, and no memory filled."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest

from results.campaign.file import StoreError
from results.campaign.store import Store
from runner.verification.synthetic import write_campaign
from xed_convert.catalogue.catalogue import Catalogue


def everything(path: Path) -> int:
    """Read all that a campaign file holds."""
    with Store.read(path) as store:
        store.provenances(), store.backend(), store.outcomes()
        return sum(len(store.evidence(conclusion)) for conclusion in store.conclusions())


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("campaign") / "x.sqlite"
    write_campaign(path, "HSW", Catalogue(Catalogue.load().find("ADC_GPRv_GPRv_11")[:1]), experiments=1)
    everything(path)
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path))


def change(path: Path, *statements: str) -> None:
    """Change a file as somebody with sqlite3 could."""
    with sqlite3.connect(path) as connection:
        for name in ("measurement_is_final", "conclusion_is_final"):
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for name in ("measurement", "conclusion"):
            connection.execute(
                f"CREATE TRIGGER {name}_is_final BEFORE UPDATE ON {name}\n"
                f"BEGIN SELECT RAISE(ABORT, '{name}s are only ever added'); END"
            )
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE conclusion SET data = 'no JSON'",
        "UPDATE conclusion SET data = '[1]'",
        "UPDATE conclusion SET data = CAST(x'ff' AS TEXT)",
        "UPDATE conclusion SET data = json_set(data, '$.latencies[0].cycles', '1e999999999')",
        "UPDATE conclusion SET data = json_set(data, '$.latencies[0].cycles', '1/0')",
        "UPDATE conclusion SET data = json_set(data, '$.string', 5)",
        "UPDATE conclusion SET data = json_remove(data, '$.throughput')",
        "UPDATE conclusion SET data = json_set(data, '$.ports', '99999999999999999999*p0')",
        "UPDATE conclusion SET provenance = 77",
        "UPDATE provenance SET data = '{}'",
        "UPDATE provenance SET data = json_set(data, '$.caveats', 'none')",
        "UPDATE provenance SET backend = '5'",
        "UPDATE measurement SET samples = x'00'",
        "UPDATE measurement SET status = 'splendid'",
        "UPDATE benchmark SET body = '[[\"zz\", 1]]'",
        "DELETE FROM benchmark",
    ],
)
def test_values_that_we_never_wrote_are_refused_in_a_sentence(path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(StoreError, match=r"x\.sqlite: "):
        everything(path)


@pytest.mark.parametrize("runs", [[[1, 10**15]], [[1, 10**7]], [[1, -(10**7)]]])
def test_samples_that_would_fill_the_memory_are_refused(path: Path, runs: list[list[int]]) -> None:
    bomb = zlib.compress(json.dumps([[10, 0, {"tsc": runs}]]).encode())
    change(path, f"UPDATE measurement SET samples = x'{bomb.hex()}'")  # noqa: S608 - our own bytes
    with pytest.raises(StoreError, match="damaged"):
        everything(path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER mine AFTER INSERT ON variant BEGIN DELETE FROM evidence; END",
        "DROP TABLE evidence",
        "DROP INDEX conclusion_variant",
    ],
)
def test_tables_that_are_not_ours_are_refused(path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(StoreError, match="not those of uopscope"):
        everything(path)


def test_what_somebody_adds_for_looking_does_no_harm(path: Path) -> None:
    change(path, "CREATE VIEW mine AS SELECT * FROM variant", "CREATE INDEX also_mine ON variant (string)")
    assert everything(path) == 1


@pytest.mark.parametrize("place", [b"CREATE TABLE provenance", b"conclusion_variant"])
def test_a_schema_that_is_no_text_is_refused(path: Path, place: bytes) -> None:
    data = path.read_bytes()
    at = data.index(place)
    path.write_bytes(data[:at] + b"\xff\xfe" + data[at + 2 :])
    with pytest.raises(StoreError):
        everything(path)
