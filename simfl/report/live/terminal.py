"""How a run or a sweep gets on, in the terminal."""

from collections.abc import Sequence
from email.utils import formatdate
from threading import Event
from typing import Any

from simfl.core.certificate_words import IF_ONLY_SUMS, RECONSTRUCTABLE
from simfl.core.errors import amount, printable
from simfl.core.json_data import JsonObject
from simfl.report.live.watched_folder import WatchedFolder

EVERY_S = 1.0
SHOWN = 20
WIDEST = 10_000
BAR = 24
FEW = 6
NOT_KNOWN = "not known"
CAPTION = (f"Exposed: the round from which on the sums give the client's own update away; it is then {RECONSTRUCTABLE} "
           f"{IF_ONLY_SUMS}. What the server sees beside sums of whole rounds is not counted.")  # fmt: skip
STYLES = {"done": "green", "failed": "red", "running": "bold", "waiting": "dim"}


def follow(watched: WatchedFolder) -> None:
    """Shows the state again and again until all is finished; once where nobody looks on."""
    from rich.console import Console
    from rich.live import Live

    console, pause = Console(), Event()
    state = watched.look()
    if not console.is_terminal:  # nothing is cut
        wide = console.measure(shown(state), options=console.options.update(width=WIDEST)).maximum
        console.width = max(console.width, wide)
        console.print(shown(state))
        return
    with Live(shown(state), console=console, auto_refresh=False) as live:
        while not state["finished"]:
            pause.wait(EVERY_S)
            state = watched.look()
            live.update(shown(state), refresh=True)


def shown(state: JsonObject) -> Any:
    """All that is shown: the runs and, where some clients of the run are remote, every client."""
    from rich.console import Group

    clients = state["clients"]
    some_remote = any("seen_s" in one for one in clients)
    return Group(table(state), "", clients_table(clients)) if some_remote else table(state)


def clients_table(clients: Sequence[JsonObject]) -> Any:
    """The clients of a run as a rich table, remote ones first; names and scores are what they told, as plain text."""
    from rich.table import Table

    rich_table = Table(box=None, padding=(0, 2, 0, 0), caption=CAPTION, caption_justify="left")
    rich_table.add_column("client")
    for name in ("samples", "sums"):
        rich_table.add_column(name, justify="right")
    for name in ("unit", "exposed", "last seen", "updates", "scores"):
        rich_table.add_column(name)
    for one in sorted(clients, key=lambda one: "seen_s" not in one):
        name = _plain(f"{one['client']} {one['name']}".strip())
        sums = NOT_KNOWN if one["rounds"] is None else f"{one['rounds']}"
        others = NOT_KNOWN if one["unit"] is None else ", ".join(map(str, one["unit"][:FEW]))
        others += " ..." * (len(one["unit"] or ()) > FEW)
        rich_table.add_row(name, f"{one['samples']}", sums, others, _exposure(one), *_remote_status(one),
                     style="" if one["exposed"] is None else "red")  # fmt: skip
    return rich_table


def _exposure(one: JsonObject) -> str:
    """From which round on a client is exposed, nothing if it is not, or how far that is known."""
    if one["exposed"] is not None:
        return f"round {one['exposed']}"
    rounds = one["unknown_after"]
    return "" if rounds is None else f"not in the first {amount(rounds, 'round')}" if rounds else NOT_KNOWN


def _remote_status(one: JsonObject) -> tuple[str, str, str]:
    """When a remote client was last seen, its updates, its scores."""
    if "seen_s" not in one:
        return "", "", ""
    seen = formatdate(one["seen_s"], localtime=True)  # Sun, 22 Nov 2026 02:20:00 +0000
    updates = f"{one['updates']}" + (f", {one['refused']} refused" if one["refused"] else "")
    scores = one["scores"] if isinstance(one["scores"], dict) else {}
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in scores.items() if isinstance(value, int | float))
    return seen[5:-6], updates, _plain(numbers)


def table(state: JsonObject) -> Any:
    """The runs as a rich table: the running ones first, then what failed, what waits, what is done."""
    from rich.table import Table

    runs = state["runs"]
    order = ("running", "failed", "waiting", "done")
    shown = sorted(runs, key=lambda run: order.index(run["state"]))[:SHOWN]
    counts = ", ".join(f"{count} {name}" for name in order if (count := sum(run["state"] == name for run in runs)))
    rich_table = Table(
        title=f"{_plain(str(state['title']))}: {counts}", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for name in ("run", "state", ""):
        rich_table.add_column(name, overflow="fold")
    for name in ("rounds", "simulated s", "accuracy"):
        rich_table.add_column(name, justify="right")
    for run in shown:
        label = _plain(run["label"]) + (f"  {_plain(str(run['error']))}" if run["error"] else "")
        if run["diverged"] is not None:
            label += f"  diverged at round {run['diverged']}"
        if run["infinite"]:
            label += f"  infinite: {', '.join(map(_plain, run['infinite']))}"
        rounds = f"{run['round']}/{run['rounds']}" if run["rounds"] else str(run["round"])
        style, state_shown = STYLES[run["state"]], "ending" if run["ending"] else run["state"]
        rich_table.add_row(label, state_shown, _bar(run), rounds, _number(run["time_s"], ".1f"),
                     _number(run["accuracy"], ".1%"), style=style)  # fmt: skip
    if len(runs) > SHOWN:
        rich_table.add_row(f"... and {len(runs) - SHOWN} more", style="dim")
    return rich_table


def _bar(run: JsonObject) -> str:
    if not run["rounds"]:
        return ""
    full = int(BAR * min(run["round"] / run["rounds"], 1))
    return "━" * full + "·" * (BAR - full)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _plain(text: str) -> str:
    """A text that comes from a file: no markup, no control characters."""
    from rich.markup import escape

    return escape(printable(text))
