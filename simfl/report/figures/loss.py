"""Training and test loss against rounds."""

from typing import Any

from simfl.report import style
from simfl.report.figures.base import NothingToDraw, figure
from simfl.report.figures.lines import line, lines, tables
from simfl.report.study import Study

COLUMNS = {"train_loss": "Training loss", "test_loss": "Test loss"}


@figure("loss", "Loss", "Learning")
def draw(study: Study) -> Any:
    """Mean cross-entropy: of the clients' last local epoch, and of the global model on the test samples."""
    from pandas import concat

    found = {}
    for column in COLUMNS:
        try:
            found[column] = tables(study, column)
        except NothingToDraw:
            continue
    if not found:
        raise NothingToDraw("no run has a loss")
    if study.single:
        fig, ((axes,),) = style.figure()
        for number, (column, table) in enumerate(found.items()):
            line(axes, table, number, COLUMNS[column])
        axes.set_ylabel("Cross-entropy")
        style.legend(fig, axes, own=True)
    else:
        fig, (panels,) = style.figure(1, len(found), sharey=True)
        for axes, (column, table) in zip(panels, found.items(), strict=True):
            lines(axes, study, table)
            style.title(axes, COLUMNS[column])
        panels[0].set_ylabel("Cross-entropy")
        style.legend(fig, panels[0])
    return fig, concat([table.assign(loss=column) for column, table in found.items()], ignore_index=True)
