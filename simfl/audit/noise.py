"""What noise in the sums of a log would have left to be learned of each client."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.certificate_words import ONLY_SUMS
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.privacy.accountant import history_of_log
from simfl.privacy.dp.losses import epsilon_timeline
from simfl.privacy.stage import STAGES, Stage
from simfl.scenario import InvalidScenario, Scenario

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
    most: NDArray[np.float64]
    median: NDArray[np.float64]
    last: NDArray[np.float64]
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
    by_name: Stage = stage
    return by_name


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
