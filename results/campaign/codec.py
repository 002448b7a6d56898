"""Conclusions, provenance and raw samples as JSON and back: the form in which the store and `--json` keep them.

Numbers of cycles stay exact: an integer, or a string "5/4". `decode(encode(x)) == x` for each pair of functions here.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import fields, replace
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from results.campaign.scalars import checked, fraction, number
from results.campaign.tagged import decode_failure, decode_key, decode_step, encode_key, encode_tagged
from results.findings import Text
from results.model import (
    SPECIAL_FORMS,
    Bound,
    Characterization,
    Derivation,
    Form,
    FormResult,
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
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

Json: TypeAlias = dict[str, Any]
"""A JSON object; the functions here know its members' types."""


def _cycles(value: int | str) -> Fraction:
    cycles = fraction(value)
    if cycles is None:
        raise ValueError("a latency without cycles")
    return cycles


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
    members = dict(checked(dict, data))
    options = {checked(str, name): checked(str, value) for name, value in checked(dict, members.pop("options")).items()}
    caveats = tuple(checked(str, caveat) for caveat in checked(list, members.pop("caveats")))
    is_model = checked(bool, members.pop("is_model"))
    texts = {name: checked(str, value) for name, value in members.items()}
    return Provenance(**texts, options=options, caveats=caveats, is_model=is_model)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(checked(str, text) for text in checked(list, value))


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
        source=checked(int, data["source"]),
        destination=checked(int, data["destination"]),
        cycles=_cycles(data["cycles"]),
        bound=Bound(data["bound"]),
        chain=checked(str, data["chain"]),
        part=LatencyPart(data.get("part", "")),
        source_flag=checked(str, data.get("source_flag", "")),
        destination_flag=checked(str, data.get("destination_flag", "")),
        same_register=checked(bool, data.get("same_register", False)),
        fast_values=checked(bool, data.get("fast_values", False)),
        spread=fraction(data.get("spread")),
        experiments=_texts(data.get("experiments", [])),
    )


def encode_throughput(throughput: Throughput) -> Json:
    """Write all numbers, None where one is not known; rhythms only where there are any."""
    values = {field.name: getattr(throughput, field.name) for field in fields(Throughput)}
    rhythms = {name: [number(one) for one in values.pop(name)] for name in _RHYTHMS}
    plain: Json = {name: number(value) for name, value in values.items()}
    return plain | {name: found for name, found in rhythms.items() if found}


def decode_throughput(data: Json | None) -> Throughput:
    """Read what `encode_throughput` wrote (None: nothing is known)."""
    members = dict(checked(dict, data or {}))
    unrolled, looped = (tuple(map(_cycles, checked(list, members.pop(name, [])))) for name in _RHYTHMS)
    found = {name: fraction(value) for name, value in members.items()}
    return replace(Throughput(**found), unrolled_rhythms=unrolled, loop_rhythms=looped)  # type: ignore[arg-type]


_RHYTHMS = ("unrolled_rhythms", "loop_rhythms")
"""Members that are lists."""


def _encode_forms(forms: Mapping[Form, FormResult]) -> Json:
    """Write `ports` and `throughput` of each form; those of special forms end with the form's name."""
    return {
        name + _ending(form): value
        for form, result in forms.items()
        for name, value in (
            ("ports", None if result.ports is None else str(result.ports)),
            ("throughput", encode_throughput(result.throughput)),
        )
    }


def _decode_forms(data: Json) -> dict[Form, FormResult]:
    """Read what `_encode_forms` wrote; a special form with neither was not measured."""
    found = {Form.PLAIN: (data["ports"], data["throughput"])}
    for form in SPECIAL_FORMS:
        found[form] = (data.get(f"ports{_ending(form)}"), data.get(f"throughput{_ending(form)}"))
    return {
        form: FormResult(None if ports is None else PortUsage.parse(checked(str, ports)), decode_throughput(throughput))
        for form, (ports, throughput) in found.items()
        if form is Form.PLAIN or (ports, throughput) != (None, None)
    }


def _ending(form: Form) -> str:
    return "" if form is Form.PLAIN else f"_{form.name.lower()}"


def encode_characterization(result: Characterization) -> Json:
    """Write all conclusions about a variant."""
    fusible = {} if result.macro_fusible is None else {"macro_fusible": list(result.macro_fusible)}
    return {
        "key": result.key,
        "string": result.string,
        "iform": result.iform,
        "uops": result.uops,
        **_encode_forms(result.forms),
        **fusible,
        "latencies": [encode_latency(latency) for latency in result.latencies],
        "attributes": dict(result.attributes),
        "failures": [encode_tagged(failure) for failure in result.failures],
        "skipped": result.skipped,
        "derivations": [_encode_derivation(each) for each in result.derivations],
    }


def decode_characterization(data: Json) -> Characterization:
    """Read what `encode_characterization` wrote."""
    return Characterization(
        key=checked(str, data["key"]),
        string=checked(str, data["string"]),
        iform=checked(str, data["iform"]),
        uops=None if data["uops"] is None else checked(int, data["uops"]),
        forms=_decode_forms(data),
        macro_fusible=_texts(data["macro_fusible"]) if "macro_fusible" in data else None,
        latencies=tuple(map(decode_latency, data["latencies"])),
        attributes={
            checked(str, name): checked(int, value) for name, value in checked(dict, data["attributes"]).items()
        },
        failures=tuple(map(decode_failure, checked(list, data["failures"]))),
        skipped=checked(str, data["skipped"]),
        derivations=tuple(map(_decode_derivation, checked(list, data["derivations"]))),
    )


def _encode_derivation(derivation: Derivation) -> Json:
    latency = {} if derivation.latency is None else {"latency": encode_key(derivation.latency)}
    return {
        "quantity": derivation.quantity,
        "steps": [encode_tagged(step) for step in derivation.steps],
        "experiments": list(derivation.experiments),
        **latency,
    }


def _decode_derivation(data: Json) -> Derivation:
    """Read what `_encode_derivation` wrote, or a derivation of an older file, whose steps are lines of `text`."""
    lines = checked(str, data.get("text", "")).splitlines()
    steps = map(decode_step, checked(list, data["steps"])) if "steps" in data else map(Text, lines)
    return Derivation(
        checked(str, data["quantity"]),
        tuple(steps),
        _texts(data["experiments"]),
        decode_key(data["latency"]) if "latency" in data else None,
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
    """Write runs of equal values as JSON. It is done by hand, since most of a campaign's file is this."""
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
        ValueError: it did not write this, or there is more than any measurement has.
    """
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, MAXIMUM_BYTES)
    if not unpacker.eof:
        raise ValueError("samples that are cut off, or larger than those of any measurement")
    return tuple(
        Series(
            checked(int, copies),
            checked(int, iterations),
            {_counter(checked(str, name)): _expanded(runs) for name, runs in checked(dict, samples).items()},
        )
        for copies, iterations, samples in json.loads(text)
    )


OTHER_NAMES = {"witness": "contention_probe"}
"""Other names that counters have in files, with ours."""


def _counter(name: str) -> str:
    return OTHER_NAMES.get(name, name)


MAXIMUM_BYTES = 16 << 20
"""Bytes that the samples of one measurement may unpack to: thousands of times what they need."""

MAXIMUM_SAMPLES = 1_000_000
"""How many samples a counter may have."""


def _expanded(runs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    pairs = [(checked(int, value), checked(int, times)) for value, times in runs]
    if sum(abs(times) for _, times in pairs) > MAXIMUM_SAMPLES:
        raise ValueError("more samples than any measurement has")
    return tuple(chain.from_iterable(repeat(value, times) for value, times in pairs))


def decode_measurement(status: str, detail: str, samples: bytes) -> Measurement:
    """Put a stored measurement together again."""
    return Measurement(Status(status), decode_samples(samples), detail)
