"""The pictures of tradeoff.py."""

from pathlib import Path
from typing import Any

import pandas

from simfl.report import style

HERE = Path(__file__).resolve().parent


def drawn(name: str, table: pandas.DataFrame) -> None:
    """The figure of a table."""
    with style.settings(svg_fonttype="path"):
        figure, (panels,) = style.figure(1, 3 if name == "policies" else 1, wide=True, height_in=3.2)
        {"accuracy": _accuracy, "dropout": _dropout, "policies": _policies}[name](panels, table)
        figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})


def _accuracy(panels: Any, table: pandas.DataFrame) -> None:
    (axes,) = panels
    for number, (mechanism, some) in enumerate(table[table.noise > 0].groupby("mechanism", sort=False)):
        look = style.look(number)
        axes.errorbar(some.epsilon_max, some.test_accuracy, some.test_accuracy_half_width, some.epsilon_max_half_width,
                      label=mechanism, **look, marker="o", capsize=2)  # fmt: skip
    axes.axhline(table.test_accuracy[table.noise == 0].mean(), color=style.MUTED, linewidth=1, label="no noise")
    axes.set(xscale="log", xlabel="largest ε of a client (δ = 1e-5)", ylabel="test accuracy")
    ticks = [2, 5, 10, 20, 50, 100, 200, 500]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)


def _dropout(panels: Any, table: pandas.DataFrame) -> None:
    (axes,) = panels
    for number, (noise, some) in enumerate(table.groupby("noise", sort=False)):
        axes.errorbar(100 * some.dropout, some.epsilon_max, some.epsilon_max_half_width, label=noise,
                      **style.look(number), marker="o", capsize=2)  # fmt: skip
    axes.set(xlabel="clients that drop out in a round, %", ylabel="largest ε of a client")
    axes.legend(frameon=False, fontsize=8)


def _policies(panels: Any, table: pandas.DataFrame) -> None:
    places = range(len(table))[::-1]
    headings = ("guarantee T (semi-strong)", "ε, median to largest", "updates a round")
    for axes, heading in zip(panels, headings, strict=True):
        axes.set_yticks(places, table.policy if axes is panels[0] else [""] * len(table))
        axes.set(xlabel=heading, ylim=(-0.6, len(table) - 0.4))
    bars = {"height": 0.6, "error_kw": {"ecolor": style.INK, "elinewidth": 1, "capsize": 2}}
    panels[0].barh(places, table.privacy_semi_strong, xerr=table.privacy_semi_strong_half_width, color=style.SERIES[0],
                   **bars)  # fmt: skip
    panels[1].hlines(places, table.epsilon_median, table.epsilon_max, color=style.SERIES[1], linewidth=2)
    panels[1].plot(table.epsilon_median, places, "o", color=style.SERIES[1], markerfacecolor=style.PAPER)
    panels[1].errorbar(table.epsilon_max, places, xerr=table.epsilon_max_half_width, fmt="o", color=style.SERIES[1],
                       ecolor=style.INK, elinewidth=1, capsize=2)  # fmt: skip
    panels[1].set_xlim(left=0)
    panels[2].barh(
        places, table.mean_cardinality, xerr=table.mean_cardinality_half_width, color=style.SERIES[2], **bars
    )
