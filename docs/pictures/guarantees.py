"""The decision picture of docs/explanation/which-guarantee.md: from what must not be learned to the keys to set.

    python docs/pictures/guarantees.py

Writes ``guarantees.svg`` beside this file, and ``guarantees.csv`` with the guarantees that theory gives its policies.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

import simfl
from simfl.report import style
from simfl.report.saving import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
STEPS = (
    ("Does the server see\nsingle updates?", "No policy hides them: a protocol\n(secagg), or noise at the clients", ""),
    ("Must one aggregate by itself\nsay little about a client?",
     "Differential privacy: noise and an ε\n(privacy.stages)", ""),
    ("Must groups of fewer than T\nclients stay hidden, too?", "Strong guarantee T", "batch_partition:T=4"),
    ("Must no client weigh more than\n1/T in what can be computed?", "Semi-strong guarantee T", "half_partition:T=4"),
    ("Must no single update\nbe reconstructable?", "Weak guarantee of 2 or more",
     "{name: guarded, T: 2, notion: weak, inner: {name: random, k: 8}}"),
)  # fmt: skip
"""Question, what answers it, and a policy that has it."""
SHORT = "guarded, notion: weak"
"""How the picture calls a policy of many fields."""


def compute() -> DataFrame:
    """A row a step: its words, and for its policy the guarantees for any number of rounds."""
    rows = []
    for question, answer, policy in STEPS:
        known = simfl.theory("quickstart", {"selection": policy}).selection["guarantee"] if policy else {}
        rows.append({"question": question, "answer": answer, "policy": policy or None} | known)
    return DataFrame(rows)


def draw(table: DataFrame) -> "Figure":
    """Questions from top to bottom; whoever says yes finds the answer to the right."""
    fig, grid = style.figure(1, 1, wide=True, height_in=4.6)
    axes = grid[0][0]
    axes.axis("off")
    axes.set_xlim(0, 10)
    axes.set_ylim(-0.5 - len(table), 0.5)
    for y, row in enumerate(table.itertuples()):
        policy = (
            f"\nselection: {SHORT if row.policy.startswith('{') else row.policy}" if isinstance(row.policy, str) else ""
        )
        _box(axes, 0.1, -y, 3.9, row.question, style.PAPER)
        _box(axes, 5.3, -y, 4.6, f"{row.answer}{policy}", style.LINE)
        _arrow(axes, (4.05, -y), (5.25, -y), "yes")
        _arrow(axes, (2.05, -y - 0.36), (2.05, -y - 0.64), "no")
    _box(axes, 0.1, -len(table), 3.9, "No guarantee over rounds is needed", style.PAPER)
    _box(
        axes,
        5.3,
        -len(table),
        4.6,
        "Up to C clients may work with the server:\nT + C in place of T, and a protocol that tolerates them",
        style.PAPER,
    )
    return fig


def _box(axes: Any, x: float, y: float, width: float, text: str, face: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y - 0.34), width, 0.68, facecolor=face, edgecolor=style.LINE, linewidth=0.6))
    axes.text(x + width / 2, y, text, ha="center", va="center", fontsize=7, linespacing=1.3)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], word: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "linewidth": 0.8, "color": style.MUTED})
    middle = (start[0] + end[0]) / 2 + 0.08, (start[1] + end[1]) / 2
    axes.text(*middle, word, fontsize=6.5, color=style.MUTED, va="bottom" if word == "yes" else "center")


def main() -> None:
    table = compute()
    with style.settings():
        save(draw(table), table, HERE / "guarantees.svg")


if __name__ == "__main__":
    main()
