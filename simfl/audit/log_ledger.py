"""The ledger of a log: at which signal to noise each client's update is known, alone and against colluders."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.audit.noise import stage_of
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER
from simfl.core.wording import amount
from simfl.privacy.accountant import History
from simfl.privacy.dp.log_replay import history_of_log
from simfl.privacy.ledger.ledger_scope import COLLUDERS, GAUSSIAN_IN_SUM, is_covered
from simfl.privacy.ledger.noise_ledger import NoiseLedger, ledger
from simfl.privacy.ledger.observed import sums_and_noise
from simfl.privacy.multiround.budget import BUDGET

__all__ = ["COLLUDERS", "LogLedger", "ledger_of_log", "words"]


@dataclass(frozen=True)
class LogLedger:
    """The ledger of a log, and what the noise in its sums is called; empty without noise."""

    noise: str
    ledger: NoiseLedger

    def to_json(self) -> JsonObject:
        """As plain data; null where the signal to noise is infinite or was not evaluated."""
        parts = {"clients": self.ledger.last, "trace": self.ledger.worst}
        curves = {
            name: {
                "alone": _cells(curve.alone),
                "lower": [_cells(row) for row in curve.lower],
                "upper": [_cells(row) for row in curve.upper],
                "all": _cells(curve.everybody),
            }
            for name, curve in parts.items()
        }
        exposed = np.isinf(self.ledger.last.alone).tolist()
        about = {"noise": self.noise or None, "colluders": list(self.ledger.colluders)}
        return about | {"known_rounds": self.ledger.known, "infinite_alone": exposed, **curves}


def ledger_of_log(
    matrix: Any,
    noise: str | None = None,
    every: int = 1,
    budget: int = BUDGET,
    colluders: tuple[int, ...] = COLLUDERS,
    weak: NDArray[np.float64] | None = None,
) -> LogLedger:
    """The ledger of a participation matrix, scipy-sparse (J, N), under noise in the sums or none.

    Args:
        noise: as for :func:`simfl.audit.noise.stage_of`.
        weak: lower bounds of the weak guarantee after each round, (J,).

    Raises:
        SimflError: there is no such noise, or the ledger cannot speak of it.
    """
    rows = matrix.tocsr().astype(np.float64)
    history = History({SERVER: rows})
    if noise is not None:
        stage = stage_of(noise, rows)
        if not is_covered(stage):
            raise SimflError(f"--ledger: speaks of {GAUSSIAN_IN_SUM}, not of --noise {noise}")
        history = history_of_log(stage, rows, 1)
    name = str(type(history.stages[0]).name) if history.stages else ""
    return LogLedger(name, ledger(*sums_and_noise(history, SERVER, rows), budget, every, colluders, weak))


def words(of: LogLedger, name: Callable[[int], str]) -> list[str]:
    """The ledger in words and a small table.

    Args:
        name: gives a client's label for its position.
    """
    last = of.ledger.last
    if not len(last.alone):
        return []
    what = (
        f"with {of.noise}, which the server itself adds"
        if of.noise
        else "without noise: 0 is hidden, infinite is exposed"
    )
    known = of.ledger.known
    lines = [f"Signal to noise of one client's update ({what}), most and median of the clients:"]
    if known < len(of.ledger.worst.alone):
        lines.insert(0, f"The budget ended after {amount(known, 'round')}; the next lines leave out later ones.")
    observer = "those who see the models" if of.noise else "the server"
    rows = [(f"{observer} alone", last.alone, last.alone)]
    between = zip(of.ledger.colluders, last.lower, last.upper, strict=True)
    rows += [(f"and any {c}", low, high) for c, low, high in between if c < len(last.alone) - 1]
    rows.append(("and all others", last.everybody, last.everybody))
    for who, low, high in rows:
        most, middle = (_interval(f(low), f(high)) for f in (np.max, np.median))
        lines.append(f"  {who:<30} {most:>14} {middle:>14}")
    if not last.alone.any():
        return lines
    return [*lines, f"Client {name(int(last.alone.argmax()))} is known best to {observer} alone."]


def _interval(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g}..{high:.4g}"


def _cells(values: NDArray[np.float64]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
