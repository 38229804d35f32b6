"""A forecast as one HTML file that needs nothing else."""

from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from simfl.api.certificates import OF_A_LOG, RECONSTRUCTABLE
from simfl.deployment.audit.log import plain
from simfl.deployment.forecasting.forecast_text import WORDS, first_table, summary
from simfl.deployment.forecasting.measured_coverage import certainty
from simfl.plugins import VERSION, amount

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from simfl.deployment.forecasting.forecast_result import Forecast

TEMPLATES = Path(__file__).parent / "templates"

PANELS = {
    "exposed": "Exposed clients",
    "rank": "Rank of the sums",
    "strong": "Strong (clients)",
    "semi_strong": "Semi-strong (clients)",
    "weak_upper": "Weak, at most (clients)",
    "mean_cardinality": "Clients a round, mean",
    "fairness_gap": "Fairness gap",
    "bytes": "Bytes of coming rounds",
}

MOST = 4
"""Policies that are drawn with bands."""

BOTH = 2
"""Up to so many have a band of 95 % besides that of 80 %."""


def page(of: "Forecast", title: str) -> str:
    """The forecast as HTML; the same bytes for the same log and seed."""
    from simfl.api.pages import TEMPLATES as STYLES
    from simfl.api.pages import page_environment

    clients, futures = of.clients(), len(of.outcomes[0].rank)
    lines = summary(of)
    return (
        page_environment(TEMPLATES)
        .get_template("forecast.html")
        .render(
            title=plain(title),
            version=VERSION,
            facts=[amount(of.plan.past_rounds, "past round"), amount(of.plan.horizon, "coming round"),
                   amount(of.plan.clients, "client"), amount(futures, "future")],
            checked=amount(min(futures, of.plan.guarantees), "future") if of.plan.guarantees else "",
            understood=" ".join(lines[1:3]),
            verdicts=lines[4:],
            drawings=_drawings(of),
            bands="80 and 95" if len(of.policies) <= BOTH else "80",
            headings=["client", "probability", "80 %", "median", "95 %"],
            clients=_group(clients, lambda row: _cells(of, row)),
            differences=_group(of.differences(), _difference),
            limits=of.limits,
            basis=OF_A_LOG,
            exposed=RECONSTRUCTABLE,
            calibrated=certainty(),
            first=first_table(of),
            style=(STYLES / "report.css").read_text(encoding="utf-8"),
        )
    )  # fmt: skip


def _drawings(of: "Forecast") -> list[tuple[str, str]]:
    """The fans for wide screens and for phones: the class that shows them there, and their SVG."""
    from simfl.api.pages import inline, style

    about, rounds = f"Medians with intervals of 80 and 95 percent over the coming rounds. {OF_A_LOG}.", of.rounds()
    with style.settings(svg_fonttype="none"):
        return [(f"for-{name}", inline(drawing(of.policies, rounds, wide), f"forecast-{name}", about))
                for name, wide in (("pages", True), ("phones", False))]  # fmt: skip


def _group(table: "DataFrame", cells: Callable[[Any], tuple[str, ...]]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """The cells of a table's rows, policy by policy."""
    return [(plain(str(policy)), [cells(row) for row in rows.itertuples()])
            for policy, rows in table.groupby("policy", sort=False)]  # fmt: skip


def _difference(row: Any) -> tuple[str, ...]:
    return (WORDS[row.quantity], f"{row.as_now:.4g}", f"{row.with_policy:.4g}",
            f"{row.difference:+.3g} ({row.low_95:+.3g} to {row.high_95:+.3g})")  # fmt: skip


def _cells(of: "Forecast", row: Any) -> tuple[str, ...]:
    values = row._asdict()
    prefix = "date_" if of.past.dated else ""

    def when(name: str) -> str:
        t, shown = values[name], values.get(f"{prefix}{name}")
        if t is None or t != t:
            return "beyond"
        label = "past" if t < 0 else str(of.past.label(int(t)))
        return f"{label} ({shown})" if prefix and t >= 0 and shown else label

    return (plain(values["client"], 10**6), f"{values['probability']:.2f}",
            f"{when('low_80')} to {when('high_80')}", when("median"),
            f"{when('low_95')} to {when('high_95')}")  # fmt: skip


def drawing(policies: list[str], table: "DataFrame", wide: bool = True) -> "Figure":
    """The figure of some policies' rounds, page- or phone-wide; call it under :func:`simfl.report.style.settings`."""
    from simfl.api.pages import style

    shown = [name for name in PANELS if (table.quantity == name).any()]
    columns = 2 if wide else 1
    rows = -(-len(shown) // columns)
    fig, panels = style.figure(rows, columns, wide=wide, height_in=2.1 * rows, sharex=True)
    bands = (("low_95", "high_95"), ("low_80", "high_80"))[len(policies) > BOTH :]
    flat = [axes for row in panels for axes in row]
    for axes, name in zip(flat, shown, strict=False):
        for number, policy in enumerate(policies):
            part = table[(table.quantity == name) & (table.policy == policy)]
            look = style.look(number)
            label = "\n".join(wrap(plain(policy, 10**6), 40))
            axes.plot(part["round"], part["median"], drawstyle="steps-post", label=label, **look)
            if number < MOST:
                for low, high in bands:
                    axes.fill_between(part["round"], part[low], part[high], step="post", linewidth=0, alpha=0.13,
                                      color=look["color"])  # fmt: skip
        axes.set(ylabel=PANELS[name], ylim=(0, None))
    for axes in flat[len(shown) :]:
        axes.set_axis_off()
    for axes in flat[: len(shown)][-columns:]:
        axes.set_xlabel("Coming round")
        axes.tick_params(labelbottom=True)
    style.legend(fig, flat[0], on_page=True)
    style.footnote(fig, [f"{OF_A_LOG}."])
    return fig
