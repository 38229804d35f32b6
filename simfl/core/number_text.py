"""How values of a unit are written in the terminal, in notebooks and in LaTeX tables."""

from collections.abc import Callable

from simfl.core.columns import Column, Unit

Form = Callable[[float], str]

FORMS: dict[Unit, tuple[str, Form]] = {
    "share": ("", lambda x: f"{x:.4f}"),
    "seconds": (", s", lambda x: f"{x:.4g}"),
    "bytes": (", MB", lambda x: f"{x / 1e6:.4g}"),
    "count": ("", lambda x: f"{x:.4g}"),
    "number": ("", lambda x: f"{x:.4g}"),
}
"""What a heading adds for the unit, and the format."""

ROUNDING = 1e-9
"""Half-widths below this share of the mean are rounding errors."""


def heading(column: Column) -> str:
    """A column's heading with the unit in which :func:`number` writes its values: ``Bytes, MB``."""
    return column.heading + FORMS[column.unit][0]


def number(column: Column, value: object) -> str:
    """A value of a column, without its unit; a dash where it is missing, the text itself where it is no number."""
    if value is None or value != value:
        return "–"
    return FORMS[column.unit][1](value) if isinstance(value, (int, float)) else str(value)


def mean_text(form: Form, mean: float, half: float | None, runs: int, seeds: int) -> str:
    """A mean over seeds: ``0.912 ±0.003 (4/5)``.

    Args:
        form: how its values are written.
        mean: over the runs that have a value.
        half: half the width of its interval; None = not known. One that is a rounding error is left out.
        runs: how many have a value, named where they are fewer than the ``seeds``.

    >>> mean_text(FORMS["bytes"][1], 2.5e6, 1.25e5, 4, 5)
    '2.5 ±0.125 (4/5)'
    """
    spread = f" ±{form(half)}" if half and half > ROUNDING * abs(mean) else ""
    return form(mean) + spread + (f" ({runs}/{seeds})" if runs < seeds else "")
