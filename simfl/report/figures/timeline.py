"""Who waited for whom: the first rounds, message by message; and what the phases of rounds took."""

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.measures import quantities
from simfl.report.study import Group, Study
from simfl.results.perfetto import EDGES, timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

ROUNDS = 3
CLIENTS = 24
PANELS = 2

LOOKS: dict[str, JsonObject] = {
    "download": {"color": "#56b4e9"},
    "compute": {"color": "#0072b2"},
    "upload": {"color": "#009e73"},
    "phase": {"color": "#cc79a7"},
    "wait": {"color": style.LINE, "hatch": "//////"},
    "lost": {"color": "#d55e00"},
}
NAMES = {"wait": "waits for others", "lost": "fails, or is given up", "phase": "secure aggregation"}
ACTIVITIES = {"compute (fails)": "lost", "connection lost": "lost", "cancelled": "lost"}
UNSEEN = ("announcement", "cancel")


@figure("timeline", "Who waited for whom", "Time", wide=True)
def draw(study: Study) -> Drawn:
    """The first rounds in which something was aggregated, one bar a client: the model's download, the computation, the
    update's upload, and the wait for the slowest. A thick line ends each round; the diamond is the client that came
    last.
    """
    from pandas import DataFrame, concat

    groups = [group for group in study.groups if any(run.events for run in group.runs)]
    with_events = [(group, table) for group in groups[:PANELS] if len(table := _table(group))]
    if not with_events:
        raise NothingToDraw("no run recorded its messages (trace: events)")
    heights = [len(_clients(table)) for _, table in with_events]
    height_in = 0.9 + sum(0.35 + 0.125 * height for height in heights)
    fig, grid = style.figure(len(with_events), 1, wide=True, sharex=True, height_in=height_in, height_ratios=heights)
    grid[0, 0].set_xlim(0, max(table.end_s.max() for _, table in with_events) * 1.002)
    for axes, (group, table) in zip(grid[:, 0], with_events, strict=True):
        _panel(axes, table)
        if not study.single:
            style.title(axes, group.label, pad=14)
    grid[-1, 0].set_xlabel("Simulated time (s)")
    everything = concat([table for _, table in with_events], ignore_index=True)
    _legend(fig, phases=bool((everything.activity == "phase").any()))
    return fig, DataFrame(everything)


def _table(group: Group) -> "DataFrame":
    """Rows: group, round, client (-1 = the server), activity, start_s, end_s."""
    from pandas import DataFrame

    run, events = next((run, run.events) for run in group.runs if run.events)
    rows: list[JsonObject] = []
    for span in timeline(_first(_read(events), run.clients, run.jobs is None)):
        client, name = span["tid"] - 1, span["name"]
        if client == SERVER and not rows and not span["args"].get("aggregated"):
            continue  # a skipped round before anything happened
        if name in UNSEEN or client >= EDGES:
            continue
        activity = "round" if client == SERVER else ACTIVITIES.get(name, name if name in LOOKS else "phase")
        rows.append({
            "group": group.label,
            "client": client,
            "activity": activity,
            "start_s": span["ts"] / 1e6,
            "end_s": (span["ts"] + span["dur"]) / 1e6,
        })  # fmt: skip
    return _trim(DataFrame(rows))


def _first(events: Iterator[JsonObject], clients: int, synchronous: bool) -> Iterator[JsonObject]:
    """The events of the first ROUNDS rounds in which something was aggregated.

    A job's events stand where it ended, so that of one that went on, in an asynchronous run, they stand later: until
    every client has begun another one.
    """
    rounds, end, later = 0, inf, set[int]()
    for event in events:
        ends_round = event["event"] == "round_end" and "aggregator" not in event
        begin: Any = event.get("sent_s", event.get("start_s", event.get("time_s")))
        if begin < end or (ends_round and rounds < ROUNDS):
            if rounds < ROUNDS or event["event"] in ("message", "compute", "cancel"):
                yield event
        elif event["event"] == "message":
            later.update(end for end in (event["from"], event["to"]) if isinstance(end, int) and end >= 0)
        if ends_round and event["cardinality"] and rounds < ROUNDS:
            rounds += 1
            if rounds == ROUNDS:
                end = event["time_s"]
        if rounds == ROUNDS and (synchronous or len(later) == clients):
            return


def _trim(table: "DataFrame") -> "DataFrame":
    """Without what ends after the last of the rounds, and with at most CLIENTS clients: every n-th."""
    if not len(table) or not (table.activity == "round").any():
        return table[:0]
    end = table.loc[table.activity == "round", "end_s"].max()
    table = table[table.start_s < end].copy()
    table["end_s"] = table["end_s"].clip(upper=end)
    clients = _clients(table)
    if len(clients) > CLIENTS:
        last = set(_stragglers(table))
        chosen = {clients[i * (len(clients) - 1) // (CLIENTS - 1)] for i in range(CLIENTS)} | last
        table = table[table.client.isin(chosen | {SERVER})]
    return table.reset_index(drop=True)


def _clients(table: "DataFrame") -> list[int]:
    return sorted(set(table.client[table.client != SERVER]))


def _stragglers(table: "DataFrame") -> list[int]:
    """The client whose reply ended each round; -1 where none did."""
    replies = table[table.activity.isin(["upload", "lost"])]
    return [
        int(ends.client.iloc[-1]) if len(ends := replies[abs(replies.end_s - end) <= 1e-6]) else SERVER
        for end in table.loc[table.activity == "round", "end_s"]
    ]


def _panel(axes: "Axes", table: "DataFrame") -> None:
    clients = _clients(table)
    place = {client: row for row, client in enumerate(clients)}
    for activity, look in LOOKS.items():
        rows = table[table.activity == activity]
        edge = style.MUTED if "hatch" in look else "none"
        axes.barh(
            [place[client] for client in rows.client], rows.end_s - rows.start_s, left=rows.start_s, height=0.66,
            facecolor=look["color"], hatch=look.get("hatch"), edgecolor=edge, linewidth=0,
        )  # fmt: skip
    rounds = table[table.activity == "round"]
    named_s, room_s = 0.0, 0.1 * axes.get_xlim()[1]
    for end, straggler in zip(rounds.end_s, _stragglers(table), strict=True):
        axes.axvline(end, color=style.INK, linewidth=1.2)
        if straggler != SERVER:
            if end - named_s > room_s:
                text, named_s = f"last: client {straggler} ", end
                axes.text(end, len(clients) - 0.35, text, ha="right", va="bottom", fontsize=7, color=style.INK)
            axes.plot(end, place[straggler], marker="D", markersize=4, color=style.INK, clip_on=False, zorder=5)
    axes.set_yticks(range(len(clients)), [str(client) for client in clients], fontsize=6.5)
    axes.set_ylim(-0.7, len(clients) - 0.3)
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("Client")
    axes.grid(axis="y", visible=False)


def _legend(fig: "Figure", phases: bool) -> None:
    from matplotlib.patches import Patch

    looks = {activity: look for activity, look in LOOKS.items() if phases or activity != "phase"}
    handles = [
        Patch(
            facecolor=look["color"], hatch=look.get("hatch"), edgecolor=style.MUTED if "hatch" in look else "none",
            linewidth=0, label=NAMES.get(activity, activity),
        )
        for activity, look in looks.items()
    ]  # fmt: skip
    fig.legend(
        handles=handles, loc="outside upper left", ncols=len(looks), borderaxespad=0.2, handlelength=1.8
    ).set_gid(style.OWN)


def _read(path: Path) -> Iterator[JsonObject]:
    with open(path, encoding="utf-8") as lines:
        yield from map(json.loads, lines)


MOST_ROWS = 30


@figure("phases", "Phases of secure aggregation", "Time", wide=True)
def draw_phases(study: Study) -> Drawn:
    """How long a phase takes, from its first message until the server goes on; what all of a round's phases of a kind
    move, in both directions; and the share of the clients asked that failed, or were too late. Means over all rounds.
    """
    from pandas import concat

    with_phases = [
        (group, table) for group in study.groups if group.number is not None and len(table := _phase_table(group))
    ]
    if not with_phases:
        raise NothingToDraw("no run had an aggregation protocol with phases (no phases.csv)")
    rows = [(group, row) for group, table in with_phases for row in table.itertuples()][:MOST_ROWS]
    fig, (panels,) = style.figure(1, 3, wide=True, height_in=0.8 + 0.22 * len(rows), sharey=True)
    scale = quantities("bytes", [row.bytes for _, row in rows])
    shown = [("seconds", "Seconds", 1.0), ("bytes", f"Bytes a round ({scale.unit})", scale.divisor),
             ("share_failed", "Failed", 1.0)]  # fmt: skip
    for axes, (name, title, divisor) in zip(panels, shown, strict=True):
        for place, (group, row) in enumerate(rows):
            color = style.look(group.number)["color"]
            axes.barh(place, getattr(row, name) / divisor, height=0.7, color=color, gid=style.tag(group))
        style.title(axes, title)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
    panels[2].set_xlim(0, max(panels[2].get_xlim()[1], 0.01))
    percent(panels[2].xaxis)
    names = [row.phase if len(with_phases) == 1 else f"{group.label}: {row.phase}" for group, row in rows]
    panels[0].set_yticks(range(len(rows)), names)
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    return fig, concat([table for _, table in with_phases], ignore_index=True)


def _phase_table(group: Group) -> "DataFrame":
    """Rows: group, phase, exchanges, seconds and bytes (means of an exchange and of a round), asked, answered, failed,
    share_failed, sums_failed.
    """
    from pandas import DataFrame, concat

    runs = [run for run in group.runs if run.phases is not None and len(run.phases)]
    if not runs:
        return DataFrame()
    every, rounds = concat([run.phases for run in runs], ignore_index=True), sum(len(run.rounds) for run in runs)
    every = every[every["asked"] > 0].assign(seconds=every["ended_s"] - every["started_s"])
    rows = []
    for phase, table in every.groupby("phase", sort=False):
        requested, failed = int(table["asked"].sum()), int(table["failed"].sum())
        rows.append({
            "group": group.label, "phase": phase, "exchanges": len(table), "seconds": table["seconds"].mean(),
            "bytes": (table["bytes_down"] + table["bytes_up"]).sum() / rounds, "asked": requested,
            "answered": int(table["answered"].sum()), "failed": failed, "share_failed": failed / requested,
            "sums_failed": int(table["failure"].notna().sum()),
        })  # fmt: skip
    return DataFrame(rows)
