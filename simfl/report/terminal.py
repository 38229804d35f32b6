"""How a run or a sweep gets on, in the terminal."""

from typing import Any

from simfl.report.live import Watched

__all__ = ["follow", "table"]

EVERY_S = 1.0
SHOWN = 20
BAR = 24
STYLES = {"done": "green", "failed": "red", "playing": "bold", "waiting": "dim"}


def follow(watched: Watched) -> None:
    """Shows the state again and again until all is finished; once where nobody looks on."""
    from threading import Event

    from rich.console import Console
    from rich.live import Live

    console, pause = Console(), Event()
    state = watched.look()
    if not console.is_terminal:
        console.print(table(state))
        return
    with Live(table(state), console=console, auto_refresh=False) as live:
        while not state["finished"]:
            pause.wait(EVERY_S)
            state = watched.look()
            live.update(table(state), refresh=True)


def table(state: dict[str, Any]) -> Any:
    """The runs as a rich table: those that play first, then what failed, what waits, what is done."""
    from rich.markup import escape
    from rich.table import Table

    runs = state["runs"]
    order = ("playing", "failed", "waiting", "done")
    shown = sorted(runs, key=lambda run: order.index(run["state"]))[:SHOWN]
    counts = ", ".join(f"{count} {name}" for name in order if (count := sum(run["state"] == name for run in runs)))
    made = Table(title=f"{escape(str(state['title']))}: {counts}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("run", "state", ""):
        made.add_column(name)
    for name in ("round", "simulated s", "accuracy"):
        made.add_column(name, justify="right")
    for run in shown:
        label = escape(run["label"]) + (f"  {escape(run['error'])}" if run["error"] else "")
        if run["diverged"] is not None:
            label += f"  diverged at round {run['diverged']}"
        rounds = f"{run['round']}/{run['rounds']}" if run["rounds"] else str(run["round"])
        style = STYLES[run["state"]]
        made.add_row(label, run["state"], _bar(run), rounds, _number(run["time_s"], ".1f"),
                     _number(run["accuracy"], ".1%"), style=style)  # fmt: skip
    if len(runs) > SHOWN:
        made.add_row(f"... and {len(runs) - SHOWN} more", style="dim")
    return made


def _bar(run: dict[str, Any]) -> str:
    if not run["rounds"]:
        return ""
    full = int(BAR * min(run["round"] / run["rounds"], 1))
    return "━" * full + "·" * (BAR - full)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
