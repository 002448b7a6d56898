"""Records of a campaign besides conclusions: the backend's description, and the inputs of inference."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Request, Want
from runner.backend import BackendInfo
from runner.measuring import aggregate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from inference.experiment import Measured
    from results.campaign.records import Sample
    from results.model import Provenance


def answer_of(evidence: Sample, calibration_core_cycles: int) -> Measured:
    """Return the values of a stored measurement, as inference got them."""
    stored = evidence.benchmark
    benchmark = Microbenchmark(_code(stored.setup), _code(stored.body), stored.purpose, stored.divisor)
    want, mode, again = evidence.asked
    request = Request(benchmark, Want(want), loop=mode == "loop", again=again)
    return aggregate.measured(request, evidence.measurement, calibration_core_cycles)


def info_to_json(info: BackendInfo) -> dict[str, Any]:
    """Return what a backend says of itself, apart from the provenance, for the store."""
    names = [field.name for field in dataclasses.fields(info) if field.name != "provenance"]
    return {name: _plain(getattr(info, name)) for name in names}


def info_from_json(data: Mapping[str, Any], provenance: Provenance) -> BackendInfo:
    """Read what `info_to_json` returned."""
    known = {field.name for field in dataclasses.fields(BackendInfo)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known
    }
    return BackendInfo(provenance=provenance, **values)


def _code(lines: Sequence[tuple[bytes, str]]) -> tuple[Line, ...]:
    return tuple(Line(code, text) for code, text in lines)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
