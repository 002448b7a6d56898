"""The experiments behind the numbers, as scripts that pages load on demand.

Several variants share a script, so that common lines of code and counters are compressed once. It is base64 of deflated
JSON:

    {"lines": [[bytes in hex, text], ...],
     "variants": [[[[quantity, how it came about], ...],
                   [[counters wanted, loop or unrolled, purpose, status, detail, [line, ...],
                     [[copies, iterations, {counter: samples}], ...]], ...]], ...]}

Samples with few distinct values are `[differences, letters]`. The running sums of the differences are the sorted
values, and each letter of `ALPHABET` stands for one of them. Other samples are a list of values. Samples of the first
counter are in the order of time. Those of the other counters are sorted by value, which packs better; campaign files
have them in the order of time.
"""

from __future__ import annotations

import base64
import json
import string
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from results import sentences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from results.campaign.records import Sample
    from results.model import Derivation

ALPHABET = string.ascii_lowercase + string.ascii_uppercase + string.digits

SHARE = 40
"""Variants per script: enough to have much in common, few enough to be loaded for one of them."""


@dataclass(frozen=True, slots=True)
class Background:
    """The derivations of one variant's numbers, and the measurements that they rest on."""

    derivations: tuple[Derivation, ...]
    evidence: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class ExperimentsPlace:
    """Where a page finds its experiments: the script within the site, its place there, how many there are."""

    script: str
    number: int
    count: int


def script(backgrounds: Sequence[Background]) -> str:
    """Return the script with the experiments of some variants."""
    lines: dict[tuple[bytes, str], int] = {}
    variants = [
        [
            [[sentences.heading(one, None), "\n".join(sentences.lines(one))] for one in background.derivations],
            [_experiment(one, lines) for one in background.evidence],
        ]
        for background in backgrounds
    ]
    table = {"lines": [[code.hex(), text] for code, text in lines], "variants": variants}
    data = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    return f'window.uopscopeExperiments("{base64.b64encode(zlib.compress(data, 9)).decode()}");\n'


def _experiment(one: Sample, lines: dict[tuple[bytes, str], int]) -> list[object]:
    want, mode, _ = one.asked
    return [
        want,
        mode,
        one.benchmark.purpose,
        one.measurement.status.value,
        one.measurement.detail,
        [lines.setdefault(line, len(lines)) for line in one.benchmark.body],
        [[series.copies, series.iterations, _counters(series.samples)] for series in one.measurement.series],
    ]


def _counters(samples: Mapping[str, Sequence[int]]) -> dict[str, list[object]]:
    """Return the samples of each counter, those of the first in the order of time."""
    return {name: packed(sorted(found) if at else found) for at, (name, found) in enumerate(samples.items())}


def packed(samples: Sequence[int]) -> list[object]:
    """Return samples as differences and letters, or as they are where there are too many values."""
    values = sorted(set(samples))
    if not values or len(values) > len(ALPHABET):
        return list(samples)
    letters = dict(zip(values, ALPHABET, strict=False))
    differences = [values[0], *(later - earlier for earlier, later in pairwise(values))]
    return [differences, "".join(letters[value] for value in samples)]
