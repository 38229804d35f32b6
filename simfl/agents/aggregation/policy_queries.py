"""Asking the selection policy who shall work next, when a server needs somebody and not round by round."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import ASK, work
from simfl.clients.client_agents import AttackRun
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.core.payload import SCORE_BYTES
from simfl.core.rng import Address
from simfl.core.types import CLEAR_FIELDS, Arrays, Job, Units, View, prefix_arrays, under
from simfl.core.validation import checked_arrays
from simfl.devices.base import checked_available, checked_durations_s
from simfl.learning.base import Sizes
from simfl.secagg.sessions import PhaseRequest
from simfl.selection.asking import ask, observe
from simfl.training.base import Rule, SynchronousRule

MAX_EMPTY_ATTEMPTS = 100_000
"""Rounds in a row that sum nobody, or selections in a row that find nobody while nobody is at work, after which a run
is given up; until then somebody may be back."""

MAX_FAILED_JOBS = 10_000
"""Jobs in a row that brought nothing into a sum, after which a run is given up: nobody meets the deadline, say."""

Floats = NDArray[np.float64]

STORED = frozenset({"seconds", *CLEAR_FIELDS, "last_round"})
"""Fields that change as the run goes on; the others are the same at any time, or follow from the round."""

FORWARD_PASS = 1 / 3
"""Work of evaluating a model on some samples, relative to an epoch of training on them: no backward pass."""

DRAWS = 8
"""Of network and devices over which is averaged; none of them is a round's."""

FIRST = -2
"""The address of the first of them; the rounds' are 0 or more, and that of what comes before the first is -1."""


def stall_error(why: str, now_s: float) -> SimflError:
    """The error of a run that no server update will ever end."""
    return SimflError(f"training stalls at {now_s:g} simulated seconds: {why}")


class Known(NamedTuple):
    """What a policy may be shown besides the round: declared reports by name, (clients,), and its own state."""

    reports: Mapping[str, Floats]
    state: Arrays


class ClientRecords:
    """What the server has learned of each client, of all this only what the policy declares to read."""

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.reads = parts.policy.reads
        self.reports = {name: np.full(parts.clients, np.nan) for name in sorted(self.reads & STORED)}
        self.estimates = estimate_job_s(parts) if self.reads & {"estimate_s", "upload_estimate_s"} else {}
        named = f"selection '{parts.policy.name}'"
        self.policy_state = checked_arrays(parts.policy.start(parts.clients), named, "start")
        self.attack_run = AttackRun(parts, parts.streams)
        if "estimate_s" in self.estimates:
            everybody = range(parts.clients)
            self.estimates["estimate_s"] = self.attack_run.reports(
                "estimate_s", everybody, self.estimates["estimate_s"]
            )

    def known(self, version: int) -> Known:
        """All of it, for the aggregation that makes the model ``version + 1``."""
        shown = self.reports | self.estimates
        if "samples" in self.reads:
            everybody = np.arange(self.parts.clients)
            counts = self.parts.learner.counts(everybody, version).astype(np.float64)
            shown["samples"] = self.attack_run.reports("samples", everybody.tolist(), counts)
        return Known(shown, self.policy_state)

    def add_durations(self, clients: NDArray[np.integer] | int, seconds: Floats | float) -> None:
        """Notes the durations of jobs, (n,) or one, whose updates have arrived."""
        if "seconds" in self.reports:
            self.reports["seconds"][clients] = seconds

    def add_aggregate(
        self, number: int, clients: NDArray[np.int32], jobs: Sequence[Job], participation: NDArray[np.int64]
    ) -> None:
        """Notes what came with an aggregate, and tells the policy.

        Args:
            number: of the aggregation.
            clients: whose updates it sums, int32 (n,), ascending; n may be 0.
            jobs: among which are theirs; the models with which they began are still kept.
            participation: of each client with this aggregate, int64 (clients,).
        """
        if "last_round" in self.reports:
            self.reports["last_round"][clients] = number
        if self.reports.keys() & set(CLEAR_FIELDS):
            self._measure(set(clients.tolist()), jobs)
        reports, state = self.known(number)
        anybody = np.ones(self.parts.clients, dtype=bool)
        self.policy_state = observe(self.parts.policy, View(number, anybody, participation, reports, state), clients)

    def _measure(self, clients: set[int], jobs: Sequence[Job]) -> None:
        """What clients say of the models with which their jobs began."""
        by_model: dict[int, list[int]] = {}
        for job in jobs:
            if job.client in clients:
                by_model.setdefault(job.start, []).append(job.client)
        for version, members in by_model.items():
            values = self.parts.learner.evaluator.training_losses(version, np.array(members))
            for name, column in zip(CLEAR_FIELDS, values.T, strict=True):
                if name in self.reports:
                    self.reports[name][members] = self.attack_run.reports(name, members, column)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """For checkpoints."""
        return {**prefix_arrays("client", self.reports), **prefix_arrays("policy", self.policy_state)}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.reports = {name: np.array(values) for name, values in under("client", state).items()}
        self.policy_state = under("policy", state)


def estimate_job_s(parts: Components[Rule]) -> dict[str, NDArray[np.float64]]:
    """``estimate_s``: seconds of download, work and upload, and ``upload_estimate_s``: of the upload, (clients,).

    Means over a few draws; exact where network and computation draw nothing anew in a round. Sizes are those of a dense
    model where they vary, and the work is then one pass; samples are those of version 0.
    """
    clients, learner = np.arange(parts.clients, dtype=np.int32), parts.learner
    dense = Sizes(learner.model_bytes, learner.model_bytes)
    total, upload = np.zeros(parts.clients), np.zeros(parts.clients)
    for draw in range(DRAWS):
        where = Address(FIRST - draw, clients, parts.clients)
        request = work(parts, clients, where, dense if learner.sizes_vary else learner.sizes([]))
        up_s = parts.links.up_s(clients, request.up_bytes, where, "/estimate")
        upload += up_s
        total += parts.links.down_s(clients, request.down_bytes, where, "/estimate") + request.compute_s + up_s
    return {"estimate_s": total / DRAWS, "upload_estimate_s": upload / DRAWS}


def question(parts: Components[SynchronousRule], t: int, clients: NDArray[np.int32]) -> PhaseRequest:
    """The request to evaluate the model, as a policy asks before it selects."""
    policy, samples = parts.policy, parts.learner.counts(clients, t)
    if policy.asks == "batch_loss":
        samples = np.minimum(samples, policy.asked_batch)
    training_s = parts.computing.duration_s(clients, samples, 1.0, Address(t, clients, parts.clients))
    compute_s = checked_durations_s(training_s, len(clients), parts.computing) * FORWARD_PASS
    return PhaseRequest(
        ASK, clients, parts.learner.model_bytes, SCORE_BYTES, compute_s, deadline_s=parts.rule.deadline_s
    )


class PolicyQueries:
    """Draws who is available, asks the policy, and numbers these selections: 0, 1, 2, ...

    Args:
        parts: the built scenario.
        log: called with a record for every selection, or None.

    Attributes:
        selections: so far.
    """

    def __init__(self, parts: Components[Rule], log: Callable[[JsonObject], None] | None) -> None:
        self.parts, self.log = parts, log
        self.selections = 0
        self.empty_selections = 0

    def ask(
        self,
        version: int,
        busy: NDArray[np.bool_],
        participation: NDArray[np.int64],
        most: int,
        now_s: float,
        nobody_active: bool,
        known: Known,
    ) -> tuple[int, Units]:
        """The number of this selection, and units of idle clients, shape (units, unit_size).

        As many as make ``most`` clients or, while the policy finds nobody, half as many; every attempt uses the
        stream ("selection", number). A policy that sizes its selections itself may give any number.

        Args:
            version: the aggregation that is prepared.
            busy: who may not be selected, bool (clients,).
            participation: aggregations so far, int64 (clients,).
            most: clients wanted, at least one unit.
            now_s: simulated time, seconds.
            nobody_active: whether nobody is at work, so that only time can bring somebody.
            known: what the server has learned of its clients.

        Raises:
            SimflError: far too many selections in a row found nobody.
        """
        policy = self.parts.policy
        number, self.selections = self.selections, self.selections + 1
        available = self.parts.available
        idle = checked_available(available.draw(number, now_s), len(busy), available) & ~busy
        view = View(version, idle, participation, known.reports, known.state)
        wanted = max(1, most // policy.unit_size)
        while True:
            units = ask(policy, view, wanted * policy.unit_size, self.parts.streams("selection", number))
            if units.size or wanted == 1 or not policy.fixed_size:
                break
            wanted //= 2
        if self.log is not None:
            self.log({"event": "selection", "time_s": now_s, "number": number, "round": version,
                      "idle": int(idle.sum()), "selected": units.size})  # fmt: skip
        self.empty_selections = self.empty_selections + 1 if nobody_active and not units.size else 0
        if self.empty_selections >= MAX_EMPTY_ATTEMPTS:
            raise stall_error(f"{MAX_EMPTY_ATTEMPTS} selections in a row have found nobody", now_s)
        return number, units

    def state(self) -> Arrays:
        """What the next selection depends on, as named arrays; someone must have been found since the last failure."""
        return {"selections": np.int64(self.selections)}

    def restore(self, state: Arrays) -> None:
        """Goes back to a :meth:`state`."""
        self.selections = int(state["selections"])
