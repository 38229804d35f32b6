"""An audit as one HTML file that needs nothing else, and asks nobody for anything."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import OF_A_LOG, RECONSTRUCTABLE, BoundedLedger, Trace
from simfl.api.files import write_atomically
from simfl.deployment.audit.audit_report import Report
from simfl.deployment.audit.audit_text import (
    COURSE,
    HOW,
    LISTED,
    colluders,
    exposed_clients,
    interval,
    later,
    noise,
    numbers,
    recovery,
    timeline,
    uncertainty,
    value,
    way,
    who_is_exposed,
    within_budget,
)
from simfl.deployment.audit.log import plain
from simfl.deployment.audit.log_ledger import words as ledger_words
from simfl.plugins import VERSION, amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates"

ABOUT = (
    ("Strong", "every sum the server can form is made of whole groups of at least this many clients"),
    ("Semi-strong", "no client's share of any of them is larger than one over this"),
    ("Weak", "each of them holds at least this many clients"),
    ("Exposed", f"clients whose own update is {RECONSTRUCTABLE}"),
)


def page(report: Report, title: str) -> str:
    """The audit as HTML; the same bytes for the same log."""
    from simfl.api.pages import TEMPLATES as STYLES
    from simfl.api.pages import page_environment

    metrics = report.metrics
    weak = interval(metrics.weak_lower, metrics.weak_upper)
    values = value(metrics.strong), value(metrics.semi_strong), weak, exposed_clients(report)
    return (
        page_environment(TEMPLATES)
        .get_template("audit.html")
        .render(
            title=plain(title),
            version=VERSION,
            basis=OF_A_LOG,
            report=report,
            rank=value(metrics.rank),
            tiles=[(name, shown, about) for (name, about), shown in zip(ABOUT, values, strict=True)],
            numbers=" ".join([numbers(report), *recovery(report)]),
            within_budget=within_budget(report),
            who=who_is_exposed(report),
            later=" ".join(later(report)),
            how=HOW,
            uncertainty=uncertainty(report),
            colluders=" ".join(colluders(report)),
            noise=" ".join(noise(report)),
            ledger=[] if report.ledger is None else ledger_words(report.ledger, lambda i: plain(report.clients[i])),
            unused=", ".join(plain(name) for name in report.unused[:LISTED]),
            drawings=_drawings(report),
            headings=COURSE,
            timeline=timeline(report),
            exposed=[
                (plain(report.clients[e.client]), plain(report.rounds[e.round]), way(report, e), sure)
                for sure, some in ((True, report.exposed), (False, report.likely))
                for e in some
            ],
            style=(STYLES / "report.css").read_text(encoding="utf-8"),
        )
    )


def _drawings(report: Report) -> list[tuple[str, str]]:
    """The figure for wide screens and for phones: the class that shows it there, and its SVG."""
    from simfl.api.pages import inline, style

    about = f"Guarantees, rank and exposed clients over the rounds. {OF_A_LOG}."
    with style.settings(svg_fonttype="none"):
        return [
            (f"for-{name}", inline(drawing(report, wide=wide), f"audit-{name}", about))
            for name, wide in (("pages", True), ("phones", False))
        ]


def draw(report: Report, path: Path) -> None:
    """Writes the figure as SVG, PDF or PNG, by the path's suffix; the same bytes for the same report."""
    from simfl.api.pages import format_of, picture, settings

    format = format_of(path)
    with settings():
        write_atomically(path, picture(drawing(report), format))


def drawing(report: Report, wide: bool = True) -> "Figure":
    """The figure, in the style of the reports; call it under :func:`simfl.report.style.settings`.

    Args:
        report: the audit.
        wide: as wide as a page; else as a phone.
    """
    from matplotlib.ticker import MaxNLocator

    from simfl.api.pages import style

    numbered = all(isinstance(label, int) and abs(label) < 2**53 for label in report.rounds)
    trace, rounds = report.trace, np.array(report.rounds if numbered else range(len(report.rounds)), dtype=float)
    ledger = None if report.ledger is None else report.ledger.bounded
    worst = None if ledger is None else ledger.whole.worst
    curves = () if worst is None else (worst.alone, *worst.lower, worst.everybody)
    more = any(bool((np.isfinite(curve) & (curve > 0)).any()) for curve in curves)  # without noise there is none
    fig, panels = style.figure(2 + more, 1, wide=wide, height_in=4.6 + 2.3 * more, sharex=True)
    above, below = panels[0][0], panels[1][0]
    band = _corners(rounds, _carry_forward(trace.weak_lower, trace), _carry_forward(trace.weak_upper, trace))
    above.fill_between(*band, step="post", color=style.SERIES[2], alpha=0.25, linewidth=0)
    semi_strong, weak = (_carry_forward(values, trace) for values in (trace.semi_strong, trace.weak_upper))
    for number, (label, values) in enumerate((("strong", trace.strong), ("semi-strong", semi_strong), ("weak", weak))):
        above.step(*_corners(rounds, values), where="post", label=label, **style.look(number))
    above.set(ylabel="Guarantee (clients)", ylim=(0, None))
    below.step(*_corners(rounds, trace.rank), where="post", label="rank of the sums", **style.look(3))
    until = f" (first {amount(report.count_rounds(report.known), 'round')})" if report.known < len(rounds) else ""
    exposed = report.exposed_by_round()
    below.step(*_corners(rounds, exposed), where="post", label=f"exposed clients{until}", **style.look(4))
    below.axhline(len(report.clients), color=style.MUTED, linewidth=0.8, linestyle=":", label="all clients")
    below.set(ylabel="Rank, clients", ylim=(0, None))
    if ledger is not None and more:
        _draw_ledger(panels[2][0], rounds, ledger)
    panels[-1][0].set_xlabel("Round")
    for axes in (above, below):
        axes.legend(loc="best")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    if rounds[-1] > rounds[0]:
        below.set_xlim(rounds[0], rounds[-1])
    style.footnote(fig, [f"{OF_A_LOG}."])
    return fig


def _draw_ledger(axes: "Axes", rounds: NDArray[np.float64], ledger: BoundedLedger) -> None:
    """Signal to noise of the worst client; what is infinite is left out."""
    from simfl.api.pages import style

    worst = ledger.whole.worst
    between = list(zip(ledger.whole.colluders, worst.lower, worst.upper, strict=True))
    curves = [("sums alone", ledger.alone_lower[1], worst.alone), *((f"and {c}", *bounds) for c, *bounds in between),
              ("and all others", worst.everybody, worst.everybody)]  # fmt: skip
    for number, (label, lower, upper) in enumerate(curves):
        known = np.isfinite(lower)
        axes.step(rounds[known], lower[known], where="post", label=label, **style.look(number))
        known &= np.isfinite(upper)
        axes.fill_between(rounds[known], lower[known], upper[known], step="post", linewidth=0, alpha=0.22,
                          color=style.look(number)["color"])  # fmt: skip
    axes.set(ylabel="Signal to noise μ", ylim=(0, None))
    axes.legend(loc="best")


def _corners(rounds: NDArray[np.float64], *columns: NDArray[np.number]) -> list[NDArray[np.number]]:
    """The rounds at which some column changes, or is known for the last time, with the first and the last."""
    keep = np.zeros(len(rounds), dtype=bool)
    keep[[0, -1]] = True
    for column in columns:
        keep[1:] |= ~((column[1:] == column[:-1]) | (np.isnan(column[1:]) & np.isnan(column[:-1])))
        keep[:-1] |= ~np.isnan(column[:-1]) & np.isnan(column[1:])
    return [rounds[keep], *(column[keep] for column in columns)]


def _carry_forward(values: NDArray[np.float64], trace: Trace) -> NDArray[np.float64]:
    """Values at rounds that were not evaluated stay what they were."""
    evaluated = ~np.isnan(trace.weak_lower)
    return values[np.maximum.accumulate(np.where(evaluated, np.arange(len(values)), 0))]
