"""What attacks brought: members told from others, and training samples beside what inversion makes of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.study import Study

LEAST = 1e-3


@figure("membership", "Membership inference", "Attacks")
def draw(study: Study) -> Drawn:
    """Share of the training samples that are found against the share of others that are accused, both logarithmic, of
    each group's first run. The dotted line is guessing.
    """
    from pandas import DataFrame, concat

    parts = []
    for group in study.groups:
        for finding in group.first.attack_findings:
            for curve in finding["curves"]:
                about = {"group": group.label, "attack": curve["title"]}
                parts.append(DataFrame(about | {"false": curve["false"], "true": curve["true"]}))
    if not parts:
        raise NothingToDraw("no run was attacked by membership inference")
    table = concat(parts, ignore_index=True)
    kinds = list(dict.fromkeys(table.attack))
    fig, ((axes,),) = style.figure()
    for group in study.groups:
        for place, kind in enumerate(kinds):
            rows = table[(table.group == group.label) & (table.attack == kind)]
            if len(rows):
                look = style.line_style(group, 0) if place == 0 else style.line_style(group, 0) | {"label": "_"}
                axes.plot(rows["false"], rows["true"], **(look | {"alpha": 1 / (1 + place)}))
    axes.plot([LEAST, 1], [LEAST, 1], ":", color=style.MUTED, linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=(LEAST, 1), ylim=(LEAST, 1.05))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("Others accused")
    axes.set_ylabel("Members found")
    style.legend(fig, axes)
    return fig, table


SAMPLES = 6
GROUPS = 5
KINDS = {"true": "sample", "guess": "mean"}


@figure("inversion", "Recovered samples", "Attacks", wide=True)
def draw_inversion(study: Study) -> Drawn:
    """Training samples, the mean sample that anybody could name without an attack, and what inversion makes of the
    updates that a server recovers under each group; of the first runs.
    """
    from pandas import DataFrame

    shown = [
        (group, finding) for group in study.groups for finding in group.first.attack_findings if finding["pictures"]
    ][:GROUPS]
    if not shown:
        raise NothingToDraw("no run was attacked by inversion")
    rows = [{"group": group.label, "attack": finding["attack"], **finding["numbers"]} for group, finding in shown]
    first = [picture for picture in shown[0][1]["pictures"] if _drawable(picture["true"])][:SAMPLES]
    if not first:
        raise NothingToDraw("the samples are no pictures")
    lines = [(name, [picture[key] for picture in first]) for key, name in KINDS.items()]
    titles = [picture["title"] for picture in first]
    for group, finding in shown:
        known = {picture["title"]: picture["found"] for picture in finding["pictures"]}
        lines.append((group.label, [known.get(title) for title in titles]))
    fig, grid = style.figure(len(lines), len(first), wide=True, height_in=0.35 + 0.95 * len(lines))
    for axes_row, (name, pictures) in zip(grid, lines, strict=True):
        for axes, picture, title in zip(axes_row, pictures, titles, strict=True):
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            if picture is not None:
                axes.imshow(_image(picture), cmap="gray", vmin=0, vmax=255, interpolation="none")
            if axes_row is grid[0]:
                style.title(axes, title)
        axes_row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=7)
    return fig, DataFrame(rows)


def _drawable(picture: Any) -> bool:
    return np.ndim(picture) == 3 or (np.ndim(picture) == 1 and int(len(picture) ** 0.5) ** 2 == len(picture))


def _image(picture: object) -> NDArray[np.uint8]:
    """A picture as (height, width) or (height, width, 3); a flat one that is square is taken for grey."""
    pixels = np.asarray(picture, dtype=np.uint8)
    if pixels.ndim == 1:
        return pixels.reshape(int(len(pixels) ** 0.5), -1)
    return pixels[0] if len(pixels) == 1 else pixels[:3].transpose(1, 2, 0)
