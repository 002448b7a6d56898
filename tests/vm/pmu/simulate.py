"""Characterizes variants on the simulated core through a recorder; in the guest the same has to come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.campaign.store import Store
from results.sentences import failure
from runner.backends.sim import create
from runner.campaigns.campaign import Campaign
from runner.measuring.protocol import Measurer
from runner.measuring.recording import info_to_json
from tests.vm.pmu.recording import RecordingKmod
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.model import Characterization
    from runner.backend import Backend
    from runner.host.kmod.passes import Hardware
    from xed_convert.model import InstructionVariant


def characterize(backend: Backend, variants: Sequence[InstructionVariant]) -> dict[str, Characterization]:
    """Return the conclusion about each variant, by string, of a campaign as `characterize` carries it out.

    Ports are not asked by time alone: that takes an emulated machine minutes.
    """
    catalogue = Catalogue.load()
    measurer = Measurer(backend)
    with Store.in_memory() as store:
        store.begin(measurer.info.provenance, info_to_json(measurer.info))
        method = Characterizer(catalogue, measurer.info.capabilities)
        campaign = Campaign(store, measurer, method)
        return {result.string: result for result in campaign.run(variants, on_change=lambda _: None)}


def record(core: str, hardware: Hardware | None, strings: Sequence[str]) -> tuple[dict[str, Characterization], bytes]:
    """Return what the simulated core gives, and the records for the emulated PMU."""
    catalogue = Catalogue.load()
    recorder = RecordingKmod(create(architecture=core), core, hardware, clean_uppers=True)
    found = characterize(recorder, [catalogue.by_string(string) for string in strings])
    recorder.close()
    return found, recorder.records()


def summary(result: Characterization) -> str:
    """Return what is compared: every conclusion, in one line."""
    latencies = [
        (each.source, each.destination, str(each.cycles), each.bound.value, each.part.value, each.source_flag)
        for each in result.latencies
    ]
    throughput = (result.throughput.unrolled, result.throughput.loop, result.throughput.ports)
    ports = "" if result.ports is None else str(result.ports)
    failures = [failure(each) for each in result.failures]
    return f"{result.string} | {result.uops} | {ports} | {tuple(map(str, throughput))} | {latencies} | {failures}"
