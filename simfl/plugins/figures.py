"""Figures of the report."""

from simfl.report import style
from simfl.report.figures.base import Kind, NothingToDraw, figure

__all__ = ["Kind", "NothingToDraw", "figure", "style"]
