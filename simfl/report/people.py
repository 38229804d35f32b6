"""The clients of a run that is watched: what they hold, how often they counted, with whom, and who stands alone."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.errors import SimflError
from simfl.privacy.study import Study
from simfl.stored import CLIENTS, JOINED

__all__ = ["MOST", "People"]

MOST = 200
"""Clients that are shown one by one; of more, none."""

MOST_ROUNDS = 2000
"""Rounds from which exposure is worked out while a run is watched; afterwards the report says it."""


@dataclass
class People:
    """The clients of one run's folder, looked at again and again; what has not grown is not worked out again.

    Args:
        folder: of the run.
    """

    folder: Path
    _size: int = -1
    _known: dict[int, dict[str, Any]] = field(default_factory=dict)

    def look(self) -> list[dict[str, Any]]:
        """A row a client as JSON data, empty where there are too many, or nothing is known of them.

        ``client``, ``name``, ``samples``; ``rounds`` in whose sums it was; ``unit``: the others that have been in the
        same sums with the same weights; ``exposed``: the round (from 1) from which on the sums give its update away; of
        those outside also ``updates``, ``refused``, ``scores`` and ``seen_s``, when it last asked, in seconds since
        1970.
        """
        people = _rows(self.folder / CLIENTS)
        if not 0 < len(people) <= MOST:
            return []
        self._read(len(people))
        nothing = {"rounds": 0, "unit": [], "exposed": None}
        return [
            {"client": i, "name": row.get("name", ""), "samples": int(row.get("samples") or 0)}
            | self._known.get(i, nothing)
            | self._joined(i)
            for i, row in enumerate(people)
        ]

    def _joined(self, client: int) -> dict[str, Any]:
        path = self.folder / JOINED / f"{client}.json"
        try:
            found, seen_s = json.loads(path.read_bytes()), path.stat().st_mtime
        except (OSError, ValueError):
            return {}
        told = {name: found.get(name) for name in ("updates", "refused", "scores")}
        return told | {"seen_s": seen_s} | ({"name": str(found["name"])} if found.get("name") else {})

    def _read(self, clients: int) -> None:
        """Works out again what the participation of all has made of them, if it has grown."""
        for name in ("participation.csv", "participation.csv.part"):
            path = self.folder / name
            if path.is_file():
                break
        else:
            return
        if (size := path.stat().st_size) == self._size:
            return
        self._size = size
        P = _matrix(_rows(path), clients)
        if P is None:
            return
        self._known = {i: {"rounds": int(count), "unit": [], "exposed": None} for i, count in enumerate((P > 0).sum(0))}
        if len(P) > MOST_ROUNDS:
            return
        try:
            basis = Study.of(P).basis
        except SimflError:
            return
        alone = (basis.size == 1) & (basis.isolated > 0)
        for one, label in enumerate(basis.classes.label.tolist()):
            if label >= 0:
                others = np.flatnonzero(basis.classes.label == label).tolist()
                exposed = int(basis.rounds[basis.isolated[label] - 1]) + 1 if alone[label] else None
                self._known[one] |= {"unit": [other for other in others if other != one], "exposed": exposed}


def _rows(path: Path) -> list[dict[str, str]]:
    """The whole rows of a table that may still grow; none where it is not there."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def _matrix(rows: list[dict[str, str]], clients: int) -> NDArray[np.float64] | None:
    """The participation matrix so far; where clients aggregate, too, the largest weight with which anybody did."""
    try:
        found = [(float(row["round"]), float(row["client"]), float(row["weight"])) for row in rows]
    except (KeyError, ValueError, TypeError):
        return None
    cells = np.array(found).reshape(-1, 3)
    places = cells[:, :2].astype(np.int64)
    if not len(cells) or places.min() < 0 or places[:, 1].max() >= clients:
        return None
    P = np.zeros((int(places[:, 0].max()) + 1, clients))
    np.maximum.at(P, (places[:, 0], places[:, 1]), cells[:, 2])
    return P
