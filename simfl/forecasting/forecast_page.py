"""A forecast as one HTML file that needs nothing else."""

from pathlib import Path
from typing import TYPE_CHECKING

from simfl.audit.log import plain
from simfl.core.version import VERSION
from simfl.forecasting.fans import drawing
from simfl.forecasting.forecast_text import WORDS, counted, summary

if TYPE_CHECKING:
    from simfl.forecasting.forecast_result import Forecast

TEMPLATES = Path(__file__).parent / "templates"


def page(of: "Forecast", title: str) -> str:
    """The forecast as HTML; the same bytes for the same log and seed."""
    from simfl.report import style
    from simfl.report.html_page import TEMPLATES as STYLES
    from simfl.report.html_page import page_environment
    from simfl.report.svg import inline

    with style.settings(svg_fonttype="none"):
        svg = inline(
            drawing(of.policies, of.rounds()),
            "forecast",
            "Medians with intervals of 80 and 95 percent over the coming rounds.",
        )
    clients = of.clients()
    lines = summary(of)
    return (
        page_environment(TEMPLATES)
        .get_template("forecast.html")
        .render(
            title=plain(title),
            version=VERSION,
            facts=[counted(of.plan.past_rounds, "past round"), counted(of.plan.horizon, "coming round"),
                   counted(of.plan.clients, "client"), counted(len(of.outcomes[0].rank), "future")],
            understood=" ".join(lines[1:3]),
            verdicts=lines[4:],
            svg=svg,
            headings=["policy", "client", "probability", "80 %", "median", "95 %"],
            clients=[_cells(of, row) for row in clients.itertuples()],
            differences=[(plain(row.policy), WORDS[row.quantity], f"{row.as_now:.4g}", f"{row.with_policy:.4g}",
                          f"{row.difference:+.3g} ({row.low_95:+.3g} to {row.high_95:+.3g})")
                         for row in of.differences().itertuples()],
            limits=of.limits,
            style=(STYLES / "report.css").read_text(encoding="utf-8"),
        )
    )  # fmt: skip


def _cells(of: "Forecast", row: "object") -> tuple[str, ...]:
    values = row._asdict()  # type: ignore[attr-defined]  # a row of itertuples
    prefix = "date_" if of.past.dated else ""

    def when(name: str) -> str:
        t, shown = values[name], values.get(f"{prefix}{name}")
        if t is None or t != t:
            return "beyond"
        label = "past" if t < 0 else str(of.past.label(int(t)))
        return f"{label} ({shown})" if prefix and t >= 0 and shown else label

    return (plain(values["policy"]), plain(values["client"]), f"{values['probability']:.2f}",
            f"{when('low_80')} to {when('high_80')}", when("median"),
            f"{when('low_95')} to {when('high_95')}")  # fmt: skip
