"""Figures that notebooks show by themselves."""

from matplotlib.figure import Figure

from simfl.report.saving import picture

NOTEBOOK_DPI = 150
"""Dots per inch of a figure in a notebook, on screens of high resolution, too."""


class NotebookFigure(Figure):
    """A figure that a notebook shows as a cell's result, without ``%matplotlib inline``."""

    def _repr_png_(self) -> bytes:
        return picture(self, "png", NOTEBOOK_DPI)
