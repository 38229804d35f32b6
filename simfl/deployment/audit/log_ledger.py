"""The ledger of a log: at which signal to noise each client's update is known, alone and against colluders."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.api.certificates import (
    BUDGET,
    COLLUDERS,
    GAUSSIAN_IN_SUM,
    IF_ONLY_SUMS,
    ONLY_SUMS,
    WORST,
    BoundedLedger,
    History,
    NoiseLedger,
    ObserverView,
    ParticipationMatrix,
    bounded_ledger,
    epsilon_timeline,
    facts_of_a_log,
    history_of_log,
    is_covered,
    sums_and_noise,
)
from simfl.api.scenarios import InvalidScenario, Scenario
from simfl.plugins import SERVER, Floats, JsonObject, SimflError, amount
from simfl.plugins.privacy import STAGES, Stage

SETTING = """
clients: {clients}
selection: {{name: random, k: {size}}}
training: {{name: fedavg, rounds: 1, weighting: equal}}
learning: none
secagg: {secagg}
privacy: {{stages: [clipping]}}
"""
ALL_SUMMED = "every update that was sent is in a sum"
HERE = "privacy.stages.0"
AGAINST = {"server": "the server and those who see the models", "outside": "those who see the models, not the server"}


@dataclass(frozen=True)
class Spent:
    """Epsilons by zero-out adjacency, all updates of one client against none of them: the most and the median over all
    clients after each round, float64 (J,), and each client's after the last, (N,).

    Attributes:
        counted: updates that were sent and are in no sum are counted, too.
    """

    stage: Stage
    delta: float
    most: Floats
    median: Floats
    last: Floats
    counted: bool = False

    @property
    def name(self) -> str:
        """What the noise is called."""
        return str(type(self.stage).name)

    @property
    def against(self) -> str:
        """Against whom the noise protects."""
        return AGAINST[self.stage.observer]

    @property
    def assumes(self) -> tuple[str, ...]:
        """What is taken for granted."""
        return (ONLY_SUMS,) if self.counted or self.stage.observer != "server" else (ONLY_SUMS, ALL_SUMMED)

    def to_json(self) -> JsonObject:
        """As plain data; null where epsilon is infinite."""
        named = {"max": self.most, "median": self.median, "clients": self.last}
        by_name = {name: [float(e) if np.isfinite(e) else None for e in values] for name, values in named.items()}
        trace = {"max": by_name["max"], "median": by_name["median"]}
        last = {name: values[-1] if values else 0.0 for name, values in trace.items()}
        about: JsonObject = {"noise": self.name, "adjacency": "zero_out", "observer": self.stage.observer}
        about["assumes"] = list(self.assumes)
        return {**about, "delta": self.delta, **last, "clients": by_name["clients"], "trace": trace}


def stage_of(text: str, matrix: Any) -> Stage:
    """The stage that a text describes, e.g. ``central_gaussian:noise_multiplier=2``, for sums as large as a log's.

    Raises:
        SimflError: it is none, or cannot be.
    """
    words = [word for word in re.findall(r"[A-Za-z_]\w*", text) if word in STAGES]
    size = max(int(np.diff(matrix.indptr).max(initial=1)), 1)
    secagg = "secagg" if words and STAGES[words[0]].whole else "plain"
    base = SETTING.format(clients=max(matrix.shape[1], 1), size=size, secagg=secagg)
    try:
        scenario = Scenario.parse(base, "log", [f"{HERE}={text}"])
    except InvalidScenario as error:
        said = [f"{p.key.removeprefix(HERE).lstrip('.')}: {p.message}".removeprefix(": ") for p in error.problems]
        raise SimflError(f"--noise {text}: {'; '.join(said)}") from None
    (stage,) = scenario.privacy.stages
    if not stage.observer:
        noises = ", ".join(name for name, cls in STAGES.items() if cls.adds_noise)
        raise SimflError(f"--noise {text}: adds no noise; one of {noises} does")
    return stage


def spent(matrix: Any, noise: str, delta: float = 1e-5, dimension: int | None = None, alone: Any = None) -> Spent:
    """What noise in the sums of a participation matrix, scipy-sparse (J, N), leaves to be learned.

    Args:
        noise: as for :func:`stage_of`.
        delta: in (0, 1).
        dimension: coordinates of an update; needed where the noise's epsilon depends on it.
        alone: of a run's folder, how many updates of each client were seen in no sum, CSR as ``matrix``.

    Raises:
        SimflError: no such noise, or its epsilon needs the dimension.
    """
    if not 0 < delta < 1:
        raise SimflError(f"--delta {delta:g}: must lie between 0 and 1; below {1 / max(matrix.shape[1], 1):g} here")
    rows = matrix.tocsr().astype(np.float64)
    stage = stage_of(noise, rows)
    history = history_of_log(stage, rows, dimension or 1, alone)
    if "dimension" in history.facts[0]:  # noise in equal parts from all
        if dimension is None:
            raise SimflError(f"--noise {noise}: its epsilon depends on the updates' length; give --dimension")
        if rows.nnz and np.ptp(rows.data) > 0:
            why = "is made of equal parts, but updates count differently in this log; use central_gaussian"
            raise SimflError(f"--noise {noise}: {why}")
    return Spent(stage, delta, *epsilon_timeline(history, delta), counted=alone is not None)


__all__ = ["COLLUDERS", "LogLedger", "ledger_of_log", "words"]


@dataclass(frozen=True)
class LogLedger:
    """The ledger of a log.

    Attributes:
        noise: what the noise in its sums is called; empty without noise.
        bounded: what is known of all rounds.
        doubtful: some weights may be rounded numbers.
        tolerated: where the server is the observer, the colluders whom the protocol of secure aggregation tolerates:
            nothing is said of more; None = not known.
    """

    noise: str
    bounded: BoundedLedger
    doubtful: bool = False
    tolerated: int | None = None

    @property
    def ledger(self) -> NoiseLedger:
        """The ledger of all rounds; after the exact ones with upper bounds for ``alone`` and ``upper``."""
        return self.bounded.whole

    def to_json(self) -> JsonObject:
        """As plain data; null where the signal to noise is infinite or was not evaluated.

        After ``known_rounds`` rounds "alone" is an upper bound and "alone_lower" a lower one.
        """
        parts = {"clients": self.ledger.last, "trace": self.ledger.worst}
        lowest = dict(zip(parts, self.bounded.alone_lower, strict=True))
        curves = {
            name: {
                "alone": _cells(curve.alone),
                "alone_lower": _cells(lowest[name]),
                "lower": [_cells(row) for row in curve.lower],
                "upper": [_cells(row) for row in curve.upper],
                "all": _cells(curve.everybody),
            }
            for name, curve in parts.items()
        }
        exposed = {"infinite_alone": np.isinf(lowest["clients"]).tolist(),
                   "may_be_infinite_alone": np.isinf(self.ledger.last.alone).tolist()}  # fmt: skip
        about = {"noise": self.noise or None, "colluders": list(self.ledger.colluders)}
        known = {"known_rounds": self.bounded.exact, "doubtful_weights": self.doubtful}
        return {**about, **facts_of_a_log("models" if self.noise else "server"), **known, **exposed, **curves}


def ledger_of_log(
    matrix: Any,
    noise: str | None = None,
    every: int = 1,
    budget: int = BUDGET,
    colluders: tuple[int, ...] = COLLUDERS,
    weak: Floats | None = None,
    doubles: bool = False,
    tolerated: int | None = None,
) -> LogLedger:
    """The ledger of a participation matrix, scipy-sparse (J, N), under noise in the sums or none.

    Args:
        noise: as for :func:`simfl.deployment.audit.log_ledger.stage_of`.
        weak: lower bounds of the weak guarantee after each round, (J,), for any weights where some are not sure.
        doubles: the weights are doubles with all their digits; else whether they were rounded is found out.
        tolerated: the colluders whom the protocol tolerates; of more, who see single updates without noise, nothing is
            said. None = not known.

    Raises:
        SimflError: there is no such noise, or the ledger cannot speak of it.
    """
    rounds = ParticipationMatrix.of(matrix, doubles)
    rows = _as_read(rounds)
    history = History({SERVER: ObserverView.of_sums(rows)})
    if noise is None and tolerated is not None:
        colluders = tuple(count for count in colluders if count <= tolerated)
    if noise is not None:
        stage = stage_of(noise, rows)
        if not is_covered(stage):
            raise SimflError(f"--ledger: speaks of {GAUSSIAN_IN_SUM}, not of --noise {noise}")
        history = history_of_log(stage, rows, 1)
    name = str(type(history.stages[0]).name) if history.stages else ""
    observed = sums_and_noise(history, SERVER, rows)
    bounded = bounded_ledger(*observed, rounds, budget, every, colluders, weak)
    return LogLedger(name, bounded, not rounds.sure.all(), tolerated if noise is None else None)


def _as_read(rounds: ParticipationMatrix) -> Any:
    """The weights as doubles next to the numbers that they were read as, CSR (J, N)."""
    from scipy.sparse import csr_array

    values = rounds.values.floats.copy()
    for code in rounds.values.numbers.roots:
        values[code] = float(rounds.values.fraction(code))
    return csr_array((values[rounds.codes], rounds.clients, rounds.indptr), shape=rounds.shape)


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
        else "without noise: 0 is hidden, infinite is reconstructable"
    )
    lines = [
        f"Signal to noise of one client's update ({what}), {WORST} {IF_ONLY_SUMS}, most and median of the clients:"
    ]
    exact, lowest = of.bounded.exact, of.bounded.alone_lower[0]
    if exact < len(of.ledger.worst.alone):
        lines.insert(0, _why_bounds(of))
    observer = "those who see the models" if of.noise else "the server"
    rows = [(f"{observer} alone", lowest, last.alone)]
    between = zip(of.ledger.colluders, last.lower, last.upper, strict=True)
    rows += [(f"and any {c}", low, high) for c, low, high in between if c < len(last.alone) - 1]
    rows.append(("and all others", last.everybody, last.everybody))
    for who, low, high in rows:
        most, middle = (_interval(f(low), f(high)) for f in (np.max, np.median))
        lines.append(f"  {who:<30} {most:>14} {middle:>14}")
    if of.tolerated is not None:
        most = amount(of.tolerated, "colluder")
        lines.append(f"With more than {most} of a sum, single updates are open to the server.")
    if not last.alone.any() or not np.array_equal(lowest, last.alone):
        return lines
    return [*lines, f"Client {name(int(last.alone.argmax()))} is known best to {observer} alone."]


def _why_bounds(of: LogLedger) -> str:
    exact = amount(of.bounded.exact, "round")
    if of.bounded.certain.known == len(of.ledger.worst.alone):
        after = f" after the first {exact}" if of.bounded.exact else ""
        return (f"Some weights{after} may be rounded numbers. The next lines have bounds, least..most, that\n"
                "hold whatever they are, up to their digits, if equal numbers stand for equal weights.")  # fmt: skip
    doubts = " and some weights may be rounded numbers" if of.doubtful else ""
    return f"The budget ended{doubts}. After the first {exact} the next lines have bounds, least..most."


def _interval(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g}..{high:.4g}"


def _cells(values: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
