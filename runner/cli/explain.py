"""Explain the numbers of a stored campaign: experiments, samples, arithmetic."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.support import output
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from results.campaign.records import Conclusion
    from results.campaign.store import Store
    from xed_convert.catalogue.catalogue import Catalogue

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class NotMeasuredError(UopscopeError):
    """The campaign has nothing about the variants that were asked for."""


@app.command(epilog='Example: uopscope explain skl.sqlite "ADC_11 (R64, R64)"')
def explain(
    database: Annotated[Path, typer.Argument(metavar="FILE", help="A campaign's file.")],
    patterns: Annotated[list[str], typer.Argument(metavar="PATTERN...", help="As for `characterize --instr`.")],
) -> None:
    """Show the microbenchmarks, raw samples and arithmetic behind each number of a stored campaign."""
    from results.campaign.store import Store  # noqa: PLC0415 - `--help` needs none of it
    from runner.explain import ExplainedVariant, explanation  # noqa: PLC0415
    from runner.measuring.recording import info_from_json  # noqa: PLC0415
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415

    catalogue = Catalogue.load()
    variants = {each.key: each for pattern in patterns for each in catalogue.find(pattern)}
    console = output.console()
    with Store.read(database) as store:
        for conclusion in _found(store, list(variants), catalogue):
            info = info_from_json(store.backend(), conclusion.provenance)
            case = ExplainedVariant(
                conclusion.result,
                variants[conclusion.result.key],
                store.evidence(conclusion),
                conclusion.provenance,
                info.calibration_core_cycles,
            )
            for line in explanation(case):
                console.print(line, soft_wrap=True)
            console.print(f"[dim]concluded {conclusion.time} by inference {conclusion.inference}[/dim]")
            console.print()


MOST_LISTED = 8
"""Variants of a file that a message lists."""


def _found(store: Store, keys: list[str], catalogue: Catalogue) -> list[Conclusion]:
    """Return the newest conclusion about each of the variants.

    Raises:
        NotMeasuredError: there is none about any of them.
    """
    found = [conclusion for key in keys for conclusion in store.conclusions(key)]
    if not found:
        raise NotMeasuredError(
            f"{store.path}: no conclusion about any variant that matches",
            hint=f"{_there(store, catalogue)}; characterize --instr PATTERN --db FILE measures others",
        )
    return found


def _there(store: Store, catalogue: Catalogue) -> str:
    """Say of which variants a file has conclusions."""
    from results.text import first_of  # noqa: PLC0415 - `--help` does not need it

    concluded = store.outcomes()
    names = [one.string for one in catalogue if one.key in concluded]
    return f"it has {first_of(names, MOST_LISTED) or 'none at all'}"
