"""The picture of an audit: the guarantees and the number of exposed clients over the rounds."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.audit.report import Report
from simfl.report import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]


def draw(report: Report) -> "Figure":
    """The figure. Call it under :func:`simfl.report.style.settings`."""
    numbered = all(isinstance(label, int) for label in report.rounds)
    trace, rounds = report.trace, np.array(report.rounds if numbered else range(len(report.rounds)))
    fig, ((above,), (below,)) = style.figure(2, 1, height_in=4.2, sharex=True)
    band = _corners(rounds, _held(trace.weak_lower), _held(trace.weak_upper))
    above.fill_between(*band, step="post", color=style.look(0)["color"], alpha=0.25, linewidth=0)
    lines = ("weak", trace.weak_upper), ("semi-strong", trace.semi_strong), ("strong", trace.strong)
    for number, (label, values) in enumerate(lines):
        above.step(*_corners(rounds, _held(values)), where="post", label=label, **style.look(number))
    above.set(ylabel="Guarantee (clients)", ylim=(0, None))
    above.legend(loc="upper right")
    below.step(*_corners(rounds, trace.rank), where="post", label="rank of the sums", **style.look(3))
    below.step(*_corners(rounds, report.exposed_by_round()), where="post", label="exposed clients", **style.look(4))
    below.axhline(len(report.clients), color=style.MUTED, linewidth=0.8, linestyle=":", label="all clients")
    below.set(ylabel="Rank, clients", xlabel="Round", ylim=(0, None))
    below.legend(loc="upper left")
    made: Figure = fig
    return made


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
