"""The solver of linear programs: HiGHS, https://highs.dev."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highspy import Highs


def silent_solver() -> Highs:
    """Return HiGHS, which prints nothing."""
    import highspy  # noqa: PLC0415 - loading the solver takes longer than all the rest of a start

    class SilentHighs(highspy.Highs):
        """HiGHS without output: 1.16 prints a banner when the constructor enables callbacks."""

        def enableCallbacks(self) -> None:  # noqa: N802 - highspy's name
            self.silent()
            super().enableCallbacks()  # type: ignore[no-untyped-call] # highspy does not annotate it

    solver = SilentHighs()  # type: ignore[no-untyped-call] # likewise
    solver.silent()
    return solver
