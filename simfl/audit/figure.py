"""The picture of an audit: the guarantees and the number of exposed clients over the rounds."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.audit.report import Report
from simfl.errors import SimflError

__all__ = ["checked", "draw"]

FORMATS = (".svg", ".pdf", ".png")


def checked(path: Path) -> Path:
    """The path of a figure that can be drawn.

    Raises:
        SimflError: its suffix is not one of SVG, PDF and PNG.
    """
    if path.suffix.lower() not in FORMATS:
        raise SimflError(f"{path}: a figure's name ends in {', '.join(FORMATS)}")
    return path


def draw(report: Report, path: Path) -> None:
    """Writes the figure as SVG, PDF or PNG, by the path's suffix; the same bytes for the same report."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    checked(path)
    numbered = all(isinstance(label, int) for label in report.rounds)
    trace, rounds = report.trace, np.array(report.rounds if numbered else range(len(report.rounds)))
    with matplotlib.rc_context({"svg.hashsalt": "simfl", "pdf.fonttype": 42, "font.size": 9}):
        figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(6.4, 4.8), layout="constrained")
        band = _corners(rounds, _held(trace.weak_lower), _held(trace.weak_upper))
        above.fill_between(*band, step="post", color="#56B4E9", alpha=0.4, linewidth=0)
        lines = (("weak", trace.weak_upper, "-.", "#0072B2"), ("semi-strong", trace.semi_strong, "--", "#D55E00"),
                 ("strong", trace.strong, "-", "#000000"))  # fmt: skip
        for label, values, dash, colour in lines:
            above.step(*_corners(rounds, _held(values)), dash, where="post", color=colour, label=label)
        above.set(ylabel="privacy guarantee (clients)", ylim=(0, None))
        above.legend(loc="upper right")
        below.step(*_corners(rounds, trace.rank), "--", where="post", color="#0072B2", label="rank of the sums")
        below.step(*_corners(rounds, report.exposed_by_round()), where="post", color="#000000", label="exposed clients")
        below.axhline(len(report.clients), color="#999999", linewidth=0.8, linestyle=":", label="all clients")
        below.set(ylabel="rank, clients", xlabel="round", ylim=(0, None))
        below.legend(loc="upper left")
        figure.savefig(path, metadata={".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower()))
        pyplot.close(figure)


def _corners(rounds: NDArray[np.int64], *columns: NDArray[np.number]) -> list[NDArray[np.number]]:
    """The rounds at which some column changes, with the first and the last; all that steps need."""
    keep = np.zeros(len(rounds), dtype=bool)
    keep[[0, -1]] = True
    for column in columns:
        keep[1:] |= ~((column[1:] == column[:-1]) | (np.isnan(column[1:]) & np.isnan(column[:-1])))
    return [rounds[keep], *(column[keep] for column in columns)]


def _held(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values that were not evaluated stay what they were."""
    known = np.where(np.isnan(values), 0, np.arange(len(values)))
    return values[np.maximum.accumulate(known)]
