"""Variants of simulated machines characterized through the backend `sim`; what several tests need is made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from generator.sequences.blocking import kind_of
from inference.characterizer import CandidateCache, Characterizer
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from generator.sequences.blocking import CodeKind
    from inference.context import Context
    from results.model import Characterization
    from xed_convert.model import InstructionVariant


_CONTEXTS: dict[tuple[str, CodeKind], Context] = {}


@dataclass(frozen=True)
class SimulatedLab:
    """A machine, and what characterizes its variants."""

    characterizer: Characterizer
    session: Session


@cache
def catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def candidates() -> CandidateCache:
    return CandidateCache(catalogue())


@cache
def simulated(machine: str) -> SimulatedLab:
    backend = SimBackend(open_machine(machine), catalogue())
    characterizer = Characterizer(catalogue(), backend.info().capabilities, candidates=candidates())
    return SimulatedLab(characterizer, Session(Measurer(backend), limits=Limits(keep_raw=False)))


def context(machine: str, variant: InstructionVariant) -> Context:
    """Return what is known of a machine before code of the variant's kind is measured."""
    place = machine, kind_of(variant)
    if place not in _CONTEXTS:
        one = simulated(machine)
        _CONTEXTS[place] = one.session.run_one(one.characterizer.prepare([variant]))
    return _CONTEXTS[place]


@cache
def characterized(machine: str, string: str) -> Characterization:
    one, variant = simulated(machine), catalogue().by_string(string)
    return one.session.run_one(one.characterizer.characterize(variant, context(machine, variant)))
