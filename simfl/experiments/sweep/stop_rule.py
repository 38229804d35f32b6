"""When a run is stopped early: where its best value so far is worse than a threshold, at given rounds or times.

Whether and where a run stops depends only on its own rounds and on the rule, never on when somebody looked: a run that
was complete already is judged as one that is being executed. A stopped run says so in ``pruned.json``. It keeps its
checkpoint, and ``simfl run`` or a sweep takes it to its end.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from simfl.core.errors import IntegrityError, SimflError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import open_regular
from simfl.results.file_names import PRUNED, is_finished
from simfl.results.folder import ResultsFolder, UnfinishedTable
from simfl.results.sealed_files import read_sealed, write_sealed

By = Literal["rounds", "time"]

ROUNDS = "rounds.csv"


class Reached(NamedTuple):
    """Where a run was after a round: rounds and simulated seconds so far, and its value then, if it was measured."""

    rounds: int
    time_s: float
    value: float | None


class PrunedError(SimflError):
    """Raised inside a run to stop it."""


@dataclass(frozen=True)
class StopRule:
    """Thresholds that the best value so far must keep.

    Attributes:
        metric: column of rounds.csv.
        sign: 1 if more is better, else -1.
        by: what the levels count, rounds or simulated time.
        levels: ascending pairs: after how many rounds or seconds, and the threshold there.
    """

    metric: str
    sign: int
    by: By
    levels: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, data: JsonObject) -> "StopRule":
        """A rule that was sent as JSON."""
        return cls(data["metric"], data["sign"], data["by"], tuple((at, least) for at, least in data["levels"]))

    def stops_at(self, history: Iterable[Reached]) -> Reached | None:
        """Where a run is stopped, with its best value so far; None where it is not."""
        levels, best = list(self.levels), None
        for reached in history:
            while levels and self.by == "time" and reached.time_s > levels[0][0]:
                if self.is_worse(best, levels.pop(0)[1]):
                    return reached._replace(value=best)
            if reached.value is not None:
                best = reached.value if best is None else self.sign * max(self.sign * best, self.sign * reached.value)
            while levels and self.by == "rounds" and reached.rounds >= levels[0][0]:
                if self.is_worse(best, levels.pop(0)[1]):
                    return reached._replace(value=best)
        return None

    def is_worse(self, best: float | None, threshold: float) -> bool:
        """Whether a value is worse than a threshold; what was not measured is not."""
        return best is not None and self.sign * best < self.sign * threshold

    def levels_passed(self, rounds: int, time_s: float) -> int:
        """How many levels lie behind a run: it needs to be checked when there is another."""
        return sum(rounds >= at if self.by == "rounds" else time_s > at for at, _ in self.levels)

    def check(self, folder: Path) -> None:
        """Stops a run that is being executed, after one of its rounds.

        Raises:
            PrunedError: it is to stop; its folder says so.
        """
        if (end := self.stops_at(rounds_so_far(folder, self.metric))) is not None:
            write_sealed(folder / PRUNED, {"digest": folder.name, **end._asdict(), "rule": asdict(self)})
            raise PrunedError(f"{folder}: stopped after {end.rounds} rounds")

    def find_stop(self, folder: Path) -> Reached | None:
        """Where this rule stopped the run of a folder, or would have stopped it, if it is complete."""
        if is_finished(folder):
            return self.stops_at(rounds_so_far(folder, self.metric))
        try:
            note = read_sealed(folder / PRUNED)
        except IntegrityError:  # it is run again
            return None
        if note is None or note["digest"] != folder.name or StopRule.of(note["rule"]) != self:
            return None
        return Reached(note["rounds"], note["time_s"], note["value"])


def rounds_so_far(folder: Path, metric: str) -> list[Reached]:
    """The rounds of a run, complete or in progress.

    Raises:
        IntegrityError: the table is damaged.
    """
    rows = csv.DictReader(io.StringIO(_content(folder).decode(), newline=""))
    return [Reached(i, float(row["time_s"]), float(row[metric]) if row.get(metric) else None)
            for i, row in enumerate(rows, 1)]  # fmt: skip


def _content(folder: Path) -> bytes:
    if is_finished(folder):
        return ResultsFolder.open(folder).read(ROUNDS)
    table = UnfinishedTable(folder, ROUNDS)
    if not table.look():
        return b""
    with open_regular(table.path) as file:
        return file.read(table.size)


def best_at(history: Sequence[Reached], by: By, level: float, sign: int) -> float | None:
    """The best value of a run by a level of rounds or simulated seconds."""
    values = [sign * reached.value for reached in history if reached.value is not None
              and (reached.rounds if by == "rounds" else reached.time_s) <= level]  # fmt: skip
    return sign * max(values) if values else None


LEVELS = 9
"""A run is compared at so many points, equally far apart, of the shortest earlier run."""

STARTUP = 5
"""Complete runs before any is stopped."""


def median_rule(metric: str, sign: int, by: By, histories: Sequence[Sequence[Reached]]) -> StopRule | None:
    """The rule of Optuna's ``MedianPruner`` for the next runs of a search, from the rounds of the complete ones; None
    where these are too few.

    A run stops where its best value so far is worse than the median of earlier runs, at equal rounds or simulated time.
    Thresholds come from the runs that were complete before a batch was proposed, so that the number of workers changes
    nothing.
    """
    histories = [history for history in histories if history]
    if len(histories) < STARTUP:
        return None
    shortest = min(float(history[-1].rounds if by == "rounds" else history[-1].time_s) for history in histories)
    levels: list[tuple[float, float]] = []
    for i in range(1, LEVELS + 1):
        level = shortest * i / (LEVELS + 1)
        level = float(int(level)) if by == "rounds" else level
        values = [best for history in histories if (best := best_at(history, by, level, sign)) is not None]
        if level and len(values) >= STARTUP and (not levels or level > levels[-1][0]):
            levels.append((level, median(values)))
    return StopRule(metric, sign, by, tuple(levels)) if levels else None
