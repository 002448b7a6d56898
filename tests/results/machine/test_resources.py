"""Ports that were inferred by time get letters, and the file says which of them load and store."""

from __future__ import annotations

import pytest

from results.machine.build import behaviour_from
from results.machine.constants import core_of
from results.machine.facts import FormFacts, VariantFacts
from results.machine.graph import Knowledge, KnownShare, UopKind
from results.machine.resources import with_resources
from results.model import PORT_LETTERS, Form, PortUsage
from xed_convert.catalogue.catalogue import Catalogue

USAGES = {
    "MOV (R64, M64)": "1*r15A",
    "MOV (R32, M32)": "1*r15A",
    "MOVZX (R32, M8)": "1*r15A",
    "MOV (M64, R64)": "1*r15",
    "MOV (M32, R32)": "1*r15",
    "MOV (M16, R16)": "1*r15",
    "MOVAPS (XMM, M128)": "1*r34",  # stated once only, wrongly
    "ADD_01 (R64, R64)": "1*r0234",
    "PADDB (XMM, XMM)": "1*FP0123",
}


def test_what_loads_and_stores_follows_from_variants_with_one_uop() -> None:
    catalogue = Catalogue.load()
    usages = [(catalogue.by_string(string), PortUsage.parse(text)) for string, text in USAGES.items()]
    core = with_resources(core_of("ZEN4"), usages)
    letters = core.ports.resources
    assert set(core_of("ZEN4").ports.all) < set(core.ports.all)
    assert len(set(letters.values())) == len(letters)
    assert core.ports.load == letters["r1"] + letters["r5"] + letters["rA"]
    assert core.ports.store_data == letters["r1"] + letters["r5"]
    facts = VariantFacts({Form.PLAIN: FormFacts(PortUsage.parse("1*r0234+1*r15A"))}, {})
    uops = behaviour_from(catalogue.by_string("ADD (R64, M64)"), facts, core).uops
    assert [(uop.kind, len(uop.ports)) for uop in uops if uop.ports] == [(UopKind.LOAD, 3), (UopKind.COMPUTE, 4)]


def test_a_core_without_such_resources_stays_as_it_is() -> None:
    variant = Catalogue.load().by_string("ADD_01 (R64, R64)")
    core = core_of("HSW")
    assert with_resources(core, [(variant, PortUsage.parse("1*p0156"))]) is core


def test_new_names_load_and_store_beside_the_ports_of_the_core() -> None:
    """A campaign on an Intel core by time alone names ports r0, ..., not as the constants of the core do."""
    catalogue = Catalogue.load()
    usages = [(catalogue.by_string(string), PortUsage.parse(text)) for string, text in USAGES.items()]
    core = with_resources(core_of("HSW"), usages)
    letters = core.ports.resources
    assert core.ports.load == core_of("HSW").ports.load + letters["r1"] + letters["r5"] + letters["rA"]
    assert core.ports.store_data == core_of("HSW").ports.store_data + letters["r1"] + letters["r5"]


@pytest.mark.parametrize("name", ["SPR", "ICX", "HSW", "ZEN4", "ADL-E"])
@pytest.mark.parametrize("count", range(12, len(PORT_LETTERS) + 1))
def test_every_port_by_time_has_a_letter_of_its_own(name: str, count: int) -> None:
    variant = Catalogue.load().by_string("ADD_01 (R64, R64)")
    names = [f"r{letter}" for letter in PORT_LETTERS[:count]]
    core = with_resources(core_of(name), [(variant, PortUsage({frozenset(names): 1}))])
    letters = [core.ports.resources[port] for port in names]
    assert len(set(letters)) == count
    assert set(letters) <= set(core.ports.all) <= set(PORT_LETTERS)
    assert len(set(core.ports.all)) == len(core.ports.all)
    roles = core.ports.load + core.ports.store_address + core.ports.store_data + core.ports.no_index
    others = core.ports.alternating.replace(" ", "") + "".join(core.ports.shared_counters) + core.ports.not_taken
    assert not set(letters) & set(roles + others)
    assert len(set(core.ports.resources.values())) == len(core.ports.resources)
    facts = VariantFacts({Form.PLAIN: FormFacts(PortUsage({frozenset(names): 1}))}, {})
    (uop,) = behaviour_from(variant, facts, core).uops
    assert len(uop.ports) == count


def test_ports_that_the_file_names_keep_their_letters() -> None:
    variant = Catalogue.load().by_string("ADD_01 (R64, R64)")
    usage = PortUsage.parse("1*p0156+1*r0123456789AB")
    core = with_resources(core_of("SPR"), [(variant, usage)])
    assert {"0", "1", "5", "6"} <= set(core.ports.all) - set(core.ports.resources.values())
    assert len(set(core.ports.resources.values())) == 12


def test_ports_of_usages_that_are_known_in_part_get_letters_and_no_role() -> None:
    variant = Catalogue.load().by_string("ADD (R64, M64)")
    core = with_resources(core_of("HSW"), [], [PortUsage.parse("1*r45")])
    assert core.ports.resources.keys() == {"r4", "r5"}
    assert core.ports.load == core_of("HSW").ports.load
    known = FormFacts(some_ports=PortUsage.parse("1*r45"), by_time=True)
    made = behaviour_from(variant, VariantFacts({Form.PLAIN: known}, {}), core)
    assert (str(made.port_usage), made.knowledge) == ("1*p89", Knowledge(True, KnownShare.SOME, True, False))
