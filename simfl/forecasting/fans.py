"""Pictures of a forecast: fans over the coming rounds, one panel a quantity, one colour a policy."""

from typing import TYPE_CHECKING

from simfl.audit.log import plain
from simfl.core.certificate_words import OF_A_LOG

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

PANELS = {
    "exposed": "Exposed clients",
    "rank": "Rank of the sums",
    "strong": "Strong (clients)",
    "semi_strong": "Semi-strong (clients)",
    "weak_upper": "Weak, at most (clients)",
    "cardinality": "Clients in a sum",
    "fairness_gap": "Fairness gap",
    "bytes": "Bytes of coming rounds",
}
MOST = 4
"""Policies that are drawn with bands."""
BOTH = 2
"""Up to so many have a band of 95 % besides that of 80 %."""


def drawing(policies: list[str], table: "DataFrame", wide: bool = True) -> "Figure":
    """The figure of some policies' rounds, as wide as a page or else as a phone; call it under
    :func:`simfl.report.style.settings`.
    """
    from simfl.report import style

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
            axes.plot(part["round"], part["median"], drawstyle="steps-post", label=plain(policy, 40), **look)
            if number < MOST:
                for low, high in bands:
                    axes.fill_between(part["round"], part[low], part[high], step="post", linewidth=0, alpha=0.13,
                                      color=look["color"])  # fmt: skip
        axes.set(ylabel=PANELS[name], ylim=(0, None))
    for axes in flat[len(shown) :]:
        axes.set_axis_off()
    for axes in flat[: len(shown)][-columns:]:
        axes.set_xlabel("Coming round")
    style.legend(fig, flat[0], on_page=True)
    style.footnote(fig, [f"{OF_A_LOG}."])
    return fig
