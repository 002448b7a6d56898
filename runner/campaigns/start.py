"""Opens the parts of a campaign, for the command line and for Python: the variants, the machine, the store."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.campaign.store import Store
from runner.backend import BackendError, lacks_of
from runner.measuring.protocol import Measurer
from runner.measuring.recording import info_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from results.campaign.records import Conclusion, Outcome
    from runner.backend import BackendInfo, Lacks
    from runner.backends.registry import MachineChoice
    from runner.measuring.session import MeasuresRequests
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant


@dataclass(frozen=True, slots=True)
class CampaignSetup:
    """What a campaign works with: the variants, the machine, something that measures, and the store."""

    catalogue: Catalogue
    variants: Sequence[InstructionVariant]
    info: BackendInfo
    measurer: MeasuresRequests
    store: Store
    lacks: Lacks

    def outcomes(self) -> dict[str, Outcome]:
        """Return how each of the chosen variants ended that the store has a conclusion about, by key."""
        found = self.store.outcomes()
        return {variant.key: found[variant.key] for variant in self.variants if variant.key in found}

    def conclusions(self) -> list[Conclusion]:
        """Return what the store knows about the chosen variants, in their order."""
        wanted = {variant.key: index for index, variant in enumerate(self.variants)}
        found = [each for each in self.store.conclusions() if each.result.key in wanted]
        return sorted(found, key=lambda each: wanted[each.result.key])


@contextmanager
def on_machine(
    catalogue: Catalogue,
    variants: Sequence[InstructionVariant],
    machine: MachineChoice,
    database: Path | None = None,
    *,
    reads_only: bool = False,
) -> Iterator[CampaignSetup]:
    """Open backend and store for measuring; without a database the store is in memory.

    `reads_only`: nothing is written, and a database that does not exist is not made.

    Raises:
        BackendError: the backend cannot be used here, or not for so many variants.
        StoreError: the database cannot be used, or is of another machine.
    """
    with closing(machine.open()) as backend:
        measurer = Measurer(backend)
        info = measurer.info
        check_number(info, len(variants))
        with _store(database, reads_only=reads_only) as store:
            if not reads_only:
                store.begin(info.provenance, info_to_json(info))
            yield CampaignSetup(catalogue, variants, info, measurer, store, lacks_of(backend))


def check_number(info: BackendInfo, variants: int) -> None:
    """Refuse a campaign that is too large for how the backend was set up.

    Raises:
        BackendError: it has more variants than the backend takes.
    """
    if info.most_variants and variants > info.most_variants:
        message = f"{variants} variants are too many for the backend {info.name} as it is set up"
        raise BackendError(message, hint=f"name at most {info.most_variants} with --instr; `uopscope doctor` says why")


def _store(database: Path | None, *, reads_only: bool) -> Store:
    if reads_only:
        return Store.read(database) if database and database.is_file() else Store.in_memory()
    return Store.open(database) if database else Store.in_memory()
