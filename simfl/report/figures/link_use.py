"""How much of the shared links was in use."""

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.study import Group, Run, Study
from simfl.results.perfetto import SIDES, Traffic, mean_rates

if TYPE_CHECKING:
    from pandas import DataFrame

BINS = 120
SERVER_LINK = "server"
TITLES = {"down": "From the server", "up": "To the server"}
HEIGHT_IN = 1.9


class _Link(NamedTuple):
    """A shared link in one direction; ``crosses`` None: all messages do."""

    name: str
    side: str
    bytes_per_s: float
    crosses: NDArray[np.bool_] | None


@figure("link_use", "Use of the shared links", "Time", wide=True)
def draw(study: Study) -> Drawn:
    """Share of a link's bandwidth in use, where messages share it; averaged over a hundredth or so of the run. A run
    without a record of its messages (trace: events) shows the mean of each round, and of the server's link alone.
    """
    from pandas import concat

    shown = [(group, table) for group in study.groups if (table := _table(group)) is not None]
    if not shown:
        raise NothingToDraw("no run has a shared link (network.server; network.shared with trace: events)")
    names = list(dict.fromkeys(name for _, table in shown for name in table["link"]))
    height_in = 2.6 if len(names) == 1 else HEIGHT_IN * len(names)
    fig, panels = style.figure(len(names), len(SIDES), wide=True, height_in=height_in, sharex=True, sharey=True)
    for name, row in zip(names, panels, strict=True):
        for axes, side in zip(row, SIDES, strict=True):
            for group, table in shown:
                rows = table[(table["side"] == side) & (table["link"] == name)]
                axes.plot(rows["time_s"], rows["use"], drawstyle="steps-mid", **style.line_style(group, len(rows)))
            style.title(axes, TITLES[side] if names == [SERVER_LINK] else f"{name}: {TITLES[side].lower()}")
            axes.margins(x=0.01)
        row[0].set_ylabel("Bandwidth in use")
    for axes in panels[-1]:
        axes.set_xlabel("Simulated time (s)")
    panels[0][0].set_ylim(bottom=0)  # of all, now that all is drawn
    percent(panels[0][0].yaxis)
    style.legend(fig, panels[0][0])
    return fig, concat([table for _, table in shown], ignore_index=True)


def _links(run: Run) -> list[_Link]:
    """The shared links of a run, that of the server first."""
    network, links = run.scenario["network"], []
    server, named = network.get("server"), network.get("shared") or {}
    for side in SIDES:
        limit = server.get(f"{side}_bytes_per_s") if isinstance(server, dict) else None
        if limit is not None:
            links.append(_Link(SERVER_LINK, side, float(limit), None))
    clients = run.clients_table if named and run.events else None
    if clients is None or "links_down" not in clients:
        return links
    for name, link in named.items():
        up = link.get("up_bytes_per_s")
        for side, limit in zip(SIDES, (link["bytes_per_s"], link["bytes_per_s"] if up is None else up), strict=True):
            crosses = np.array([name in cell.split() for cell in clients[f"links_{side}"]], dtype=bool)
            links.append(_Link(name, side, float(limit), crosses))
    return links


def _table(group: Group) -> "DataFrame | None":
    """Rows: group, link, side, time_s (the middle of a bin or round), use (0 to 1); None where nothing is shared."""
    from pandas import DataFrame, concat

    run = group.first
    links = _links(run)
    ends_s = run.rounds["time_s"].to_numpy(dtype=np.float64)
    if not links or not len(ends_s) or not ends_s[-1]:
        return None
    edges_s = np.linspace(0.0, ends_s[-1], BINS + 1)
    traffic = None
    if run.events:
        with open(run.events, encoding="utf-8") as lines:
            traffic = Traffic(json.loads(line) for line in lines)
    tables = []
    for link in links:
        if traffic is not None:
            bounds_s, means = edges_s, mean_rates(*traffic.rates(link.side, link.crosses), edges_s)
        else:
            longer = np.diff(ends_s, prepend=0.0) > 0
            bounds_s = np.append(0.0, ends_s[longer])
            sent = run.rounds[f"bytes_{link.side}"].cumsum().to_numpy()[longer]
            means = np.diff(sent, prepend=0.0) / np.diff(bounds_s)
        middle_s = (bounds_s[1:] + bounds_s[:-1]) / 2
        row = {"group": group.label, "link": link.name, "side": link.side, "time_s": middle_s}
        tables.append(DataFrame({**row, "use": means / link.bytes_per_s}))
    return concat(tables, ignore_index=True)
