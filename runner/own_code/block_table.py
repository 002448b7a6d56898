"""The table of measured basic blocks, a row for each. A journal keeps those of a stopped run, which can be resumed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runner.own_code.journal import Journal, digest_of, machine_of, resumed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from runner.own_code.blocks import BlockMeasurer, BlockMode, BlockResult

COLUMNS = ("cycles", "spread", "status", "reason")
"""Of each mode."""


def block_header(modes: Sequence[BlockMode]) -> list[str]:
    """Return the names of the columns: the mode is in front of them where there are several."""
    prefixes = ["" if len(modes) == 1 else f"{mode.value}_" for mode in modes]
    return ["hex", *(f"{prefix}{column}" for prefix in prefixes for column in COLUMNS)]


def block_journal(output: Path, measurer: BlockMeasurer, blocks: Sequence[bytes]) -> Journal:
    """Return the journal of these blocks beside an output: of this machine and these options.

    Raises:
        OutputError: it cannot be written, or another process writes it.
    """
    machine = machine_of(measurer.info.provenance)
    return Journal(output, {"blocks": digest_of(blocks), "options": asdict(measurer.options), "machine": machine})


def block_rows(
    measurer: BlockMeasurer,
    blocks: Sequence[bytes],
    journal: Journal | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Iterator[list[str]]:
    """Yield a row per block, in order: its bytes, and cycles, spread, status and reason of each mode.

    Args:
        measurer: measures them.
        blocks: their code.
        journal: has the rows that are known, and keeps those that are measured.
        progress: called with the blocks that are done, and all.

    Raises:
        BackendError: the backend broke down.
        OutputError: the journal cannot be written.
    """

    def made(places: Iterable[int]) -> Iterator[dict[str, Any]]:
        for result in measurer.measure(blocks[place] for place in places):
            yield {"row": _row(result, measurer.options.modes)}

    for done, one in enumerate(resumed(journal, range(len(blocks)), made), 1):
        progress(done, len(blocks))
        yield list(one["row"])


def _row(result: BlockResult, modes: Sequence[BlockMode]) -> list[str]:
    row = [result.code.hex()]
    for mode in modes:
        timing = result.timings[mode]
        row += ["" if one is None else f"{one:.4f}" for one in (timing.cycles, timing.spread)]
        row += [timing.status.value, timing.reason]
    return row
