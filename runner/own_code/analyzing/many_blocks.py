"""Predicts thousands of blocks, in several processes; a stopped run can be resumed.

Blocks are cut into chunks. Finished chunks are kept in a journal beside the output, and rows are yielded in order.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.bounds.components import Running
from analysis.memory.environment import BHIVE
from analysis.prediction import PredictionMode
from results.processes import sensible_processes
from runner.own_code.analyzing.analyzed import tools_for
from runner.own_code.journal import Journal, digest_of, resumed
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from analysis.prediction import Tools

CHUNK = 200
"""Blocks: a tenth of a second of work."""
AHEAD = 4
"""Chunks that wait for each process."""

HEADER = ("hex", "cycles", "limits", "unknown", "problem")
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """How to predict: the CPU, the file about it ("": what is shipped), how code runs, the mode, the initial state."""

    architecture: str
    data: str
    running: str
    mode: str
    bhive: bool

    def tools(self) -> Tools:
        """Return what analyzes code.

        Raises:
            UopscopeError: there is nothing about the CPU.
        """
        return tools_for(self.architecture, Path(self.data) if self.data else None, BHIVE if self.bhive else None)


def row_of(code: bytes, tools: Tools, running: Running, mode: PredictionMode) -> Row:
    """Return a block's row: its code, cycles, what limits it, how many instructions are not known, what went wrong.

    An instruction of which no latency is known is not known, either.
    """
    try:
        found = tools.predict(code, running, mode)
    except UopscopeError as error:
        return (code.hex(), "", "", "", error.message)
    block = found.bounds.block
    unknown = len(block.unknown) + len(block.untimed)
    return (code.hex(), f"{found.cycles:.2f}", " ".join(found.limits), str(unknown), "")


def journal_of(output: Path, task: PredictionTask, blocks: Sequence[bytes]) -> Journal:
    """Return the journal of these blocks beside an output.

    Raises:
        OutputError: it cannot be written, or another process writes it.
    """
    data = Path(task.data)
    stamp = data.stat().st_mtime_ns if task.data and data.exists() else 0
    return Journal(output, {**asdict(task), "data_written": stamp, "blocks": digest_of(blocks), "chunk": CHUNK})


def predict_blocks(
    blocks: Sequence[bytes],
    task: PredictionTask,
    jobs: int = 1,
    journal: Journal | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Iterator[Row]:
    """Yield a row per block, in order.

    Args:
        blocks: their code.
        task: how to predict.
        jobs: processes.
        journal: has the chunks that are done, and keeps those that will be.
        progress: called with the blocks that are done, and all.

    Raises:
        UopscopeError: there is nothing about the CPU.
    """
    _start(task)
    starts = range(0, len(blocks), CHUNK)
    chunks = resumed(journal, starts, partial(_made, blocks, jobs))
    for start, one in zip(starts, chunks, strict=True):
        yield from map(tuple, one["rows"])
        progress(min(start + CHUNK, len(blocks)), len(blocks))


def _made(blocks: Sequence[bytes], jobs: int, starts: Sequence[int]) -> Iterator[dict[str, list[Row]]]:
    """Yield the rows of chunks in order; few chunks are sent ahead, so that a stop does not wait for many."""
    jobs = sensible_processes(jobs, len(starts))
    if jobs == 1:
        yield from ({"rows": _chunk(blocks[start : start + CHUNK])} for start in starts)
        return
    pool = ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("fork"))
    try:
        left = iter(starts)
        sent: list[Future[list[Row]]] = []
        while True:
            wanted = islice(left, jobs * AHEAD - len(sent))
            sent += [pool.submit(_chunk, blocks[start : start + CHUNK]) for start in wanted]
            if not sent:
                return
            yield {"rows": sent.pop(0).result()}
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_worker: list[tuple[Tools, Running, PredictionMode]] = []
"""This process's tools. A pool's processes are forks and have them, too: a campaign takes 14 s to read."""


def _start(task: PredictionTask) -> None:
    _worker[:] = [(task.tools(), Running(task.running), PredictionMode(task.mode))]


def _chunk(codes: Sequence[bytes]) -> list[Row]:
    ((tools, running, mode),) = _worker
    return [row_of(code, tools, running, mode) for code in codes]
