"""The picture of the three notions of multi-round privacy: four clients, three participation matrices.

    python docs/pictures/notions.py

Writes ``notions.svg`` beside this file, and ``notions.csv`` with the numbers in it, which the audit computes.
"""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pandas import DataFrame

from simfl.deployment.audit import audit
from simfl.report import style
from simfl.report.saving import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
MATRICES: dict[str, list[list[int]]] = {
    "A client is isolated": [[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]],
    "A pair, one weighs more": [[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0]],
    "Batches of two": [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]],
}


def compute() -> DataFrame:
    """A row a matrix: its three numbers, and the combination of rounds that has the semi-strong number."""
    rows = []
    for name, matrix in MATRICES.items():
        metrics = audit(np.array(matrix)).metrics
        witness = metrics.semi_strong_witness
        assert witness is not None and metrics.weak_lower == metrics.weak_upper
        unit = min(abs(value) for value in witness.coefficients.values())
        rows.append({
            "matrix": name,
            "strong": metrics.strong,
            "semi_strong": metrics.semi_strong,
            "weak": metrics.weak_upper,
            "combination": _terms(witness.coefficients, "round", unit),
            "left": _terms(witness.values, "client", unit),
        })  # fmt: skip
    return DataFrame(rows)


def _terms(terms: dict[int, Fraction], noun: str, unit: Fraction) -> str:
    """``round 0 + round 2 - round 1``: the terms as multiples of ``unit``, those that are added first."""
    text = ""
    for number, value in sorted(terms.items(), key=lambda term: (term[1] < 0, term[0])):
        factor = abs(value) / unit
        sign = " - " if value < 0 else " + "
        text += f"{sign}{'' if factor == 1 else f'{factor} × '}{noun} {number}"
    return text.removeprefix(" + ").strip()


def draw(table: DataFrame) -> "Figure":
    """A panel a matrix; below it the combination, what is left in it, and the three numbers."""
    fig, grid = style.figure(1, len(table), wide=True, height_in=3.0)
    for axes, row in zip(grid[0], table.itertuples(), strict=True):
        _panel(axes, np.array(MATRICES[row.matrix]))
        style.title(axes, row.matrix)
        words = [
            row.combination, f"leaves {row.left}", "",
            f"strong {row.strong}, semi-strong {row.semi_strong:g}, weak {row.weak}",
        ]  # fmt: skip
        axes.set_xlabel("\n".join(words), loc="left", linespacing=1.5)
    return fig


def _panel(axes: Any, matrix: Any) -> None:
    rounds, clients = matrix.shape
    for t in range(rounds):
        for i in range(clients):
            axes.add_patch(_cell(i, t, bool(matrix[t, i])))
            colour = style.PAPER if matrix[t, i] else style.MUTED
            axes.text(i, t, str(matrix[t, i]), ha="center", va="center", color=colour)
    axes.set_xlim(-0.5, clients - 0.5)
    axes.set_ylim(rounds - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(clients), [f"client {i}" for i in range(clients)], fontsize=6.5)
    axes.xaxis.tick_bottom()
    axes.set_yticks(range(rounds), [f"round {t}" for t in range(rounds)])
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _cell(i: int, t: int, taken: bool) -> Any:
    from matplotlib.patches import Rectangle

    face = style.SERIES[0] if taken else style.PAPER
    return Rectangle((i - 0.46, t - 0.46), 0.92, 0.92, facecolor=face, edgecolor=style.LINE, linewidth=0.6)


def main() -> None:
    table = compute()
    with style.settings():
        save(draw(table), table, HERE / "notions.svg")


if __name__ == "__main__":
    main()
