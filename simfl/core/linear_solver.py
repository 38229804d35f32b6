"""The solver of linear programmes that guarantees rest on (HiGHS)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highspy import Highs


def simplex_solver(tolerance: float) -> "Highs":
    """A solver of linear programmes by the simplex algorithm alone: silent, and in one thread.

    Args:
        tolerance: by which bounds of variables, and of reduced costs, may be missed.
    """
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has no types for it
    for option, value in (
        ("output_flag", False),
        ("presolve", "off"),
        ("solver", "simplex"),
        ("threads", 1),
        ("primal_feasibility_tolerance", tolerance),
        ("dual_feasibility_tolerance", tolerance),
    ):
        solver.setOptionValue(option, value)
    return solver
