"""A figure as a part of an HTML page, with the page's colours and letters, so that it fits light, dark and paper."""

import json
import math
import re
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from simfl.core.json_data import JsonObject
from simfl.report import style
from simfl.report.figures.base import AXES
from simfl.report.saving import picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    **{color: f"var(--s{number})" for number, color in enumerate(style.SERIES)},
    style.INK: "var(--ink)",
    style.MUTED: "var(--muted)",
    style.LINE: "var(--line)",
    style.PAPER: "var(--card)",
}

DECIMALS = 2


def inline(fig: "Figure", name: str, about: str) -> str:
    """The figure as an ``<svg>`` element. Its names of groups are left out: the page shows them once for all figures.

    Args:
        fig: drawn under :func:`simfl.report.style.settings` with ``svg_fonttype="none"``; its legend is removed.
        name: unique on the page.
        about: what a screen reader says.
    """
    from markupsafe import escape

    for legend in list(fig.legends):
        if legend.get_gid() != style.OWN:
            legend.remove()
    fig.patch.set_alpha(0.0)
    text = picture(fig, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style).*?</\1>", "", text, flags=re.S)  # a style would hold for the whole page
    text = re.sub(r' id="(thin-)?group-(\w+)"', lambda m: f' class="series series-{m[2]}{" thin" * bool(m[1])}"', text)
    text = re.sub(
        r' id="(thin-)?own-([^"]*)"', lambda m: f' class="series{" thin" * bool(m[1])}" data-name="{m[2]}"', text
    )
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda match: COLOURS.get(match[0], match[0]), text)
    text = re.sub(r"font(-family)?: (?:([\d.]+px) )?'DejaVu Sans'[^;\"]*", _letters, text)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{3,}", _shorter, tag[0]), text)  # not what is written
    box = re.search(r'viewBox="[^"]*"', text)
    panels = escape(json.dumps(_panels(fig), separators=(",", ":")))
    head = f'<svg class="plot" role="img" aria-label="{escape(about)}" data-panels="{panels}" {box[0] if box else ""}>'
    text = head + text[text.index(">") + 1 :]
    return re.sub(r"\n\s*", "\n", text)


def _panels(fig: "Figure") -> list[JsonObject]:
    """Where the figure's lines are, in the picture's coordinates, and what they mean: to read values by pointing."""
    wide, high = (72 * size for size in fig.get_size_inches())
    panels = []
    for axes in fig.axes:
        if not any(line.get_gid() for line in axes.lines):
            continue
        place, log = axes.get_position(), axes.get_yscale() == "log"
        low, high_end = (math.log2(end) if log else end for end in axes.get_ylim())
        panels.append({
            "left": place.x0 * wide, "right": place.x1 * wide,
            "top": (1 - place.y1) * high, "bottom": (1 - place.y0) * high,
            "from": axes.get_xlim()[0], "to": axes.get_xlim()[1], "low": low, "high": high_end, "log": log,
            "label": axes.get_xlabel(), "whole": axes.get_xlabel() == AXES["round"],
            "share": isinstance(axes.yaxis.get_major_formatter(), PercentFormatter),
        })  # fmt: skip
    return [{key: round(v, 4) if isinstance(v, float) else v for key, v in panel.items()} for panel in panels]


def _shorter(match: "re.Match[str]") -> str:
    """A coordinate with as many decimals as the eye sees."""
    return f"{float(match[0]):.{DECIMALS}f}".rstrip("0").rstrip(".")


def _letters(match: "re.Match[str]") -> str:
    """The size of letters; their family is the page's."""
    return f"font-size: {match[2]}" if match[2] else "font-family: inherit"
