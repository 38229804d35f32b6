"""An audit as one HTML file that needs nothing else, and asks nobody for anything."""

from pathlib import Path
from typing import TYPE_CHECKING

from simfl.audit.audit_report import Report
from simfl.audit.audit_text import (
    COURSE,
    HOW,
    LISTED,
    colluders,
    exposed_clients,
    interval,
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
from simfl.audit.figure import drawing
from simfl.audit.log import plain
from simfl.audit.log_ledger import words as ledger_words
from simfl.core.certificate_words import OF_A_LOG, RECONSTRUCTABLE
from simfl.core.version import VERSION

if TYPE_CHECKING:
    pass

TEMPLATES = Path(__file__).parent / "templates"

ABOUT = (
    ("Strong", "every sum the server can form is made of whole groups of at least this many clients"),
    ("Semi-strong", "in none of them does a client weigh more than one part in this many"),
    ("Weak", "each of them holds at least this many clients"),
    ("Exposed", f"clients whose own update is {RECONSTRUCTABLE}"),
)


def page(report: Report, title: str) -> str:
    """The audit as HTML; the same bytes for the same log."""
    from simfl.report.html_page import TEMPLATES as STYLES
    from simfl.report.html_page import page_environment

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
    from simfl.report import style
    from simfl.report.svg import inline

    about = f"Guarantees, rank and exposed clients over the rounds. {OF_A_LOG}."
    with style.settings(svg_fonttype="none"):
        return [
            (f"for-{name}", inline(drawing(report, wide=wide), f"audit-{name}", about))
            for name, wide in (("pages", True), ("phones", False))
        ]
