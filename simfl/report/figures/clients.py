"""How good the models are that clients use: the distribution over clients."""

import numpy as np

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import percent
from simfl.report.study import Study

MODELS = {"accuracy": "model in use", "trained": "after local training"}
POINTS = 200
"""Points of a curve at most."""


@figure("clients", "Accuracy of the clients", "Learning", wide=True)
def draw(study: Study) -> Drawn:
    """Clients by the accuracy of their models on samples of their own at the end of the run: which share of them is no
    better off. Left the model that each uses, right the one that its last local training left. All seeds.
    """
    from pandas import DataFrame, concat

    parts = []
    for group in study.groups:
        measured = [run.accuracies for run in group.runs if run.accuracies is not None]
        for model in MODELS if measured else ():
            values = np.sort(concat(measured)[model].dropna().to_numpy())
            shares = np.arange(1, len(values) + 1) / max(len(values), 1)
            points = np.unique(np.linspace(0, len(values) - 1, POINTS).astype(int)) if len(values) else np.arange(0)
            parts.append(
                DataFrame({"group": group.label, "model": model, "accuracy": values[points], "share": shares[points]})
            )
    table = concat(parts, ignore_index=True) if parts else DataFrame()
    if table.empty:
        raise NothingToDraw("clients' models were not measured; set learning.evaluate.per_client to true")
    fig, (panels,) = style.figure(1, len(MODELS), wide=True, sharey=True)
    for axes, (model, words) in zip(panels, MODELS.items(), strict=True):
        for group in study.groups:
            rows = table[(table.group == group.label) & (table.model == model)]
            if len(rows):
                axes.plot(rows.accuracy, rows.share, drawstyle="steps-post", **style.line_style(group, len(rows)))
        style.title(axes, words)
        axes.set_xlabel("Accuracy on its own samples")
        axes.set_ylim(0, 1.02)
        percent(axes.xaxis)
    panels[0].set_ylabel("Share of the clients")
    percent(panels[0].yaxis)
    style.legend(fig, panels[0])
    return fig, table
