"""Conclusions, provenance and raw samples as JSON and back: the form in which the store and `--json` keep them.

Numbers of cycles stay exact: an integer, or a string "5/4". `decode(encode(x)) == x` for each pair of functions here.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import fields
from fractions import Fraction
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from results.model import (
    Bound,
    Characterization,
    Derivation,
    LatencyPart,
    LatencyResult,
    Measurement,
    PortUsage,
    Provenance,
    Series,
    Status,
    Throughput,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json: TypeAlias = dict[str, Any]
"""A JSON object; the functions here know its members' types."""


def number(value: Fraction | None) -> int | str | None:
    """Write an exact number of cycles."""
    if value is None:
        return None
    return value.numerator if value.denominator == 1 else str(value)


def fraction(value: int | str | None) -> Fraction | None:
    """Read what `number` wrote.

    Raises:
        ValueError: it wrote no such thing; what `Fraction` would take hours or gigabytes for is none.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not _FRACTION.fullmatch(str(value)[:200]):
        raise ValueError(f"not a number of cycles: {str(value)[:40]!r}")
    return Fraction(value)


_FRACTION = re.compile(r"-?\d{1,60}(/[1-9]\d{0,59})?", re.ASCII)


def _cycles(value: int | str) -> Fraction:
    cycles = fraction(value)
    if cycles is None:
        raise ValueError("a latency without cycles")
    return cycles


Checked = TypeVar("Checked")


def _of(kind: type[Checked], value: object) -> Checked:
    """Return a member of a file if it is of that type; files may hold anything.

    Raises:
        ValueError: it is of another type.
    """
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, found {str(value)[:40]!r}")
    return value


def encode_provenance(provenance: Provenance) -> Json:
    """Write all of it."""
    return {
        "architecture": provenance.architecture,
        "cpu": provenance.cpu,
        "cpu_signature": provenance.cpu_signature,
        "microcode": provenance.microcode,
        "kernel": provenance.kernel,
        "backend": provenance.backend,
        "version": provenance.version,
        "time": provenance.time,
        "options": dict(provenance.options),
        "caveats": list(provenance.caveats),
        "is_model": provenance.is_model,
    }


def decode_provenance(data: Json) -> Provenance:
    """Read what `encode_provenance` wrote."""
    members = dict(_of(dict, data))
    options = {_of(str, name): _of(str, value) for name, value in _of(dict, members.pop("options")).items()}
    caveats = tuple(_of(str, caveat) for caveat in _of(list, members.pop("caveats")))
    is_model = _of(bool, members.pop("is_model"))
    texts = {name: _of(str, value) for name, value in members.items()}
    return Provenance(**texts, options=options, caveats=caveats, is_model=is_model)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_of(str, text) for text in _of(list, value))


def encode_latency(latency: LatencyResult) -> Json:
    """Write a latency; what is at its default is left out."""
    optional = {
        "part": latency.part.value,
        "source_flag": latency.source_flag,
        "destination_flag": latency.destination_flag,
        "same_register": latency.same_register,
        "fast_values": latency.fast_values,
        "experiments": list(latency.experiments),
        "spread": None if latency.spread is None else str(latency.spread),
    }
    return {
        "source": latency.source,
        "destination": latency.destination,
        "cycles": number(latency.cycles),
        "bound": latency.bound.value,
        "chain": latency.chain,
        **{name: value for name, value in optional.items() if value},
    }


def decode_latency(data: Json) -> LatencyResult:
    """Read what `encode_latency` wrote."""
    return LatencyResult(
        source=_of(int, data["source"]),
        destination=_of(int, data["destination"]),
        cycles=_cycles(data["cycles"]),
        bound=Bound(data["bound"]),
        chain=_of(str, data["chain"]),
        part=LatencyPart(data.get("part", "")),
        source_flag=_of(str, data.get("source_flag", "")),
        destination_flag=_of(str, data.get("destination_flag", "")),
        same_register=_of(bool, data.get("same_register", False)),
        fast_values=_of(bool, data.get("fast_values", False)),
        spread=fraction(data.get("spread")),
        experiments=_texts(data.get("experiments", [])),
    )


def _encode_seldom(result: Characterization) -> Json:
    """Write what most variants have nothing of: what indexed addressing changes, jumps to fuse with."""
    ports = None if result.ports_indexed is None else str(result.ports_indexed)
    found = {"ports_indexed": ports, "throughput_indexed": encode_throughput(result.throughput_indexed)}
    fusible = None if result.macro_fusible is None else list(result.macro_fusible)
    return {name: value for name, value in {**found, "macro_fusible": fusible}.items() if value is not None}


def encode_throughput(throughput: Throughput | None) -> Json | None:
    """Write the three numbers, None where one is not known."""
    if throughput is None:
        return None
    return {field.name: number(getattr(throughput, field.name)) for field in fields(Throughput)}


def decode_throughput(data: Json | None) -> Throughput | None:
    """Read what `encode_throughput` wrote."""
    return None if data is None else Throughput(**{name: fraction(value) for name, value in data.items()})


def _ports(text: str | None) -> PortUsage | None:
    return None if text is None else PortUsage.parse(text)


def encode_characterization(result: Characterization) -> Json:
    """Write all conclusions about a variant."""
    return {
        "key": result.key,
        "string": result.string,
        "iform": result.iform,
        "uops": result.uops,
        "ports": None if result.ports is None else str(result.ports),
        "ports_same_register": None if result.ports_same_register is None else str(result.ports_same_register),
        "throughput": encode_throughput(result.throughput),
        "throughput_same_register": encode_throughput(result.throughput_same_register),
        **_encode_seldom(result),
        "latencies": [encode_latency(latency) for latency in result.latencies],
        "attributes": dict(result.attributes),
        "failures": list(result.failures),
        "skipped": result.skipped,
        "derivations": [
            {"quantity": each.quantity, "text": each.text, "experiments": list(each.experiments)}
            for each in result.derivations
        ],
    }


def decode_characterization(data: Json) -> Characterization:
    """Read what `encode_characterization` wrote."""
    return Characterization(
        key=_of(str, data["key"]),
        string=_of(str, data["string"]),
        iform=_of(str, data["iform"]),
        uops=None if data["uops"] is None else _of(int, data["uops"]),
        ports=_ports(data["ports"]),
        ports_same_register=_ports(data["ports_same_register"]),
        throughput=decode_throughput(data["throughput"]) or Throughput(),
        throughput_same_register=decode_throughput(data["throughput_same_register"]),
        ports_indexed=_ports(data.get("ports_indexed")),
        throughput_indexed=decode_throughput(data.get("throughput_indexed")),
        macro_fusible=_texts(data["macro_fusible"]) if "macro_fusible" in data else None,
        latencies=tuple(map(decode_latency, data["latencies"])),
        attributes={_of(str, name): _of(int, value) for name, value in _of(dict, data["attributes"]).items()},
        failures=_texts(data["failures"]),
        skipped=_of(str, data["skipped"]),
        derivations=tuple(
            Derivation(_of(str, each["quantity"]), _of(str, each["text"]), _texts(each["experiments"]))
            for each in _of(list, data["derivations"])
        ),
    )


def encode_samples(series: Iterable[Series]) -> bytes:
    """Write raw samples: zlib over JSON `[[copies, iterations, {counter: [[value, times], ...]}], ...]`, in order.

    Runs of equal values are written once with their length: on a quiet machine most repetitions agree.
    """
    texts = []
    for each in series:
        counters = ",".join([f"{_quoted(name)}:{_runs(values)}" for name, values in each.samples.items()])
        texts.append(f"[{each.copies},{each.iterations},{{{counters}}}]")
    compressor = zlib.compressobj(*_SMALL)
    return compressor.compress(f"[{','.join(texts)}]".encode()) + compressor.flush()


_SMALL = (1, zlib.DEFLATED, 12, 4)
"""Fastest level, and memory for a window of 4 KB: making room for zlib's usual 256 KB takes longer than compressing."""


@cache
def _quoted(name: str) -> str:
    """Write a counter's name as JSON."""
    return json.dumps(name)


def _runs(values: Sequence[int]) -> str:
    """Write runs of equal values as JSON; by hand, since most of what a campaign writes is this."""
    texts = []
    last, times = None, 0
    for value in values:
        if value == last:
            times += 1
            continue
        if times:
            texts.append(f"[{last},{times}]")
        last, times = value, 1
    if times:
        texts.append(f"[{last},{times}]")
    return f"[{','.join(texts)}]"


def decode_samples(data: bytes) -> tuple[Series, ...]:
    """Read what `encode_samples` wrote.

    Raises:
        ValueError: it wrote no such thing, or so much as no measurement has.
    """
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, MAXIMUM_BYTES)
    if not unpacker.eof:
        raise ValueError("samples that are cut off, or larger than those of any measurement")
    return tuple(
        Series(
            _of(int, copies),
            _of(int, iterations),
            {_of(str, name): _expanded(runs) for name, runs in _of(dict, samples).items()},
        )
        for copies, iterations, samples in json.loads(text)
    )


MAXIMUM_BYTES = 16 << 20
"""What the samples of one measurement may unpack to: thousands of times what they need."""

MAXIMUM_SAMPLES = 1_000_000
"""How many samples a counter may have."""


def _expanded(runs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    checked = [(_of(int, value), _of(int, times)) for value, times in runs]
    if sum(abs(times) for _, times in checked) > MAXIMUM_SAMPLES:
        raise ValueError("more samples than any measurement has")
    return tuple(chain.from_iterable(repeat(value, times) for value, times in checked))


def decode_measurement(benchmark_id: str, status: str, detail: str, samples: bytes) -> Measurement:
    """Put a stored measurement together again."""
    return Measurement(benchmark_id, Status(status), decode_samples(samples), detail)
