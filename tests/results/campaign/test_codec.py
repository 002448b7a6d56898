"""decode(encode(x)) == x for all that is kept as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given

from results.campaign import codec
from results.model import Series
from tests.results import strategies

if TYPE_CHECKING:
    from results.model import Characterization, Measurement, Provenance


@given(strategies.characterizations)
def test_conclusions_are_read_as_they_were_written(result: Characterization) -> None:
    text = json.dumps(codec.encode_characterization(result))
    assert codec.decode_characterization(json.loads(text)) == result


@given(strategies.provenances)
def test_provenance_is_read_as_it_was_written(provenance: Provenance) -> None:
    text = json.dumps(codec.encode_provenance(provenance))
    assert codec.decode_provenance(json.loads(text)) == provenance


@given(strategies.measurements)
def test_raw_samples_are_read_as_they_were_written(measurement: Measurement) -> None:
    written = codec.encode_samples(measurement.series)
    read = codec.decode_measurement(measurement.benchmark_id, measurement.status.value, measurement.detail, written)
    assert read == measurement


def test_equal_repetitions_take_no_more_room() -> None:
    (few, many) = (len(codec.encode_samples([Series(10, 0, {"core_cycles": (7,) * n})])) for n in (10, 10_000))
    assert many < few + 10
