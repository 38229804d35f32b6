"""How well membership inference tells members from others."""

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
