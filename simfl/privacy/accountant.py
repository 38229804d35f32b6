"""What an accountant is: it says what the sums of a finished run, or of a log, gave away."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.payload import Kind
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.types import SERVER, Job
from simfl.privacy.certify.chain import Beside
from simfl.privacy.certify.maps import Facts
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.stage import Members, Stage


@dataclass(frozen=True)
class History:
    """All that an accountant sees of a finished run.

    Attributes:
        views: what each aggregator received: the server, or the clients that aggregate.
        facts: of each stage, by name: float64 (rounds,), NaN where it said nothing.
        stages: in the order of their facts.
        samples: int64 (clients,): training samples of each client where they weigh its updates in every sum, beside
            the rows of the views; None where they do not.
        silent: nothing leaves a client.
        beside: what else is made of updates.
        guarantees: of sums, against each aggregator alone, by metric, once they are computed; of histories of fewer
            views, too.
    """

    views: Mapping[int, ObserverView]
    facts: tuple[Facts, ...] = ()
    stages: tuple[Stage, ...] = ()
    samples: NDArray[np.int64] | None = None
    silent: bool = False
    beside: Beside = Beside()
    guarantees: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def participation(self) -> Mapping[int, Any]:
        """The clients' weights in each aggregate, scipy CSR (rounds, clients), by aggregator; zero rows without one."""
        return {who: view.by_round for who, view in self.views.items()}

    @property
    def any_view(self) -> ObserverView:
        """Of one aggregator: in all but rows and tolerance they are alike."""
        return next(iter(self.views.values()))

    def fewest_tolerated(self) -> NDArray[np.float64]:
        """The fewest colluders tolerated by any session of each round, (rounds,); infinite where none was held."""
        return np.minimum.reduce([view.tolerated for view in self.views.values()])

    def open_to(self, colluders: int) -> NDArray[np.bool_]:
        """From which round on the server and so many clients may know more than sums, bool (rounds,)."""
        return np.logical_or.accumulate(self.fewest_tolerated() < colluders)

    @property
    def seen(self) -> Any:
        """Of whom something was seen, by any aggregator, in a sum or, where stages protect against the server, not;
        scipy-sparse (rounds, clients).
        """
        alone = [self.any_view.alone] if any(stage.observer == "server" for stage in self.stages) else []
        return sum([*self.participation.values(), *(each for each in alone if each is not None)])

    @property
    def shape(self) -> tuple[int, int]:
        """(rounds, clients)."""
        return self.any_view.rounds, self.any_view.rows.shape[1]


class Accountant(Plugin, Protocol):
    """Says, after the last round, what every round's aggregates had given away until then.

    Three rounds of four clients: 0 and 1, then 2 and 3, then 0, 1 and 2 are added up. The sums of rounds 0 and 2 differ
    by client 2's update alone, so that from then on nobody is hidden (the guarantees are 1). With noise of twice the
    sensitivity (mu = 1/2) a client that was in one sum has epsilon 1.99 at delta 10^-5, one that was in two has the
    epsilon of mu = sqrt(2) / 2, which is 2.94:

    >>> from scipy.sparse import csr_array
    >>> from simfl.core.types import SERVER
    >>> from simfl.privacy.dp.accountants.zero_out import ZeroOut
    >>> from simfl.privacy.dp.stages.central_gaussian import CentralGaussian
    >>> from simfl.privacy.multiround.guarantees import Guarantees
    >>> rounds = csr_array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0]])
    >>> facts = {"rounding": np.zeros(3), "std": np.full(3, 2.0)}
    >>> history = History({SERVER: ObserverView.of_sums(rounds)}, (facts,), (CentralGaussian(),))
    >>> columns = Guarantees().accounts(history)
    >>> columns["privacy_strong"], columns["privacy_weak_lower"], columns["privacy_weak_upper"]
    ([2, 2, 1], [2, 2, 1], [2, 2, 1])
    >>> accountant = ZeroOut(delta=1e-5)
    >>> [round(value, 2) for value in accountant.accounts(history)["epsilon_max"]]
    [1.99, 1.99, 2.94]
    >>> {name: values.round(2).tolist() for name, values in accountant.clients(history).items()}
    {'rounds': [2, 2, 2, 1], 'epsilon': [2.94, 2.94, 2.94, 1.99]}

    Attributes:
        columns: what it fills in rounds.csv.
        covers: the kinds of parts (:data:`simfl.core.payload.Kind`) of what leaves a client that its numbers speak of,
            where they are summed or noised; beside others it says 1, or an infinite epsilon. Read of the scenario's
            ``privacy``.
        epsilon_delta: the δ of its epsilons, 0 = they are pure; None = it does not say.
        amplification: as what samples of the clients it takes those who take part; ``none`` = everybody may know them.
        rows: what a row of the participation matrix holds of a client in its numbers: ``units`` = 1, or a staleness
            weight; ``weights`` = its samples, too.
    """

    columns: ClassVar[tuple[Column, ...]]
    covers: ClassVar[frozenset[Kind]] = frozenset()
    epsilon_delta: float | None = None
    amplification: str = "none"
    rows: str = "units"

    @abstractmethod
    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        """The values of its columns for every round; None = does not apply or was not evaluated."""

    def clients(self, history: History) -> Mapping[str, NDArray[np.generic]]:
        """What it says of each client after the last round, by name, (clients,); a file of the run's own holds it."""
        return {}


ACCOUNTANTS = Registry[Accountant](
    "accountant",
    promises=("covers",),
    protocol=Accountant,
    modules=modules_of("simfl.privacy.dp.accountants", "zero_out", pld_and_rdp="pld rdp"),
)


def history_of_log(stage: Stage, matrix: Any, dimension: int, alone: Any = None) -> History:
    """What accountants would have seen, had the resolved ``stage`` been at work.

    Args:
        matrix: weights, scipy CSR array (rounds, clients); a round without any aggregated nothing.
        dimension: coordinates of an update.
        alone: how many updates of each client were seen in no sum, CSR as ``matrix``; None = none are known of.
    """
    rounds = matrix.shape[0]
    state, streams = stage.start(dimension), Streams(0)
    facts: dict[str, Any] = {}
    for t in np.flatnonzero(np.diff(matrix.indptr)).tolist():
        row = slice(matrix.indptr[t], matrix.indptr[t + 1])
        weights = matrix.data[row].astype(np.float64)
        jobs = tuple(Job(client, client, t, 0.0) for client in matrix.indices[row].tolist())
        members = Members(t, jobs, weights, float(weights.sum()))
        for name, value in stage.facts(members, state).items():
            facts.setdefault(name, np.full(rounds, np.nan))[t] = value
        state = stage.server(np.zeros(stage.length(0), dtype=np.float32), members, state, streams)[1]
    view = ObserverView.of_sums(matrix)
    return History({SERVER: view if alone is None else replace(view, alone=alone)}, (facts,), (stage,))


def noise_multiplier(epsilon: float, delta: float, participations: float) -> float:
    """The standard deviation over the clip norm with which so many sums, each with noise of its own, cost epsilon."""
    from simfl.privacy.dp.mechanisms import gaussian

    return sqrt(participations) / gaussian.mu(epsilon, delta)
