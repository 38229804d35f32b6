"""The network: who is how far from whom, and how busy shared links were."""

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER, Floats, Integers
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.study import Group, Run, Study
from simfl.results.perfetto import SIDES, Traffic, mean_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

WORLD = {"network", "seed", "clients"}
"""Top-level keys of a scenario that decide its network."""

LINKS = 200
"""Links up to which all are drawn; of more, only those to the server."""


class PlaceGraph(NamedTuple):
    """A network's places: clients and the server; those without latency between them share one.

    Latencies are one-way, from place to place; links pairs of places between which nothing faster lies, (links, 2).
    """

    names: list[str]
    server: int
    latency_s: Floats
    links: Integers


@figure("latency", "Latency graph", "Time")
def draw(study: Study) -> Drawn:
    """One-way latencies without the time that bytes take. Where the clients are few, the graph itself, links as long as
    their latencies (in a star exactly, else as nearly as paper allows): a link is drawn where no detour is as fast.
    """
    run = study.groups[0].first
    clients = run.clients_table
    if "latency_s" not in clients:
        raise NothingToDraw("no latencies were recorded: there are too many clients")
    if run.latency is None:
        fig, table = _histogram(clients["latency_s"].to_numpy(dtype=np.float64))
    else:
        network = _network(run.latency, [str(name) for name in clients["name"].fillna("")])
        fig, table = _graph(network, _layout(network))
    if any(axis.split(".")[0] in WORLD for axis in study.axes):  # the others have another one
        style.title(fig.axes[0], f"{study.groups[0].label} only")
    return fig, table


def _network(table: "DataFrame", called: list[str]) -> PlaceGraph:
    """The network of a ``latency.csv``; ``called`` are the clients' names, empty where they have none."""
    n = len(called)
    first, second = (np.where(table[end] == SERVER, n, table[end]) for end in ("from", "to"))
    latency = np.zeros((n + 1, n + 1))
    latency[first, second] = table["latency_s"]
    together = np.minimum(latency, latency.T) == 0
    owner = together.argmax(axis=1)
    places = np.unique(owner)
    named = [name or str(client) for client, name in enumerate(called)] + ["server"]
    names = [_name([named[m] for m in np.flatnonzero(owner == place)]) for place in places]
    server = int(np.searchsorted(places, owner[n]))
    latency = latency[np.ix_(places, places)]
    return PlaceGraph(names, server, latency, _direct(latency))


def _name(called: list[str]) -> str:
    first, *others = reversed(called)
    return ", ".join([first, *others[:1]]) + (f" +{len(others) - 1}" if len(others) > 1 else "")


def _direct(latency: Floats) -> Integers:
    """Pairs i < j without a place k on the way: latency i-k-j above latency i-j, in one of the directions."""
    size = len(latency)
    detour = np.full_like(latency, np.inf)
    for k in range(size):
        via = latency[:, k, None] + latency[None, k, :]
        via[k, :] = via[:, k] = np.inf
        detour = np.minimum(detour, via)
    direct = detour > latency * (1 + 1e-9)
    np.fill_diagonal(direct, False)
    return np.argwhere(np.triu(direct | direct.T))


def _layout(network: PlaceGraph) -> Floats:
    """A position for each place, shape (places, 2), distances like latencies."""
    size, server = len(network.names), network.server
    if size == 1:
        return np.zeros((1, 2))
    if len(network.links) == size - 1 and (network.links == server).any(axis=1).all():
        others = np.delete(np.arange(size), server)
        others = others[np.argsort(network.latency_s[server, others], kind="stable")]
        angle = 2 * np.pi * (np.arange(size - 1) + 0.5) / (size - 1) + np.pi / 2
        places = np.zeros((size, 2))
        places[others] = network.latency_s[server, others, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        return places
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(size))
    distance = np.maximum((network.latency_s + network.latency_s.T) / 2, 1e-9)
    graph.add_weighted_edges_from((i, j, distance[i, j]) for i, j in network.links.tolist())
    known = {i: dict(enumerate(row)) for i, row in enumerate(distance.tolist())}
    positions = networkx.kamada_kawai_layout(graph, dist=known, scale=distance.max() / 2)
    places = np.array([positions[i] for i in range(size)])
    return np.round(places - places[server], 9)


def _graph(network: PlaceGraph, places: Floats) -> Any:
    from matplotlib.collections import LineCollection
    from pandas import DataFrame

    links = network.links
    shown = links if len(links) <= LINKS else links[(links == network.server).any(axis=1)]
    fig, ((axes,),) = style.figure(height_in=3.5)
    axes.add_collection(LineCollection(list(places[shown]), colors=style.MUTED, linewidths=0.6, alpha=0.7))
    others = np.delete(np.arange(len(places)), network.server)
    axes.scatter(*places[others].T, s=26, color=style.SERIES[0], edgecolors=style.PAPER, linewidths=0.6, zorder=3)
    axes.scatter(*places[[network.server]].T, s=80, marker="s", color=style.SERIES[1], edgecolors=style.PAPER, zorder=4)
    _rings(axes, places)
    wide_units = float(np.subtract(*axes.get_xlim()[::-1]))
    high_units = float(np.subtract(*axes.get_ylim()[::-1]))
    scale = min(72 * fig.get_figwidth() / wide_units, 72 * fig.get_figheight() / high_units)
    name_points(axes, network.names, places, network.server, scale)
    table = DataFrame({
        "from": [network.names[i] for i in shown[:, 0]],
        "to": [network.names[j] for j in shown[:, 1]],
        "latency_s": [network.latency_s[i, j] for i, j in shown],
        **{f"{end}_{axis}": places[shown[:, column], k] for column, end in enumerate(("from", "to"))
           for k, axis in enumerate("xy")},
    })  # fmt: skip
    return fig, table


def _rings(axes: "Axes", places: Floats) -> None:
    """Circles of equal latency from the server, named upwards, where a star has its gap."""
    from matplotlib.patches import Circle
    from matplotlib.ticker import MaxNLocator

    reach = float(np.linalg.norm(places, axis=1).max()) or 1.0
    radii = [radius for radius in MaxNLocator(4).tick_values(0, reach) if 0 < radius <= 1.02 * reach]
    for radius in radii:
        axes.add_patch(Circle((0, 0), radius, fill=False, color=style.LINE, linewidth=0.6, zorder=0.5))
        behind = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.0}
        text = f"{radius * 1000:g} ms"
        axes.text(0, radius, text, fontsize=6.5, color=style.MUTED, ha="center", va="center", zorder=1, bbox=behind)
    largest = max(radii, default=0.0)
    axes.set_aspect("equal")
    for limit, values in ((axes.set_xlim, places[:, 0]), (axes.set_ylim, places[:, 1])):
        limit(min(-largest, values.min()) - 0.08 * reach, max(largest, values.max()) + 0.08 * reach)
    axes.set_axis_off()


def _histogram(latency_s: Floats) -> Any:
    from pandas import DataFrame

    low, high = float(latency_s.min()), float(latency_s.max())
    if high - low <= 1e-9 * high:  # all the same: one bar
        margin = 0.05 * high or 1e-3
        counts, edges = np.array([len(latency_s)]), np.array([max(low - margin, 0.0), high + margin])
    else:
        counts, edges = np.histogram(latency_s, bins=min(60, max(10, int(np.sqrt(len(latency_s))))))
    fig, ((axes,),) = style.figure()
    look = {"color": style.SERIES[0], "edgecolor": style.PAPER, "linewidth": 0.3}
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", **look)
    median = float(np.median(latency_s))
    axes.axvline(median, color=style.INK, linewidth=0.9)
    axes.text(median, axes.get_ylim()[1], f" median {float(f'{median * 1000:.3g}'):g} ms", va="top", fontsize=7)
    axes.set_xlabel("One-way latency to the server (s)")
    axes.set_ylabel("Clients")
    return fig, DataFrame({"from_s": edges[:-1], "to_s": edges[1:], "clients": counts})


Box = tuple[float, float, float, float]


def name_points(
    axes: Any, names: list[str], places: Floats, centre: int, points_per_unit: float, size: float = 6.5
) -> None:
    """Writes names on the side that faces away from the origin; outer points come first.

    Args:
        axes: of equal aspect.
        names: one a point.
        places: positions, shape (n, 2).
        centre: the point that is named in any case, below itself.
        points_per_unit: printer's points of a unit of the axes.
        size: of the letters, printer's points.
    """
    distance = np.linalg.norm(places, axis=1)
    order = sorted(range(len(names)), key=lambda i: (i != centre, -distance[i], i))
    boxes: list[Box] = []
    for i in order:
        away = np.array([0.0, -1.0]) if i == centre else places[i] / (distance[i] or 1.0)
        offset = away * (9 if i == centre else 6)
        side = 0 if abs(away[0]) < 0.4 else int(np.sign(away[0]))
        anchor, wide = places[i] * points_per_unit + offset, style.LETTER * size * len(names[i])
        left = anchor[0] - (1 - side) * wide / 2
        box = left, anchor[1] - size / 2, left + wide, anchor[1] + size / 2
        if i == centre or not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in boxes):
            boxes.append(box)
            axes.annotate(
                names[i], places[i], xytext=offset, textcoords="offset points",
                fontsize=size, color=style.INK, zorder=5,
                ha={0: "center", 1: "left", -1: "right"}[side], va="center",
                fontweight="bold" if i == centre else "normal",
            )  # fmt: skip


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
def draw_link_use(study: Study) -> Drawn:
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
