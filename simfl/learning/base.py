"""What a learner is, split by who asks: training turns jobs into updates, evaluation measures models."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Job, Labels, Predictions, Updates

if TYPE_CHECKING:
    from simfl.attacks.base import AttackerKnowledge, GroundTruth
    from simfl.clients.local_values import RoundOutcome


class Sizes(NamedTuple):
    """Traffic and computation of jobs, each a number or an array (n,); passes: how often the rule's epochs are made."""

    down_bytes: int | NDArray[np.int64]
    up_bytes: int | NDArray[np.int64]
    passes: float | NDArray[np.float64] = 1.0


class Pretraining(Protocol):
    """Results of the clients' training alone, before the first round; ``sizes`` are of all clients' jobs."""

    @property
    def sizes(self) -> Sizes: ...

    def best(self, responded: NDArray[np.bool_]) -> int | None:
        """The client whose model to begin with, of those that responded, bool (clients,); None where there is none."""

    def start_from(self, client: int) -> NDArray[np.float32]:
        """The model of this client, (d,); all clients now begin with what its pretraining hands on."""


class Evaluator(Protocol):
    """Measures models; here nothing is measured, as where nothing is learned."""

    def evaluate(self, version: int) -> dict[str, float]:
        """Named measurements of a version that the trainer keeps, at least ``test_loss``."""
        return {}

    def training_losses(self, version: int, clients: NDArray[np.integer], batch: int = 0) -> NDArray[np.float64]:
        """Of a version that the trainer keeps, on the training samples of each of ``clients``, (n,): mean loss, root of
        the mean squared loss, and accuracy, float64 (n, 3), NaN where there is none. With a ``batch`` only over so many
        samples of each, drawn anew for each version.
        """
        return np.full((len(clients), 3), np.nan)

    def predictions(
        self, model: NDArray[np.float32], makes: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    ) -> Predictions | None:
        """The predictions of a model, (d,), on the test samples, or on what ``makes`` makes of these, (n, ...) of the
        same shape; None without classes.
        """
        return None

    def no_skill_accuracy(self) -> float | None:
        """Test accuracy without training, where classes are learned: of the untrained model, or of always naming the
        commonest class, whichever is higher.
        """
        return None

    def client_accuracies(self) -> Mapping[str, NDArray[np.float64]] | None:
        """Of each client, (clients,) each, NaN where it has none: ``accuracy`` of the model that it uses, on samples of
        its own, when last measured; ``trained``: of the model that its last job ended with. None = not measured.
        """
        return None


class NoEvaluation(Evaluator):
    """The evaluator where nothing is learned."""


class Learner(ABC):
    """Holds data, partition, model code and the global models that jobs still refer to; beside it what evaluation,
    attacks and pretraining ask for. Plugins' derive from it; what they do not say is the worst.

    Attributes:
        dimension: parameters of the model, d.
        sizes_vary: whether :meth:`sizes` depends on the client or the version.
        samples: int64, shape (clients,): training samples of each client; where data grow, all it will ever hold.
        uses_outcomes: whether :meth:`report_outcomes` is called.
        private: bool (d,): coordinates that never leave a client; None = there are none.
        statistics: coordinates, (k,), that are averaged and set, no step being made of them, and the least value of
            each, (k,); None = there are none.
        tensors: where each of the model's parameters lies in its vector.
        steepness: of the model, see :class:`simfl.learning.models.base.Model`; None = nothing is learned.
    """

    dimension: int
    model_bytes: int
    samples: NDArray[np.int64]
    sizes_vary: bool
    tensors: tuple[slice, ...]
    uses_outcomes: bool
    private: NDArray[np.bool_] | None
    statistics: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None
    steepness: float | None

    @property
    def evaluator(self) -> Evaluator:
        """Measures models."""
        return NoEvaluation()

    @property
    def labels(self) -> Labels | None:
        """Of the samples; None = there are none."""
        return None

    @property
    def label_names(self) -> Sequence[str]:
        """Names of the labels, as :attr:`labels` has them, without counting any sample; empty = there are none."""
        return ()

    @property
    def computed_by(self) -> Mapping[str, str]:
        """What trains, for the summary: the name of the ``backend`` and of its ``device``; empty = nobody says."""
        return {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read of data files and what was not, in words."""
        return ()

    def largest_norm(self) -> float:
        """The largest Euclidean norm of a training sample, of whichever client; 0 without any."""
        return inf

    def sample_moves(self, jobs: Sequence[Job]) -> NDArray[np.float64] | None:
        """By how much, in the Euclidean norm, one replaced sample moves the model of each job at most, (n,), infinite
        where nothing is proven; None = nothing is learned.
        """
        return np.full(len(jobs), inf)

    @abstractmethod
    def initial(self) -> NDArray[np.float32]:
        """The model x(0), shape (d,), drawn from the stream "model"."""

    @abstractmethod
    def put(self, version: int, model: NDArray[np.float32]) -> None:
        """Keeps a global model, shape (d,), under its version."""

    @abstractmethod
    def get(self, version: int) -> NDArray[np.float32]:
        """The global model of a version that is kept."""

    @abstractmethod
    def drop(self, version: int) -> None:
        """Removes a version that no job refers to."""

    @abstractmethod
    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        """Bytes sent to and by each job's client, and how much it computes.

        Where the size of an upload depends on training, the jobs are trained now, and their results kept.
        """

    @abstractmethod
    def train(self, jobs: Sequence[Job]) -> Updates:
        """Local training of all jobs from their versions; these jobs count, so that their clients' states are kept.

        A job is trained once at most. Same bits in whatever batches the jobs come, unless the backend says
        otherwise (vmap, GPUs).
        """

    def root_update(self, version: int, samples: int) -> NDArray[np.float32]:
        """What a client would send, (d,), that trains the model of this version on so many samples of the training
        part, the same in every round, as they are before any client has changed its own; empty = there are none.
        """
        return np.empty(0, dtype=np.float32)

    def discard(self, jobs: Iterable[Job]) -> None:
        """Removes the results of jobs that will never be asked for."""
        return None

    @abstractmethod
    def counts(self, clients: NDArray[np.integer], version: int) -> NDArray[np.int64]:
        """Training samples that each of the clients holds when it trains on this version, int64 (n,)."""

    def positions(self, jobs: Sequence[Job]) -> tuple[NDArray[np.int64], ...] | None:
        """Of each job the training samples, by their places in one data set, a place as often as the job trains on it;
        None = not known: each may be in all of them.
        """
        return None

    def report_outcomes(self, jobs: Sequence[Job], outcomes: Sequence["RoundOutcome"]) -> NDArray[np.bool_]:
        """Tells the clients in a sum what became of their updates; whether each leaves for good, bool (n,)."""
        return np.zeros(len(jobs), dtype=bool)

    def state(self) -> Arrays:
        """What training has left behind besides the models (client algorithms' arrays), for checkpoints."""
        return {}

    def restore(self, state: Arrays) -> None:
        """Takes back what :meth:`state` gave."""
        return None

    def pretrain(self) -> Pretraining | None:
        """Trains every client alone before the first round; None where the client algorithm has no such rounds."""
        return None

    def attack_context(self) -> "tuple[AttackerKnowledge, GroundTruth] | None":
        """The attacker's knowledge and the ground truth; None where nothing is learned."""
        return None


class Learning(Plugin, Protocol):
    """The scenario's ``learning`` choice; ``build`` may import torch, nothing else here may.

    Attributes:
        evaluate_every: rounds between two measurements of the model; 0 = after the last only.
        columns: what measurements add to rounds.csv.
        validates: clients keep samples for validation.
        everybody_holds_samples: whether every client certainly does, given enough data.
        measures_losses: whether clients can say what loss a model has on their samples.
        counts_change: whether a client's number of samples may depend on the version of the model that it trains on.
        by_seed: the seed may decide whose data a client holds.
        per_client: what a client sends is of its own samples and of what it was sent, and of no other client's samples;
            else no noise has an epsilon, and guarantees are 1.
        external: the remote clients, which are processes of their own.
        uses_cluster: whether clients train on a cluster.
        tokens: samples are tokens, not numbers.
        steepness: of the model, see :class:`simfl.learning.models.base.Model`; None = nothing is learned.
        premise: what certificates take for granted of how clients train, in words; empty = nothing.
    """

    premise: str = ""
    evaluate_every: int
    external: tuple[int, ...] = ()
    uses_cluster: bool = False
    columns: tuple[Column, ...] = ()
    validates: bool = False
    tokens: bool = False
    steepness: float | None = inf
    everybody_holds_samples: bool = False
    measures_losses: bool = False
    counts_change: bool = True
    by_seed: bool = True
    per_client: bool = False

    @abstractmethod
    def build(self, scenario: ScenarioView, streams: Streams) -> Learner:
        """Loads the data, splits them and builds the model.

        Raises:
            ScenarioError, MissingError: it cannot.
        """

    def preview(self, setting: ScenarioView) -> list[str]:
        """What ``simfl validate`` leaves unchecked; looks, without loading much, for what :meth:`build` would refuse.

        Raises:
            ScenarioError, MissingError: as :meth:`build`.
        """
        return ["what is learned"]

    def without_remote_clients(self) -> Self:
        """The same where no client is remote."""
        return self


LEARNING = Registry[Learning](
    "learning",
    default="supervised",
    promises=("steepness", "everybody_holds_samples", "counts_change", "by_seed", "per_client"),
    protocol=Learning,
    modules=modules_of("simfl.learning", "none", "supervised"),
)
