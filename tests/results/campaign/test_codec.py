"""decode(encode(x)) == x for all that is kept as JSON."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import given

from results.campaign import codec
from results.findings import Text
from results.model import Derivation, Form, FormResult, PortUsage, Series, Throughput
from runner.backend import CONTENTION_PROBE
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
    read = codec.decode_measurement(measurement.status.value, measurement.detail, written)
    assert read == measurement


def test_equal_repetitions_take_no_more_room() -> None:
    (few, many) = (len(codec.encode_samples([Series(10, 0, {"core_cycles": (7,) * n})])) for n in (10, 10_000))
    assert many < few + 10


def test_a_counter_has_one_name_whatever_a_file_calls_it() -> None:
    written = codec.encode_samples([Series(10, 0, {"tsc": (1, 2), "witness": (3, 3)})])
    assert codec.decode_samples(written) == (Series(10, 0, {"tsc": (1, 2), CONTENTION_PROBE: (3, 3)}),)


def test_files_with_sentences_are_read() -> None:
    """As campaigns wrote them before forms, failures and steps had types."""
    old = {
        "key": "k",
        "string": "ADC (R64, R64)",
        "iform": "ADC",
        "uops": 2,
        "ports": "1*p06",
        "ports_same_register": None,
        "throughput": {"unrolled": 1, "loop": "5/4", "ports": None, "unrolled_spread": None, "loop_spread": None},
        "throughput_same_register": {"unrolled": "1/4"},
        "ports_indexed": "1*p0",
        "latencies": [],
        "attributes": {},
        "failures": ["ports: the µops per port add up to 1.50"],
        "skipped": "",
        "derivations": [{"quantity": "latency 1→2", "text": "2.00 cycles\n= 2.00", "experiments": ["l1"]}],
    }
    found = codec.decode_characterization(old)
    assert found.forms == {
        Form.PLAIN: FormResult(PortUsage.parse("1*p06"), Throughput(Fraction(1), Fraction(5, 4))),
        Form.SAME_REGISTER: FormResult(None, Throughput(Fraction(1, 4))),
        Form.INDEXED: FormResult(PortUsage.parse("1*p0")),
    }
    assert found.failures == (Text("ports: the µops per port add up to 1.50"),)
    steps = (Text("2.00 cycles"), Text("= 2.00"))
    assert found.derivations == (Derivation("latency 1→2", steps, ("l1",)),)
    assert codec.decode_characterization(codec.encode_characterization(found)) == found
