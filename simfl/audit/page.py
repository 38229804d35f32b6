"""An audit as one HTML file that needs nothing else, and asks nobody for anything."""

from pathlib import Path

from simfl.audit.figure import drawing
from simfl.audit.log import plain
from simfl.audit.report import Report
from simfl.audit.text import COURSE, LISTED, course, doubt, interval, noise, numbers, value, way
from simfl.version import VERSION

__all__ = ["page"]

TEMPLATES = Path(__file__).parent / "templates"

ABOUT = (
    ("Strong", "every sum the server can form is made of whole groups of at least this many clients"),
    ("Semi-strong", "in none of them does a client weigh more than one part in this many"),
    ("Weak", "each of them holds at least this many clients"),
    ("Exposed", "clients whose own update the server can compute"),
)


def page(report: Report, title: str) -> str:
    """The audit as HTML; the same bytes for the same log.

    Args:
        title: what was audited.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from simfl.report import style
    from simfl.report.page import TEMPLATES as STYLES
    from simfl.report.svg import inline

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = report.metrics
    with style.settings(svg_fonttype="none"):
        svg = inline(drawing(report), "audit", "Guarantees, rank and exposed clients over the rounds.")
    left = noise(report)
    values = (
        value(found.strong),
        value(found.semi_strong),
        interval(found.weak_lower, found.weak_upper),
        f"{len(report.exposed)}",
    )
    return environment.get_template("audit.html").render(
        title=plain(title),
        version=VERSION,
        report=report,
        rank=value(found.rank),
        tiles=[(name, shown, about) for (name, about), shown in zip(ABOUT, values, strict=True)],
        numbers=numbers(report),
        doubt=doubt(report),
        noise=" ".join(left),
        unused=", ".join(plain(name) for name in report.unused[:LISTED]),
        svg=svg,
        headings=COURSE,
        course=course(report),
        exposed=[
            (plain(report.clients[e.client]), plain(report.rounds[e.round]), way(report, e), sure)
            for sure, some in ((True, report.exposed), (False, report.likely))
            for e in some
        ],
        style=(STYLES / "report.css").read_text(encoding="utf-8"),
    )
