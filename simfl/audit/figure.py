"""The picture of an audit: the guarantees and the number of exposed clients over the rounds."""

from pathlib import Path

import numpy as np

from simfl.audit.report import Report
from simfl.errors import SimflError

__all__ = ["draw"]

FORMATS = (".svg", ".pdf", ".png")


def draw(report: Report, path: Path) -> None:
    """Writes the figure as SVG, PDF or PNG, by the path's suffix; the same bytes for the same report.

    Raises:
        SimflError: the suffix is none of these.
    """
    if path.suffix.lower() not in FORMATS:
        raise SimflError(f"{path}: a figure's name ends in {', '.join(FORMATS)}")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    trace, rounds = report.trace, np.arange(len(report.rounds))
    exposed = np.zeros(len(rounds), dtype=int)
    for exposure in report.exposed:
        exposed[exposure.round :] += 1
    with matplotlib.rc_context({"svg.hashsalt": "simfl", "pdf.fonttype": 42, "font.size": 9}):
        figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(6.4, 4.8), layout="constrained")
        above.fill_between(rounds, _held(trace.weak_lower), _held(trace.weak_upper), step="post", color="#56B4E9",
                           alpha=0.4, linewidth=0)  # fmt: skip
        lines = (("weak", trace.weak_upper, "-.", "#0072B2"), ("semi-strong", trace.semi_strong, "--", "#D55E00"),
                 ("strong", trace.strong, "-", "#000000"))  # fmt: skip
        for label, values, dash, colour in lines:
            above.step(rounds, _held(values), dash, where="post", color=colour, label=label)
        above.set(ylabel="privacy guarantee (clients)", ylim=(0, None))
        above.legend()
        below.step(rounds, exposed, where="post", color="#000000")
        below.set(ylabel=f"exposed clients (of {len(report.clients)})", xlabel="round", ylim=(0, None))
        figure.savefig(path, metadata={".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower()))
        pyplot.close(figure)


def _held(values: np.ndarray) -> np.ndarray:
    """Values that were not evaluated stay what they were."""
    known = np.where(np.isnan(values), 0, np.arange(len(values)))
    return values[np.maximum.accumulate(known)]
