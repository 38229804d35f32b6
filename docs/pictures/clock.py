"""The two pictures of the clock: synchronous rounds with a deadline, and buffered asynchronous training.

    python docs/pictures/clock.py

Runs two scenarios of six clients (protocol only, no training) and writes ``synchronous.svg`` and ``buffered.svg``
beside this file, with the CSV of the numbers in them.
"""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

import simfl
from simfl.report import style
from simfl.report.saving import save
from simfl.results.perfetto import timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
CLIENTS = 6
COMMON: dict[str, Any] = {
    "clients": CLIENTS,
    "network": {
        "name": "star",
        "latency_s": {"name": "uniform", "low": 0.1, "high": 0.3},
        "bandwidth_bytes_per_s": 1e5,
    },
    "devices": {
        "availability": {"name": "bernoulli", "dropout": 0.2},
        "computation": {"name": "random", "distribution": {"name": "half_normal", "sigma": 1.0}},
        "failure": {"name": "bernoulli", "probability": 0.15},
    },
    "learning": "none",
    "trace": "events",
    "seed": 1,
}
SCENARIOS: dict[str, dict[str, Any]] = {
    "synchronous": {
        "selection": {"name": "random", "k": 4},
        "training": {"name": "fedavg", "rounds": 3, "deadline_s": 3.0},
    },
    "buffered": {
        "selection": {"name": "random", "k": 2},
        "training": {"name": "fedbuff", "concurrency": 4, "buffer": 2, "rounds": 5},
    },
}
LOOKS = {
    "download": ("#56b4e9", "model downloaded"),
    "compute": ("#0072b2", "local training"),
    "upload": ("#009e73", "update uploaded"),
    "lost": ("#d55e00", "fails, or is given up"),
}
LOST = dict.fromkeys(("compute (fails)", "connection lost", "cancelled"), "lost")


def compute(name: str) -> DataFrame:
    """A row a span: client (-1 = the server, whose spans are rounds), activity, start_s, end_s, and at an upload that
    was aggregated its staleness: how many aggregations there were between its download and its own.
    """
    with tempfile.TemporaryDirectory() as out:
        result = simfl.run(simfl.load({"name": name, **COMMON, **SCENARIOS[name]}), out=out)
        events = [json.loads(line) for line in (result.path / "events.jsonl").read_text().splitlines()]
    ends_s = [event["time_s"] for event in events if event["event"] == "round_end"]
    cancelled = {(event["client"], round(event["time_s"], 6)) for event in events if event["event"] == "cancel"}
    rows, version = [], dict[int, int]()
    for span in timeline(iter(events)):
        client, activity = span["tid"] - 1, LOST.get(span["name"], span["name"])
        start_s, end_s = span["ts"] / 1e6, (span["ts"] + span["dur"]) / 1e6
        if start_s >= ends_s[-1] or client >= 0 and activity not in LOOKS:
            continue
        if activity == "download":
            version[client] = sum(end <= start_s + 1e-9 for end in ends_s)
        if activity == "upload" and (client, round(end_s, 6)) in cancelled:
            activity = "lost"
        staleness = None
        if activity == "upload" and end_s <= ends_s[-1] + 1e-9:
            staleness = sum(end < end_s - 1e-9 for end in ends_s) - version[client]
        rows.append({
            "client": client, "activity": activity, "start_s": start_s, "end_s": min(end_s, ends_s[-1]),
            "staleness": staleness,
        })  # fmt: skip
    return DataFrame(rows).round({"start_s": 6, "end_s": 6}).astype({"staleness": "Int64"})


def draw(table: DataFrame, buffered: bool) -> "Figure":
    """A line of bars a client; a vertical line where a round ends."""
    from matplotlib.patches import Patch

    fig, grid = style.figure(wide=True, height_in=2.5)
    axes = grid[0, 0]
    for activity, (colour, _) in LOOKS.items():
        rows = table[(table.activity == activity) & (table.client >= 0)]
        axes.barh(rows.client, rows.end_s - rows.start_s, left=rows.start_s, height=0.6, color=colour)
    for number, row in enumerate(table[table.client < 0].itertuples()):
        axes.axvline(row.end_s, color=style.INK, linewidth=1.2)
        middle = (row.start_s + row.end_s) / 2
        axes.text(middle, CLIENTS - 0.4, f"round {number}", ha="center", va="bottom", fontsize=7)
    for row in table[table.staleness.notna()].itertuples() if buffered else ():
        middle = (row.start_s + row.end_s) / 2
        axes.text(middle, row.client, str(row.staleness), ha="center", va="center", color=style.PAPER, weight="bold")
    axes.set_xlim(0, table.end_s.max() * 1.01)
    axes.set_ylim(-0.6, CLIENTS - 0.4)
    axes.set_yticks(range(CLIENTS))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_ylabel("Client")
    axes.set_xlabel("Simulated time (s)")
    handles = [Patch(facecolor=colour, label=label) for colour, label in LOOKS.values()]
    fig.legend(handles=handles, loc="outside upper left", ncols=len(LOOKS), borderaxespad=0.2)
    return fig


def main() -> None:
    for name in SCENARIOS:
        table = compute(name)
        with style.settings():
            save(draw(table, name == "buffered"), table, HERE / f"{name}.svg")


if __name__ == "__main__":
    main()
