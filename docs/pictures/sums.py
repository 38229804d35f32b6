"""The picture of a secure sum: four clients, pairwise masks, and a server that learns the sum only.

    python docs/pictures/sums.py

Writes ``sums.svg`` beside this file, and ``sums.csv`` with the numbers in it.
"""

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pandas import DataFrame

from simfl.report import style
from simfl.report.saving import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
MODULUS = 100
UPDATES = (12, 7, 30, 5)


def compute() -> DataFrame:
    """A row a client: its update, the mask that it adds, what it sends. Each pair of clients shares a random number,
    which the first of them adds and the second subtracts, modulo MODULUS.
    """
    rng = np.random.Generator(np.random.Philox(5))
    mask = np.zeros(len(UPDATES), np.int64)
    for first, second in combinations(range(len(UPDATES)), 2):
        shared = rng.integers(MODULUS)
        mask[first] += shared
        mask[second] -= shared
    mask %= MODULUS
    sent = (np.array(UPDATES) + mask) % MODULUS
    return DataFrame({"client": range(len(UPDATES)), "update": UPDATES, "mask": mask, "sent": sent})


def draw(table: DataFrame) -> "Figure":
    """Clients on the left, what they send on the arrows, the server with its sum on the right."""
    fig, grid = style.figure(wide=True, height_in=2.7)
    axes = grid[0, 0]
    axes.set_xlim(0, 10)
    axes.set_ylim(-0.6, len(table) - 0.1)
    axes.axis("off")
    box = {"boxstyle": "round,pad=0.5", "facecolor": style.PAPER, "edgecolor": style.SERIES[0]}
    places = list(reversed(table.client))
    for row, height in zip(table.itertuples(), places, strict=True):
        text = f"client {row.client}: update {row.update}, mask {row.mask}"
        axes.annotate(
            "", (6.4, 1.5 + (height - 1.5) * 0.25), (2.3, height),
            arrowprops={"arrowstyle": "->", "color": style.MUTED},
        )  # fmt: skip
        axes.text(0.1, height, text, va="center", bbox=box)
        place = {"x": 4.0, "y": height - (height - 1.5) * 0.31, "backgroundcolor": style.PAPER}
        axes.text(s=f"sends {row.sent}", va="center", ha="center", color=style.SERIES[1], **place)
    sent = " + ".join(str(value) for value in table.sent)
    total = table.sent.sum() % MODULUS
    words = f"server: {sent}\n= {total} modulo {MODULUS}\n= the sum of the four updates"
    axes.text(6.5, 1.5, words, va="center", linespacing=1.6, bbox=box)
    return fig


def main() -> None:
    table = compute()
    with style.settings():
        save(draw(table), table, HERE / "sums.svg")


if __name__ == "__main__":
    main()
