"""Bypass delays as JSON; `docs/bypass.md` describes the members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from results.campaign.codec import encode_provenance

if TYPE_CHECKING:
    from fractions import Fraction

    from results.bypass.model import BypassMatrix, BypassReport, FileMatrix, MeasuredRing

Json = dict[str, Any]
"""A JSON object."""

FORM = "uopscope bypass 1"
"""What a document calls itself."""


def encode(report: BypassReport) -> Json:
    """Write all of it; cycles are numbers, null where they are not known."""
    return {
        "form": FORM,
        "provenance": encode_provenance(report.provenance),
        "problems": list(report.problems),
        "classes": [
            {"class": one.label, "file": one.file, "instruction": one.instruction, "latency": _cycles(one.cycles)}
            for one in report.classes
        ],
        "delays": [_encode_matrix(one) for one in report.matrices],
        "between_files": [_encode_between(one) for one in report.between_files],
        "rings": [_encode_ring(one) for one in report.rings],
    }


def _encode_matrix(matrix: BypassMatrix) -> Json:
    return {
        "file": matrix.file,
        "reference": matrix.reference or None,
        "problem": matrix.problem or None,
        "cells": [
            {
                "producer": one.producer,
                "consumer": one.consumer,
                "least": one.least,
                "most": one.most,
                "there_and_back": _cycles(one.there_and_back),
            }
            for one in matrix.cells
        ],
    }


def _encode_between(between: FileMatrix) -> Json:
    return {
        "files": list(between.files),
        "moves": list(between.moves),
        "sums": [{"classes": [one.one, one.other], "there_and_back": _cycles(one.cycles)} for one in between.sums],
    }


def _encode_ring(ring: MeasuredRing) -> Json:
    return {
        "members": list(ring.members),
        "instances": ring.instances,
        "code": list(ring.code),
        "cycles": _cycles(ring.cycles),
        "spread": float(ring.spread),
        "latencies": float(ring.own),
        "beyond": _cycles(ring.beyond),
        "detail": ring.detail or None,
    }


def _cycles(cycles: Fraction | None) -> float | None:
    return None if cycles is None else float(cycles)
