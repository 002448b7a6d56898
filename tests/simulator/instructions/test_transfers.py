"""Units that instructions between register files share."""

from __future__ import annotations

import pytest

from results.machine.constants import core_of
from simulator.instructions.transfers import TransferUnit, transfer_unit, writes_general
from xed_convert.catalogue.catalogue import Catalogue

CATALOGUE = Catalogue.load()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("MOVQ (R64, XMM)", TransferUnit.TO_GENERAL),
        ("CVTTSD2SI (R64, XMM)", TransferUnit.TO_GENERAL),
        ("VPEXTRD (R32, XMM, I8)", TransferUnit.TO_GENERAL),
        ("KMOVD (R32, K)", TransferUnit.TO_GENERAL),
        ("MOVD (R32, MM)", TransferUnit.TO_GENERAL),
        ("COMISD (XMM, XMM)", TransferUnit.TO_FLAGS),
        ("PTEST (XMM, XMM)", TransferUnit.TO_FLAGS),
        ("VMOVMSKPS (R32, YMM)", TransferUnit.TO_FLAGS),
        ("MOVD (XMM, R32)", TransferUnit.TO_VECTORS),
        ("CVTSI2SD (XMM, R64)", TransferUnit.TO_VECTORS),
        ("KMOVD (K, R32)", TransferUnit.TO_VECTORS),
        ("VPINSRD (XMM, XMM, R32, I8)", TransferUnit.TO_VECTORS),
        ("COMISD (XMM, M64)", TransferUnit.TO_FLAGS),
        ("MOVQ (M64, XMM)", None),
        ("PCMPISTRI (XMM, XMM, I8)", None),
        ("KORTESTB (K, K)", TransferUnit.TO_FLAGS),
        ("ADD_01 (R64, R64)", None),
        ("ADDPS (XMM, XMM)", None),
        ("FCOMI (ST0, ST(0), ST)", None),
    ],
)
def test_transfers_are_told_by_what_is_read_and_written(name: str, unit: TransferUnit | None) -> None:
    assert transfer_unit(CATALOGUE.by_string(name), core_of("ZEN4")) is unit
    assert transfer_unit(CATALOGUE.by_string(name), core_of("HSW")) is None


def test_flags_are_no_general_purpose_register() -> None:
    assert writes_general(CATALOGUE.by_string("MOVD (R32, MM)"))
    assert not writes_general(CATALOGUE.by_string("COMISD (XMM, XMM)"))
    assert not writes_general(CATALOGUE.by_string("MOVD (XMM, R32)"))
