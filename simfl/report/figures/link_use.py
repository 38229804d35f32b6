"""How much of the server's shared link was in use."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import percent
from simfl.report.study import Group, Study
from simfl.results.link_use import SIDES, link_rates, mean_rates

if TYPE_CHECKING:
    from pandas import DataFrame

BINS = 120
TITLES = {"down": "From the server", "up": "To the server"}


@figure("link_use", "Use of the server's link", "Time", wide=True)
def draw(study: Study) -> Drawn:
    """Share of the server's bandwidth in use, where messages share it; averaged over a hundredth or so of the run. A
    run without a record of its messages (trace: events) shows the mean of each round.
    """
    from pandas import concat

    shown = [(group, table) for group in study.groups if (table := _table(group)) is not None]
    if not shown:
        raise NothingToDraw("no run has a shared link (network.server)")
    fig, (panels,) = style.figure(1, len(SIDES), wide=True, sharey=True)
    for axes, side in zip(panels, SIDES, strict=True):
        for group, table in shown:
            rows = table[table["side"] == side]
            axes.plot(rows["time_s"], rows["use"], drawstyle="steps-mid", **style.line_style(group, len(rows)))
        style.title(axes, TITLES[side])
        axes.set_xlabel("Simulated time (s)")
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
    percent(panels[0].yaxis)
    panels[0].set_ylabel("Bandwidth in use")
    style.legend(fig, panels[0])
    return fig, concat([table for _, table in shown], ignore_index=True)


def _table(group: Group) -> "DataFrame | None":
    """Rows: group, side, time_s (the middle of a bin or round), use (0 to 1); None where nothing is shared."""
    from pandas import DataFrame, concat

    run = group.first
    server = run.scenario["network"].get("server")
    capacities = {side: server.get(f"{side}_bytes_per_s") for side in SIDES} if isinstance(server, dict) else {}
    limits = {side: float(limit) for side, limit in capacities.items() if limit is not None}
    ends_s = run.rounds["time_s"].to_numpy(dtype=np.float64)
    if not limits or not len(ends_s) or not ends_s[-1]:
        return None
    edges_s = np.linspace(0.0, ends_s[-1], BINS + 1)
    rates: dict[str, Any] = {}
    if run.events:
        with open(run.events, encoding="utf-8") as lines:
            rates = link_rates(json.loads(line) for line in lines)
    tables = []
    for side, limit in limits.items():
        if rates:
            bounds_s, means = edges_s, mean_rates(rates[side][0], rates[side][1], edges_s)
        else:
            longer = np.diff(ends_s, prepend=0.0) > 0
            bounds_s = np.append(0.0, ends_s[longer])
            means = np.diff(run.rounds[f"bytes_{side}"].cumsum().to_numpy()[longer], prepend=0.0) / np.diff(bounds_s)
        middle_s = (bounds_s[1:] + bounds_s[:-1]) / 2
        tables.append(DataFrame({"group": group.label, "side": side, "time_s": middle_s, "use": means / limit}))
    return concat(tables, ignore_index=True)
