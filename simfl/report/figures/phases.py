"""What each phase of secure aggregation costs and loses."""

from typing import TYPE_CHECKING

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
from simfl.report.measures import quantities
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ROWS = 30


@figure("phases", "Phases of secure aggregation", "Time", wide=True)
def draw(study: Study) -> Drawn:
    """How long a phase takes, from its first message until the server goes on; what all of a round's phases of a kind
    move, in both directions; and the share of the clients asked that failed, or were too late. Means over all rounds.
    """
    from pandas import concat

    with_phases = [(group, table) for group in study.groups if group.number is not None and len(table := _table(group))]
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


def _table(group: Group) -> "DataFrame":
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
