"""What a learner is: it turns jobs into updates, in one batch, only when they are used."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.lab import Bench, Vault
from simfl.registry import Registry
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import Job, Labels, Predictions, Updates
from simfl.variant import Conclusion

__all__ = ["LEARNING", "Learner", "Learning", "Sizes"]


class Sizes(NamedTuple):
    """What jobs cost, each a number or an array (n,).

    Attributes:
        down_bytes, up_bytes: of the model and of the update.
        passes: how often the rule's epochs are made.
    """

    down_bytes: Any
    up_bytes: Any
    passes: Any = 1.0


class Learner(Protocol):
    """Holds data, partition, model code and the global models that jobs still refer to.

    Attributes:
        dimension: parameters of the model, d.
        model_bytes: size of one dense model on the wire.
        sizes_vary: whether :meth:`sizes` depends on the client or the version.
        samples: int64, shape (clients,): training samples of each client; where data grow, all it will ever hold.
        concludes: whether :meth:`conclude` is asked.
        private: bool (d,): coordinates that never leave a client; None = there are none.
        labels: the classes of these samples; None where they have none.
        tensors: where each of the model's parameters lies in its vector.
    """

    dimension: int
    model_bytes: int
    sizes_vary: bool
    samples: NDArray[np.int64]
    tensors: Sequence[slice]
    concludes: bool
    private: NDArray[np.bool_] | None

    @property
    def labels(self) -> Labels | None: ...

    def initial(self) -> NDArray[np.float32]:
        """The model x(0), shape (d,), drawn from the stream "model"."""
        ...

    def put(self, version: int, model: NDArray[np.float32]) -> None:
        """Keeps a global model, shape (d,), under its version."""
        ...

    def get(self, version: int) -> NDArray[np.float32]:
        """The global model of a version that is kept."""
        ...

    def drop(self, version: int) -> None:
        """Forgets a version that no job refers to."""
        ...

    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        """Bytes sent to and by each job's client, and how much it computes.

        Where a client variant's size depends on training, the jobs are trained now, and remembered.
        """
        ...

    def apart(self) -> Any:
        """What clients have done alone before the first round: ``sizes`` of all clients' jobs, and ``best(heard)``, the
        client whose model to begin with, or None; None where they do nothing.
        """
        ...

    def begin_with(self, apart: Any, client: int) -> NDArray[np.float32]:
        """The model of this client, (d,); what everybody begins with is kept."""
        ...

    def train(self, jobs: Sequence[Job]) -> Updates:
        """Local training of all jobs from their versions; these jobs count, so that what their clients keep is kept.

        A job is asked for once at most. Same bits in whatever batches the jobs come, unless the backend says
        otherwise (vmap, GPUs).
        """
        ...

    def counts(self, clients: NDArray[np.integer], version: int) -> NDArray[np.int64]:
        """Training samples that each of the clients holds when it trains on this version, int64 (n,)."""
        ...

    def conclude(self, jobs: Sequence[Job], ends: Sequence[Conclusion]) -> NDArray[np.bool_]:
        """Tells the clients in a sum what became of their updates; whether each leaves for good, bool (n,)."""
        ...

    def forget(self, jobs: Iterable[Job]) -> None:
        """These jobs will never be asked for."""
        ...

    def evaluate(self, version: int) -> dict[str, float]:
        """Named measurements of a kept version, at least ``test_loss`` and ``test_accuracy``."""
        ...

    def predictions(self, model: NDArray[np.float32]) -> Predictions | None:
        """What a model, (d,), makes of the test samples; None where nothing is learned."""
        ...

    def lab(self) -> tuple[Bench, Vault] | None:
        """What attacks on the model work with; None where nothing is learned."""
        return None

    def no_skill_accuracy(self) -> float | None:
        """Test accuracy without training, where something is learned: of the untrained model, or of always naming the
        commonest class, whichever is higher.
        """
        ...

    def accuracies(self) -> Mapping[str, NDArray[np.float64]] | None:
        """Of each client, (clients,) each, NaN where it has none: ``accuracy`` of the model that it uses, on samples of
        its own, when last measured; ``trained``: of the model that its last job ended with. None = not measured.
        """
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """What training has left behind besides the models (what client variants keep), for checkpoints."""
        ...

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Takes back what :meth:`state` gave."""
        ...


class Learning(Protocol):
    """The scenario's ``learning`` choice; ``build`` may import torch, nothing else here may.

    Attributes:
        evaluate_every: rounds between two measurements of the model; 0 = after the last only.
        columns: what measurements add to rounds.csv.
        validates: clients keep samples for validation.
        everybody_holds_samples: whether every client certainly does, given enough data.
        external: the clients that train outside, as processes of their own.
        clustered: whether clients train on a cluster.
    """

    evaluate_every: int
    external: tuple[int, ...] = ()
    clustered: bool = False
    columns: tuple[Column, ...] = ()
    validates: bool = False
    everybody_holds_samples: bool = False

    @abstractmethod
    def build(self, scenario: Setting, streams: Streams) -> Learner:
        """Loads the data, splits them and builds the model.

        Raises:
            ScenarioError, MissingError: it cannot.
        """
        ...

    def preview(self, setting: Setting) -> list[str]:
        """What ``simfl validate`` leaves unchecked; looks, without loading much, for what :meth:`build` would refuse.

        Raises:
            ScenarioError, MissingError: as :meth:`build`.
        """
        return ["what is learned"]

    def inside(self) -> Self:
        """The same where no client trains outside."""
        return self


LEARNING = Registry("learning", default="supervised", protocol=Learning)
