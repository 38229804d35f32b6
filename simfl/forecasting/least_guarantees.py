"""The least guarantees that are to hold, and whether a participation matrix still has them."""

from collections.abc import Iterable, Mapping

from simfl.core.errors import SimflError, suggestion
from simfl.privacy.multiround.matrix_metrics import multi_round

NOTIONS = ("strong", "semi_strong", "weak")
EFFORT = 500_000_000
"""Budget of the guarantees of one matrix."""


def least_values(texts: Iterable[str], option: str = "--floor") -> dict[str, float]:
    """``semi_strong=3`` as a mapping.

    Args:
        texts: one for each notion.
        option: what an error calls them.

    Raises:
        SimflError: there is no such notion, or no such number.
    """
    bounds: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in NOTIONS:
            raise SimflError(f"{option} {text}: the form is NOTION=NUMBER, with one of {', '.join(NOTIONS)}"
                             f"{suggestion(name, NOTIONS)}")  # fmt: skip
        try:
            bounds[name] = float(number)
        except ValueError:
            raise SimflError(f"{option} {text}: '{number}' is not a number, e.g. {name}=3") from None
        if not bounds[name] > 1:
            raise SimflError(f"{option} {text}: must be above 1; no guarantee is ever below 1")
    return bounds


def guarantees(matrix: object) -> dict[str, float | None]:
    """Each notion's value; None where it is not known, and the lower bound of the weak one.

    Args:
        matrix: weights of the clients in each aggregate, (J, N), as for
            :func:`simfl.privacy.multiround.matrix_metrics.multi_round`.
    """
    metrics = multi_round(matrix, budget=EFFORT)
    semi = metrics.semi_strong_bound if metrics.semi_strong is None else metrics.semi_strong
    return {"strong": metrics.strong, "semi_strong": semi, "weak": metrics.weak_lower}


def notions_below(values: Mapping[str, float | None], bounds: Mapping[str, float]) -> list[str]:
    """The notions that are known to be below their bounds."""
    return [name for name, bound in bounds.items() if (value := values[name]) is not None and value < bound]
