"""What became of a variant in a campaign: a conclusion, an error, or that it was skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.findings import Text
from results.model import Characterization

if TYPE_CHECKING:
    from runner.measuring.session import Finished
    from xed_convert.model import InstructionVariant


@dataclass(frozen=True, slots=True)
class Concluded:
    """A conclusion about a variant, and the keys of the requests that it is drawn from."""

    result: Characterization
    requests: tuple[str, ...] = ()


def concluded(variant: InstructionVariant, finished: Finished[Characterization]) -> Concluded:
    """Return the conclusion of a task; the error that ended it is the only failure."""
    failed = (Text(str(finished.error)),)
    result = finished.result or Characterization(variant.key, variant.string, variant.iform, failures=failed)
    return Concluded(result, finished.requests)


def skipped(variant: InstructionVariant, reason: str) -> Concluded:
    """Return that nothing of a variant was measured, and why."""
    return Concluded(Characterization(variant.key, variant.string, variant.iform, skipped=reason))
