"""Training and test loss against rounds."""

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import bound, filled_tables, line, lines
from simfl.report.study import Study

COLUMNS = {"train_loss": "Training loss", "test_loss": "Test loss"}


@figure("loss", "Loss", "Learning")
def draw(study: Study) -> Drawn:
    """Mean cross-entropy: of the clients' last local epoch, and of the global model on the test samples."""
    from pandas import concat

    losses = filled_tables(study, COLUMNS)
    if not losses:
        raise NothingToDraw("no run has a loss")
    if study.single:
        fig, ((axes,),) = style.figure()
        for number, (column, table) in enumerate(losses.items()):
            line(axes, table, number, COLUMNS[column])
        axes.set_ylabel("Cross-entropy")
        bound(axes.yaxis)
        style.legend(fig, axes, on_page=True)
    else:
        fig, (panels,) = style.figure(1, len(losses), sharey=True)
        for axes, (column, table) in zip(panels, losses.items(), strict=True):
            lines(axes, study, table)
            style.title(axes, COLUMNS[column])
        panels[0].set_ylabel("Cross-entropy")
        bound(panels[0].yaxis)
        style.legend(fig, panels[0])
    return fig, concat([table.assign(loss=column) for column, table in losses.items()], ignore_index=True)
