"""What an accountant is: it says what the sums of a finished run gave away."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.privacy.certify.maps import Facts
from simfl.privacy.stage import Stage


def any_number(summed: int) -> float:
    """Of colluders: where sums alone are spoken of."""
    return np.inf


@dataclass(frozen=True)
class History:
    """All that an accountant sees of a finished run.

    Attributes:
        participation: the weights of the clients in each aggregate, scipy CSR of shape (rounds, clients), for every
            aggregator: the server, or the clients that aggregate; zero rows where nothing was aggregated.
        facts: of each stage, by name: float64 (rounds,), NaN where it said nothing.
        single: whoever aggregates needs every single update, e.g. for a median: no sum hides them.
        samples: int64 (clients,): training samples of each client where they weigh its updates in every sum, beside
            ``participation``; None where they do not.
        stages: in the order of their facts.
        exposing: names of parts that leave each client and that neither sums nor noise cover.
        silent: nothing leaves a client.
        coded: names of what compressed updates tell beside their sum; noise covers it.
        tolerated: of a sum of so many clients, those who with the server learn no single update from the protocol of
            secure aggregation; any number where sums alone are spoken of.
        recorded: the fewest that any session of each round has tolerated, failed ones too, (rounds,), as far as the
            sessions say; -1 = the server alone may have learned more than sums; None = none says anything.
        lengths_change: an update that stays the same may be clipped to another length in each sum, or weigh otherwise
            as samples grow, so that the rows of ``participation`` do not say what it counts.
        unsummed: how many updates of each client the server has seen that are in no sum, but for the noise that clients
            add, scipy CSR (rounds, clients); None = there were none.
        uncounted: nobody has counted them.
        shown: whoever aggregates sees every single update.
        recoded: updates are compressed.
    """

    participation: Mapping[int, Any]
    facts: tuple[Facts, ...] = ()
    single: bool = False
    samples: NDArray[np.int64] | None = None
    stages: tuple[Stage, ...] = ()
    exposing: tuple[str, ...] = ()
    silent: bool = False
    coded: tuple[str, ...] = ()
    tolerated: Callable[[int], float] = any_number
    lengths_change: bool = False
    unsummed: Any = None
    uncounted: bool = False
    recorded: NDArray[np.float64] | None = None
    shown: bool = False
    recoded: bool = False

    def fewest_tolerated(self) -> NDArray[np.float64]:
        """The fewest colluders tolerated by any session of each round, (rounds,); infinite where none was held."""
        fewest = np.full(self.shape[0], np.inf) if self.recorded is None else self.recorded.copy()
        for P in self.participation.values():
            summed, place = np.unique(np.diff(P.indptr), return_inverse=True)
            most = [self.tolerated(int(members)) if members else np.inf for members in summed]
            fewest = np.minimum(fewest, np.array(most, dtype=np.float64)[place])
        return fewest

    def open_to(self, colluders: int) -> NDArray[np.bool_]:
        """From which round on the server and so many clients may know more than sums, bool (rounds,)."""
        opened: NDArray[np.bool_] = np.logical_or.accumulate(self.fewest_tolerated() < colluders)
        return opened

    @property
    def seen(self) -> Any:
        """Of whom something was seen, by any aggregator, in a sum or not, scipy-sparse (rounds, clients)."""
        return sum([*self.participation.values(), *([] if self.unsummed is None else [self.unsummed])])

    @property
    def shape(self) -> tuple[int, int]:
        """(rounds, clients)."""
        return next(iter(self.participation.values())).shape


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
    >>> facts = {"sensitivity": np.ones(3), "std": np.full(3, 2.0)}
    >>> history = History({SERVER: rounds}, (facts,), stages=(CentralGaussian(),))
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
        rows: what a row of the participation matrix holds of a client in its numbers: ``units`` = 1, or a staleness
            weight; ``weights`` = its samples, too.
    """

    columns: ClassVar[tuple[Column, ...]]
    covers: ClassVar[frozenset[str]] = frozenset()
    rows: str = "units"

    @abstractmethod
    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        """The values of its columns for every round; None = does not apply or was not evaluated."""
        ...

    def clients(self, history: History) -> Mapping[str, NDArray[np.generic]]:
        """What it says of each client after the last round, by name, (clients,); a file of the run's own holds it."""
        return {}


ACCOUNTANTS = Registry[Accountant](
    "accountant", protocol=Accountant, modules=modules_of("simfl.privacy.dp.accountants", "pld", "rdp", "zero_out")
)
