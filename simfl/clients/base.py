"""What a client algorithm is: where a client starts from, what it keeps for itself, and what it sends.

It says how local training departs from plain SGD on the downloaded model. Its methods are pure: arrays in,
arrays out; whoever trains keeps the arrays, fills them on first use and saves them in checkpoints.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.clients.local_values import LocalContext, LocalPass, LocalResult, Parameter, RoundOutcome, Vector
from simfl.core.columns import Column
from simfl.core.payload import MODEL, UPDATE, PayloadPart, Upload, dense_bytes
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.types import Arrays


class ClientAlgorithm(Plugin, Protocol):
    """A frozen dataclass whose fields are its YAML keys; what it leaves out is plain, dense and keeps nothing.

    A client downloads the model (1, 2) and trains it to (1.5, 1). With FedProx it starts from the downloaded model, is
    held near it, and sends the difference; where the second coordinate is private, that stays with the client:

    >>> import numpy as np
    >>> from simfl.core.payload import Download
    >>> from simfl.core.types import Job
    >>> from simfl.clients.local_training import FedProx
    >>> from simfl.clients.personal import PrivateCoordinates
    >>> model, delta = np.array([1.0, 2.0], dtype=np.float32), np.array([0.5, -1.0], dtype=np.float32)
    >>> context = LocalContext(Job.of(0, 3, 0, 0.0), Download(model, {}), {}, lambda model: 0.5, samples=20)
    >>> algorithm = FedProx(mu=0.1)
    >>> local_pass = algorithm.begin(context)
    >>> local_pass.start.tolist(), local_pass.proximal
    ([1.0, 2.0], 0.1)
    >>> result = algorithm.end(context, local_pass, delta, steps=4, rate=0.05)
    >>> result.upload.update.tolist(), algorithm.bytes_up(8, {}, None)
    ([0.5, -1.0], 8)
    >>> algorithm = PrivateCoordinates(np.array([False, True]))
    >>> result = algorithm.end(context, algorithm.begin(context), delta, steps=4, rate=0.05)
    >>> result.upload.update.tolist(), result.state["private"].tolist(), algorithm.bytes_up(8, {}, None)
    ([0.5, 0.0], [1.0], 4)
    >>> algorithm.personal(np.array([3.0, 4.0], dtype=np.float32), result.state).tolist()
    [3.0, 1.0]

    Attributes:
        momentum: whether clients may use momentum.
        needs_rounds: it assumes synchronous rounds.
        needs_server: every client trains alone before the first round (:meth:`pretraining`), and a server chooses a
            model.
        sends: the parts of all that leaves a client, in jobs and before the first one (:mod:`simfl.core.payload`);
            empty = nothing does. Read of the plugin that the scenario names, before it is fitted to a model.
        receives: the parts of all that comes to a client.
        partial: a coordinate is averaged over those clients whose upload's mask holds it.
        dense: messages have the same sizes for all clients and versions.
        sized_by_training: the size of an upload, or how often a job makes its epochs, is known only after training;
            such jobs are trained when they start. Sizes and times then tell of a client's samples, so that ``sends``
            must declare more than the update.
        passes: how often a job makes the training rule's epochs at most, all its passes together, where that is known
            before training (1 / 5 for a pass of one epoch where the rule has five); it takes as long if it makes fewer.
        columns: what ``LocalResult.row`` adds to rounds.csv.
        private: bool (d,): coordinates that never leave a client; None = there are none.
        stateless: a client makes one pass from the downloaded model, moves all coordinates by plain gradients (a
            proximal term aside) and keeps nothing for later; only such clients may be remote.
        minimises: what a client sends is the exact minimum of the mean loss of its samples and their penalty, so that
            one sample moves it no further than such a minimum. SGD finds none.
        descends: what a client sends is the model to which SGD led it from the downloaded one, or from one that no data
            have touched; nothing else of its data is in it, neither now nor from earlier rounds.
        proximal: the weight of a term that holds that model near its start, a penalty besides.
        uses_outcomes: a client looks at what became of its update, and may leave for good (:meth:`after_round`);
            only in synchronous rounds. The run ends where fewer than two are left.
    """

    momentum: bool = True
    needs_rounds: bool = False
    needs_server: bool = False
    sends: tuple[PayloadPart, ...] = (UPDATE,)
    receives: tuple[PayloadPart, ...] = (MODEL,)
    partial: bool = False
    dense: bool = True
    sized_by_training: bool = False
    stateless: bool = False
    minimises: bool = False
    descends: bool = False
    proximal: float = 0.0
    uses_outcomes: bool = False
    passes: float = 1.0
    columns: tuple[Column, ...] = ()
    private: NDArray[np.bool_] | None = None

    @property
    def follows_data(self) -> bool:
        """Whether its data may decide if a client takes part; surely not where clients never leave by themselves."""
        return self.uses_outcomes

    @property
    def repeats(self) -> bool:
        """Whether a client that holds as many samples as before has the very same model again."""
        return False

    def combine(self, client: "ClientAlgorithm") -> "ClientAlgorithm":
        """What clients run where ``training.personal`` names this algorithm and ``training.client`` the other one."""
        return self

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> "ClientAlgorithm":
        """The algorithm for a model with these parameters and the initial values x(0), (d,); asked once, first of all.

        Raises:
            ScenarioError: it cannot train such a model.
        """
        return self

    def common(self, parameters: Sequence[Parameter], dimension: int) -> Arrays:
        """The server's arrays before the first job."""
        return {}

    def begin(self, context: LocalContext) -> LocalPass:
        """The first pass of a client's local training."""
        return LocalPass(context.download.model)

    def end(
        self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float
    ) -> LocalResult | LocalPass:
        """What follows a pass: the result, or another pass.

        Args:
            context: what the client had.
            local_pass: the pass.
            delta: trained model minus ``local_pass.start``, (d,).
            steps: SGD steps of the pass.
            rate: their learning rate.
        """
        model = context.download.model
        return LocalResult(Upload(delta if local_pass.start is model else delta + (local_pass.start - model)))

    def update_common(self, common: Mapping[str, NDArray[np.generic]], reported: Arrays, clients: int) -> Arrays:
        """The server's arrays for the next version.

        Args:
            common: as they were.
            reported: float64 sums of the arrays that clients have uploaded since then.
            clients: number of all clients, N.
        """
        return dict(common)

    def after_round(self, outcome: RoundOutcome, state: Mapping[str, NDArray[np.generic]]) -> tuple[Arrays, bool]:
        """What a client keeps of a round in whose sum it was, and whether it leaves; asked where ``uses_outcomes``."""
        return dict(state), False

    def bytes_down(self, dense: int, state: Mapping[str, NDArray[np.generic]]) -> int:
        """Size of what is sent to a client that keeps ``state``, where a dense model has ``dense`` bytes."""
        return dense_bytes(self.receives, dense, self.private)

    def bytes_up(self, dense: int, state: Mapping[str, NDArray[np.generic]], result: LocalResult | None) -> int:
        """Size of all that it sends; ``result`` is known where the algorithm is ``sized_by_training``."""
        if result is not None:
            return result.upload.size_bytes(self.private)
        return dense_bytes(self.sends, dense, self.private)

    def personal(self, model: Vector, state: Mapping[str, NDArray[np.generic]]) -> Vector | None:
        """The model a client itself uses, (d,), given the global one; None = the global one."""
        return None

    def pretraining(self) -> "tuple[int, ClientAlgorithm] | None":
        """Rounds that every client trains by itself before the first one, and the algorithm that it then runs.

        The best model so becomes x(0), and what :meth:`pretrained_state` says everybody's first state. None = none.
        Only an algorithm that says ``needs_server`` has such rounds.
        """
        return None

    def pretrained_state(self, state: Mapping[str, NDArray[np.generic]]) -> Arrays:
        """Which of the arrays of the client whose model was best everybody begins with."""
        return {}

    def tune(self, context: LocalContext) -> LocalPass | None:
        """What a client trains from the global model when it is measured; nothing of it is kept. None = nothing."""
        return None


CLIENTS = Registry[ClientAlgorithm](
    "client",
    promises=("descends", "minimises", "repeats"),
    protocol=ClientAlgorithm,
    modules=modules_of("simfl.clients", local_training="fedprox plain scaffold"),
)
PERSONAL = Registry[ClientAlgorithm](
    "personal",
    promises=("descends", "minimises", "repeats"),
    protocol=ClientAlgorithm,
    modules=modules_of("simfl.clients", local_training="none", personal="ditto fedbn fine_tune local private_layers"),
)
"""Client algorithms that are ways to personal models."""
