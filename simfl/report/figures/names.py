"""Names beside points, as many as fit without covering one another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.report import style

LETTER = 0.6
"""Width of a letter, as a share of the font's size."""

Box = tuple[float, float, float, float]


def name_points(
    axes: Any, names: list[str], places: NDArray[np.float64], centre: int, points_per_unit: float, size: float = 6.5
) -> None:
    """Writes names on the side that faces away from the origin; outer points come first.

    Args:
        axes: of equal aspect.
        names: one a point.
        places: positions, shape (n, 2).
        centre: the point that is named in any case, below itself.
        points_per_unit: printer's points of a unit of the axes.
        size: of the letters, printer's points.
    """
    distance = np.linalg.norm(places, axis=1)
    order = sorted(range(len(names)), key=lambda i: (i != centre, -distance[i], i))
    boxes: list[Box] = []
    for i in order:
        away = np.array([0.0, -1.0]) if i == centre else places[i] / (distance[i] or 1.0)
        offset = away * (9 if i == centre else 6)
        side = 0 if abs(away[0]) < 0.4 else int(np.sign(away[0]))
        box = _box(places[i] * points_per_unit + offset, side, LETTER * size * len(names[i]), size)
        if i == centre or not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
            axes.annotate(
                names[i], places[i], xytext=offset, textcoords="offset points",
                fontsize=size, color=style.INK, zorder=5,
                ha={0: "center", 1: "left", -1: "right"}[side], va="center",
                fontweight="bold" if i == centre else "normal",
            )  # fmt: skip


def _box(anchor: NDArray[np.float64], side: int, wide: float, high: float) -> Box:
    left = anchor[0] - (1 - side) * wide / 2
    return left, anchor[1] - high / 2, left + wide, anchor[1] + high / 2


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
