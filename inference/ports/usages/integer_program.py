"""Whole numbers that fulfil linear conditions, found by HiGHS: https://highs.dev.

A condition says which of the numbers it is about, and what their sum is at least and at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from inference.ports.solver import silent_solver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highspy import Highs

Condition: TypeAlias = tuple["Sequence[bool]", int, int]
"""Which numbers are added, and the least and the greatest value that their sum may have."""


@dataclass(frozen=True, slots=True)
class IntegerProgram:
    """Whole numbers from 0 to a limit, with conditions on sums of them."""

    solver: Highs

    @classmethod
    def of(cls, limit: int, count: int, conditions: Sequence[Condition]) -> IntegerProgram:
        """Return the program of `count` numbers, each at most `limit`."""
        import highspy  # noqa: PLC0415 - loading the solver takes longer than all the rest of a start

        solver = silent_solver()
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = count, len(conditions)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = [0.0] * count
        model.col_lower_, model.col_upper_ = [0.0] * count, [float(limit)] * count
        model.integrality_ = [highspy.HighsVarType.kInteger] * count
        model.row_lower_ = [float(least) for _, least, _ in conditions]
        model.row_upper_ = [float(most) for _, _, most in conditions]
        added = [[at for at, member in enumerate(members) if member] for members, _, _ in conditions]
        starts = [0]
        for one in added:
            starts.append(starts[-1] + len(one))
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = starts
        model.a_matrix_.index_ = [at for one in added for at in one]
        model.a_matrix_.value_ = [1.0] * starts[-1]
        solver.passModel(model)
        return cls(solver)

    def most(self, wanted: Sequence[int]) -> list[int] | None:
        """Return numbers that fulfil all conditions, with the greatest sum of those at `wanted` (None: none do)."""
        import highspy  # noqa: PLC0415 - likewise

        for at in range(self.solver.getNumCol()):
            self.solver.changeColCost(at, float(at in wanted))
        self.solver.run()
        status = self.solver.getModelStatus()
        if status in {highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kModelEmpty}:
            return None
        assert status == highspy.HighsModelStatus.kOptimal, self.solver.modelStatusToString(status)
        return [round(value) for value in self.solver.getSolution().col_value]
