"""The picture of three selection policies: every set of clients that a round may have, for 8 clients, 4 a round.

    python docs/pictures/policies.py

Writes ``policies.svg`` beside this file, and ``policies.csv`` with the rows in it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pandas import DataFrame

from simfl.report import style
from simfl.report.saving import save
from simfl.selection.theory.families import DisjointUnits, NeighbourPairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
CLIENTS, K = 8, 4
FAMILIES: dict[str, DisjointUnits | NeighbourPairs] = {
    "partition": DisjointUnits(CLIENTS, K, K),
    "half_partition:T=4": NeighbourPairs(CLIENTS, K, 4),
    "batch_partition:T=2": DisjointUnits(CLIENTS, K, 2),
}


def compute() -> DataFrame:
    """A row for each row that a policy allows: the policy, its guarantees for any number of rounds, the clients."""
    rows = []
    for policy, family in FAMILIES.items():
        strong, semi_strong = family.guarantee(np.ones(CLIENTS))
        for members in family.rows():
            clients = " ".join(str(i) for i in sorted(int(i) for i in members))
            rows.append({"policy": policy, "strong": strong, "semi_strong": semi_strong, "clients": clients})
    return DataFrame(rows)


def draw(table: DataFrame) -> "Figure":
    """A panel a policy, a line of cells for each row that it allows."""
    fig, grid = style.figure(1, len(FAMILIES), wide=True, height_in=2.6)
    for axes, (policy, rows) in zip(grid[0], table.groupby("policy", sort=False), strict=True):
        _panel(axes, [{int(i) for i in clients.split()} for clients in rows.clients])
        style.title(axes, str(policy))
        words = f"strong {rows.strong.iloc[0]}, semi-strong and weak {rows.semi_strong.iloc[0]}"
        axes.set_xlabel(f"client\n{len(rows)} possible rounds\n{words}", linespacing=1.6)
    return fig


def _panel(axes: Any, rows: list[set[int]]) -> None:
    from matplotlib.patches import Rectangle

    most = 6
    for t, members in enumerate(rows):
        for i in range(CLIENTS):
            face = style.SERIES[0] if i in members else style.PAPER
            cell = Rectangle((i - 0.46, t - 0.42), 0.92, 0.84, facecolor=face, edgecolor=style.LINE, linewidth=0.6)
            axes.add_patch(cell)
    axes.set_xlim(-0.6, CLIENTS - 0.4)
    axes.set_ylim(most - 0.5, -0.6)
    axes.set_xticks(range(CLIENTS))
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def main() -> None:
    table = compute()
    with style.settings():
        save(draw(table), table, HERE / "policies.svg")


if __name__ == "__main__":
    main()
