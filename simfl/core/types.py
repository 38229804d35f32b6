"""The values that pass between the rooms of simfl. No behaviour lives here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, WithJsonSchema

from simfl.core.errors import PluginError, SimflError

SERVER = -1
"""The server's address; clients are 0 .. clients-1."""

Arrays = dict[str, Any]
"""Named numpy arrays and scalars: a state that a checkpoint can hold."""

Vectors = NDArray[np.float32]
"""Models and updates, one, (d,), or several, (n, d)."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

Name = Annotated[
    str,
    Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$"),
    BeforeValidator(lambda name: str(name) if type(name) is int else name),
    WithJsonSchema({"type": ["string", "integer"]}),
]
"""The type of a plugin field that names a client, a node or a city; a whole number stands for its digits."""

Units = NDArray[np.int32]
"""Selected clients, shape (units, unit_size): a row is aggregated together or not at all; no row = nobody."""


RECEIPT_PHASES = ("confirm", "agree", "show")
"""Phases in which clients confirm a round to one another, beside those of a protocol."""


class Receipts(NamedTuple):
    """What it costs clients to confirm a round to one another, see :mod:`simfl.secagg.receipts`.

    Attributes:
        told_bytes: what the server tells each of the round besides the model, before it signs.
        signature_bytes: of a signature: of a receipt, or of the keys that a client sends for its masks.
        sign_s, verify_s: seconds for a signature, and to check one.
    """

    told_bytes: int
    signature_bytes: int
    sign_s: float
    verify_s: float

    @property
    def receipt_bytes(self) -> int:
        """The number of the client and its signature."""
        return 4 + self.signature_bytes


CLEAR_FIELDS = ("loss", "loss_rms", "accuracy")
"""Fields of :class:`View` that clients send as numbers of their own, beside every update."""

VIEW_FIELDS = ("seconds", "samples", *CLEAR_FIELDS, "last_round", "estimate_s", "upload_estimate_s")
"""What a selection policy may declare to read; :class:`View` says what each is."""


@dataclass(frozen=True)
class View:
    """All that a selection policy may look at.

    Fields such as :attr:`loss` are there only if the policy declares in ``reads`` that it reads them (``asked_loss``:
    in ``asks``); each is float64 (clients,), NaN where it is not known yet.

    Attributes:
        round: number of the aggregation being prepared, from 0.
        available: bool, shape (clients,).
        participation: int64, shape (clients,): aggregations each client has taken part in so far.
        reports: the declared fields by name.
        state: what the policy's own :meth:`simfl.selection.base.Policy.observe` has kept.
        history: the clients in each sum so far, int32 (n,), ascending, without the rounds that summed nobody; None
            where nobody has asked for it, see :attr:`simfl.selection.base.Policy.reads_history`.
        before: sums that were opened before round 0 and that ``history`` does not have, bool (sums, clients or more);
            columns beyond the clients are of those who take part no more. None = there are none.
    """

    round: int
    available: NDArray[np.bool_]
    participation: NDArray[np.int64]
    reports: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[NDArray[np.int32], ...] | None = None
    before: NDArray[np.bool_] | None = None

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Simulated seconds of each client's last completed job: download, work and upload."""
        return self._report("seconds")

    @property
    def samples(self) -> NDArray[np.float64]:
        """Training samples of each client, as it has declared them."""
        return self._report("samples")

    @property
    def loss(self) -> NDArray[np.float64]:
        """Mean loss of the model that a client received with its last aggregated job, on its training samples."""
        return self._report("loss")

    @property
    def loss_rms(self) -> NDArray[np.float64]:
        """The same, root of the mean squared loss of its samples."""
        return self._report("loss_rms")

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """The same, share of its training samples that the model classifies rightly."""
        return self._report("accuracy")

    @property
    def last_round(self) -> NDArray[np.float64]:
        """Number of the last aggregation that each client took part in."""
        return self._report("last_round")

    @property
    def estimate_s(self) -> NDArray[np.float64]:
        """Expected simulated seconds of a job, which an oracle takes from the network and device models."""
        return self._report("estimate_s")

    @property
    def upload_estimate_s(self) -> NDArray[np.float64]:
        """The upload's part of :attr:`estimate_s`."""
        return self._report("upload_estimate_s")

    @property
    def asked_loss(self) -> NDArray[np.float64]:
        """Mean loss of the current model on the samples of those who were asked for it and have answered."""
        return self._report("asked_loss")

    def _report(self, name: str) -> NDArray[np.float64]:
        try:
            return self.reports[name]
        except KeyError:
            declare = "`asks`" if name == "asked_loss" else "`reads`"
            raise PluginError("selection", f"looks at view.{name}, which its {declare} does not declare") from None


class JobId(int):
    """The number of a job, selection * 2**32 + client: unique in a run and the key of the job's random streams.

    A synchronous round is its own selection, so that all policies meet the same draws.
    """

    __slots__ = ()

    @classmethod
    def of(cls, selection: int, client: int) -> "JobId":
        """The id of a client's job of a selection."""
        return cls(selection << 32 | client)

    @property
    def selection(self) -> int:
        return int(self) >> 32

    @property
    def client(self) -> int:
        return int(self) & 0xFFFFFFFF


def job_ids(selection: int | NDArray[np.int64], clients: NDArray[np.integer]) -> NDArray[np.int64]:
    """The ids of many clients' jobs, of one selection or of one each, as :meth:`JobId.of`."""
    return np.asarray(selection, dtype=np.int64) << 32 | clients.astype(np.int64)


class Job(NamedTuple):
    """One client's piece of work; it carries no tensor.

    Attributes:
        id: see :class:`JobId`.
        client: who works.
        version: the global model's version that was downloaded, on which rates and growing partitions depend.
        started_at: simulated time at which the server started the job, seconds.
        own_model: the number under which the learner holds the model that this client starts from, below 0; None = it
            starts from the global model of the version.
    """

    id: int
    client: int
    version: int
    started_at: float
    own_model: int | None = None

    @classmethod
    def of(cls, selection: int, client: int, version: int, started_at: float, own_model: int | None = None) -> "Job":
        """A client's job of a selection."""
        return cls(JobId.of(selection, client), client, version, started_at, own_model)

    @classmethod
    def of_all(cls, selection: int, clients: NDArray[np.integer], version: int, started_at: float) -> list["Job"]:
        """The jobs of a selection's clients, (n,), in their order, each as by :meth:`of`."""
        ids = job_ids(selection, clients).tolist()
        return [cls(number, client, version, started_at) for number, client in zip(ids, clients.tolist(), strict=True)]

    @property
    def start(self) -> int:
        """The number under which the learner holds the model that the client starts from."""
        return self.version if self.own_model is None else self.own_model

    @property
    def selection(self) -> int:
        """The number of the selection that it comes from."""
        return JobId(self.id).selection


@dataclass(frozen=True)
class Updates:
    """What a batch of n jobs produced, in the order of the jobs.

    Attributes:
        deltas: float32, shape (n, d): the clients' updates, trained model minus downloaded model.
        examples: int64, shape (n,): samples each client holds.
        loss: float64, shape (n,): mean training loss over the client's last local epoch.
        mask: bool, shape (n, d): the coordinates over whose holders each is averaged; None = all.
        arrays: float64 sums over the clients of the further arrays that they have uploaded, by name.
        row: sums over the clients of what their algorithm adds to rounds.csv.
    """

    deltas: NDArray[np.float32]
    examples: NDArray[np.int64]
    loss: NDArray[np.float64]
    mask: NDArray[np.bool_] | None = None
    row: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def mean_loss(self) -> float | None:
        """Training loss averaged over examples, not finite where training diverged; None where nothing was learned."""
        seen = self.examples > 0
        if not seen.any() or not self.deltas.shape[1]:
            return None
        return float(np.average(self.loss[seen], weights=self.examples[seen]))


class Labels(NamedTuple):
    """Which classes the clients' training samples belong to.

    Attributes:
        names: of the classes.
        counts: int64, shape (clients, classes).
    """

    names: tuple[str, ...]
    counts: NDArray[np.int64]


class Predictions(NamedTuple):
    """What a model makes of the test samples that are used.

    Attributes:
        labels: int64 (n,): the true class of each.
        predicted: int64 (n,): the class the model says.
        loss: float64 (n,): its cross-entropy; where it is not finite, the class means nothing.
        classes: number of classes.
    """

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    loss: NDArray[np.float64]
    classes: int


class Aggregate(NamedTuple):
    """One aggregate: all that a sum tells about the updates in it.

    Attributes:
        vector: float32, shape (d,): the weighted sum of the updates, divided by the rule's normaliser.
        clients: int32, shape (n,), ascending: whose updates it holds.
        weights: shape (n,): the row of the participation matrix at those clients; integer 1 where every update
            counts once, 0 where one does not count after all.
        row: values of the protocol's columns in rounds.csv.
        shares: float64, shape (n,): what each update counts in the vector, which is the sum of share times update but
            for rounding; None = its weight over the rule's normaliser.
        opened: the last of each client's further secrets, as many as the protocol opens; empty where it opens none.
        step: by how much rounding has moved a coordinate of an update at most, before the update got its weight; 0 =
            nothing was rounded.
        clipped: coordinates of the updates that the protocol has clipped before it added them up, or would have.
    """

    vector: NDArray[np.float32]
    clients: NDArray[np.int32]
    weights: NDArray[Any]
    row: Mapping[str, Any] = MappingProxyType({})
    shares: NDArray[np.float64] | None = None
    opened: tuple[tuple[bytes, ...], ...] = ()
    step: float = 0.0
    clipped: int = 0


__all__ = ["Arrays", "prefix_arrays", "under"]


def prefix_arrays(part: str, arrays: Arrays) -> Arrays:
    """The arrays under ``part/``."""
    return {f"{part}/{name}": value for name, value in arrays.items()}


def under(part: str, arrays: Arrays) -> Arrays:
    """What :func:`prefix_arrays` was given."""
    return {name[len(part) + 1 :]: value for name, value in arrays.items() if name.startswith(part + "/")}


class JobRequest(NamedTuple):
    """A job for a remote client.

    Attributes:
        job: its job.
        model: the model that it downloads, float32 (d,).
        samples: that it is trained on, each pass counted; 0 = not known.
    """

    job: Job
    model: NDArray[np.float32]
    samples: int = 0


class JobResult(NamedTuple):
    """A remote client's update.

    Attributes:
        delta: trained model minus downloaded model, float32 (d,), finite.
        loss: mean training loss of its last pass.
    """

    delta: NDArray[np.float32]
    loss: float


class RemoteClients(Protocol):
    """Clients that are processes of their own, or a record of what they once sent."""

    def request(self, requests: Sequence[JobRequest]) -> None:
        """Hands out some jobs, and does not wait."""

    def collect(self, requests: Sequence[JobRequest]) -> list[JobResult]:
        """The updates of jobs that were requested, in their order; waits for them.

        Raises:
            RemoteClientError: a job has failed.
            IntegrityError: a record does not belong to these jobs.
        """

    def stored_updates(self) -> int:
        """How many updates are on disk: a checkpoint rests on them."""

    def finalise(self) -> None:
        """Writes the table of all updates, after the last job."""


class RemoteClientError(SimflError):
    """A remote client did not deliver what the run needs (exit 3); the message names the job."""

    exit_code = 3
