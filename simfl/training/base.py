"""What a training rule is: when updates are asked for, what each counts, and the server's step. Flat vectors only."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import ClientAlgorithm
from simfl.clients.local_training import PlainSgd
from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.types import Arrays, Floats, Integers, Vectors
from simfl.training.aggregates import AggregationRule

if TYPE_CHECKING:
    from simfl.training.staleness import UniformStaleness

State = Arrays
"""The server optimiser's explicit state, name -> array; saved in checkpoints."""


class Progress(NamedTuple):
    """How far a run has come with a server update.

    Attributes:
        rounds: server rounds, skipped ones included.
        client_updates: updates aggregated.
        time_s: simulated seconds.
        traffic_bytes: bytes sent in both directions.
        accuracy: test accuracy, None where it was not measured.
        no_better: changed models in a row that were measured and had no lower validation loss than the best before.
        aggregations: rounds that summed something.
    """

    rounds: int
    client_updates: int
    time_s: float
    traffic_bytes: int
    accuracy: float | None
    no_better: int = 0
    aggregations: int = 0


class Losses(NamedTuple):
    """What an aggregation may lose of one selection.

    Attributes:
        on_failure: what becomes of a failed client's fellows: ``drop_unit``, ``abort`` or ``partial``.
        deadline_s: after which missing clients count as failed, or None.
        quorum: whether it goes on without those who are slowest.
    """

    on_failure: str
    deadline_s: float | None
    quorum: bool = False


class Rule(Plugin, Protocol):
    """A frozen dataclass: YAML keys in, pure functions of updates out. This is what every server reads of it.

    Two clients with 20 and 60 samples send the updates (1, 0) and (0, 2). Federated averaging weighs them by samples:
    (20 (1, 0) + 60 (0, 2)) / 80. With a server learning rate of 1/2 the model (1, 1) takes half of that step, and the
    tenth round is the last one:

    >>> from simfl.training.fedavg import FedAvg
    >>> rule, examples, fresh = FedAvg(server_learning_rate=0.5, rounds=10), np.array([20, 60]), np.array([0, 0])
    >>> deltas, model = np.array([[1, 0], [0, 2]], dtype=np.float32), np.ones(2, dtype=np.float32)
    >>> weights = rule.weights(examples, fresh)
    >>> rule.row(fresh).tolist(), weights.tolist(), rule.divisor(weights, examples)
    ([1, 1], [20.0, 60.0], 80.0)
    >>> summed = rule.contributions(deltas, lambda: [model, model], model)
    >>> change = rule.aggregate.combine(summed, weights, rule.divisor(weights, examples))
    >>> after, state = rule.step(model, change, rule.start(2))
    >>> change.tolist(), after.tolist()
    ([0.25, 1.5], [1.125, 1.75])
    >>> [rule.ends(Progress(rounds, 2 * rounds, 60.0 * rounds, 0, None)) for rounds in (9, 10)]
    [False, True]

    In FedBuff the second update is three versions old and counts (1 + 3)^(-1/2) = 1/2. The divisor stays that of the
    samples, so that a stale update also shortens the step:

    >>> from simfl.training.fedbuff import FedBuff
    >>> from simfl.training.staleness import PolynomialStaleness
    >>> rule, ages = FedBuff(rounds=10, concurrency=4, buffer=2, staleness=PolynomialStaleness(0.5)), np.array([0, 3])
    >>> weights = rule.weights(examples, ages)
    >>> rule.row(ages).tolist(), weights.tolist(), rule.divisor(weights, examples)
    ([1.0, 0.5], [20.0, 30.0], 80.0)
    >>> rule.aggregate.combine(deltas, weights, 80.0).tolist()
    [0.25, 0.75]

    Attributes:
        server: name of the server that runs it, of the family "server".
        most_rounds: rounds after which the run ends at the latest; None if something else ends it.
        asynchronous: jobs are not bound to rounds: each has a row in jobs.csv.
        many_aggregators: clients aggregate, too: participation.csv names the aggregator of each row.
        own_models: every client has a model of its own, which it averages with others'; there is no one aggregate that
            protocols, noise stages, attacks or the server's optimiser could work on.
        keeps_units: a unit is in the server's aggregate whole and with one weight, or not at all; what theory says of
            a policy's guarantee rests on it.
        by_samples: an update's weight is what its row says times its client's samples; else the row's alone.
        losses: where every aggregation is of one selection, what it may lose of it; else None.
        aggregate: how updates become one, see :class:`simfl.training.aggregates.AggregationRule`.
        algorithm: the client algorithm, :class:`simfl.clients.base.ClientAlgorithm`.
        fixed_denominator: what every round's weighted sum is divided by, whoever came; then a round that sums nobody
            is a step, too, with a sum of 0. None = it depends on the updates, see :meth:`divisor`.
        ends_by_participation: who takes part may decide when the run ends: by its updates, its time or its traffic.
        ends_by_models: the models may decide when the run ends.
        weighs_staleness: an asynchronous rule's weights may depend on staleness. A rule has to say that they do not, as
            noise of which clients add equal parts asks for.
        sends_changes: what is summed are the clients' changes since their downloads, as the clients send them; a rule
            has to say so, as codes of changes and noise at clients ask for.
        columns: of rounds.csv that its server fills for it, besides those that every run has.
        needs_accuracy: an accuracy may end the run.
        sybils: clients of which the rule says that they are the server's own.
    """

    server: str
    most_rounds: int | None
    asynchronous: bool
    many_aggregators: bool
    keeps_units: bool
    by_samples: bool
    losses: Losses | None
    aggregate: AggregationRule
    algorithm: ClientAlgorithm = PlainSgd()
    fixed_denominator: float | None = None
    ends_by_participation: bool = True
    ends_by_models: bool = True
    own_models: bool = False
    weighs_staleness: bool = True
    sends_changes: bool = False
    columns: tuple[Column, ...] = ()
    needs_accuracy: bool = False
    sybils: tuple[int, ...] = ()

    @property
    def keeps_changes(self) -> bool:
        """Whether what is summed of a client is its change, plus models that the server knows: nobody else's change is
        in it, and one that stays the same is summed as the same. Else no noise has an epsilon, and guarantees are 1.
        """
        return self.sends_changes

    def quorum_clients(self, selected: int) -> int | None:
        """Of so many selected clients, how many have to arrive, in whole units; None = all that can."""
        return None

    @abstractmethod
    def epochs(self, samples: Integers) -> Floats:
        """Passes over its samples that a job makes, shape (n,): what its computation time is proportional to."""

    @abstractmethod
    def contributions(self, deltas: Vectors, downloaded: Callable[[], Sequence[Vectors]], model: Vectors) -> Vectors:
        """What is summed, float32 (n, d), of the clients' changes since their downloads.

        Args:
            deltas: the changes, (n, d).
            downloaded: the models they began from, n of (d,).
            model: the current global model, (d,).
        """

    @abstractmethod
    def row(self, staleness: Integers) -> NDArray[np.number]:
        """What the participation matrix holds for updates of this staleness, shape (n,); integer 1 = counts once."""

    @abstractmethod
    def weights(self, examples: Integers, staleness: Integers) -> Floats:
        """The weight each update carries in the sum, shape (n,)."""

    @abstractmethod
    def divisor(self, weights: Floats, examples: Integers) -> float:
        """What the weighted sum is divided by."""

    @abstractmethod
    def start(self, dimension: int) -> State:
        """The server optimiser's state before the first aggregation."""

    @abstractmethod
    def step(self, model: Vectors, update: Vectors, state: State) -> tuple[Vectors, State]:
        """The next global model, float32 (d,), from the aggregate of the updates, (d,); pure."""

    @abstractmethod
    def ends(self, progress: Progress) -> bool:
        """Whether the run ends with the server update that brought it so far."""

    def advances(self, before: Progress, after: Progress) -> bool:
        """Whether something that can end the run has come nearer."""
        return True


def used_row(rule: Rule, row: NDArray[Any], shares: Floats, divisor: float, samples: Integers) -> NDArray[Any]:
    """The row of the participation matrix, (n,), by which privacy is accounted.

    It is the one that is stated, where that makes of it what was used, times the clients' samples if the rule is by
    samples; else what makes that of it. An aggregate that follows no weights counts every update once.

    Args:
        rule: whose weights they are.
        row: what the rule, or the protocol, states, (n,).
        shares: of each update in the aggregate, if that is the sum of share times update, (n,).
        divisor: what the sum was divided by.
        samples: of each client, (n,).
    """
    aggregate, times = rule.aggregate, samples if rule.by_samples else np.ones_like(samples)
    used: NDArray[Any] = shares * divisor if aggregate.weighted or aggregate.sum_only else row * times
    if aggregate.sum_only:
        gain = abs(float(aggregate.combine(np.ones((len(row), 1), dtype=np.float32), shares * divisor, divisor)[0]))
        stated = float(shares.sum())
        used = used if np.isclose(gain, stated, rtol=1e-3) else used * max(1.0, gain / stated)
    if np.allclose(used, row * times, rtol=1e-9, atol=0):
        return row
    return np.divide(used, times, out=np.zeros(len(used)), where=times > 0)


RULES = Registry[Rule](
    "training",
    promises=("weighs_staleness",),
    protocol=Rule,
    modules=modules_of(
        "simfl.training", fedavg="fedavg gossip serverless", fedbuff="fedasync fedbuff fedbuff_paper flsim"
    ),
)


class SynchronousRule(Rule, Protocol):
    """What the server "synchronous" reads besides.

    Attributes:
        on_failure: ``drop_unit``, ``abort`` or ``partial``.
        deadline_s: of the updates, or None.
        skipped_round_s: how long a round takes in which too few are available.
        announce: the new model is sent to the round's clients as soon as it exists.
    """

    on_failure: str
    deadline_s: float | None
    skipped_round_s: float
    announce: bool


class ServerlessRule(Rule, Protocol):
    """What the server "serverless" reads besides: how long a round takes in which too few are available."""

    skipped_round_s: float


class BufferedRule(Rule, Protocol):
    """What the servers "buffered" and "drawn" read besides; see :class:`simfl.training.fedbuff.FedBuff`."""

    concurrency: int
    buffer: int
    partial: bool
    unit_weights: str
    deadline_s: float | None
    retry_s: float
    lookahead: int | None

    def refuses(self, staleness: int) -> bool:
        """Whether an update (of a unit) this old is not used at all."""


class SampledStalenessRule(BufferedRule, Protocol):
    """What the server "drawn" reads besides: how stale updates are, and how much time passes between aggregations."""

    @property
    def arrivals(self) -> "UniformStaleness": ...
