"""What the server learns of each client in the course of a run: what selection policies may declare to read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.estimates import estimate_job_s
from simfl.agents.aggregation.state import Arrays, prefix_arrays, under
from simfl.core.types import CLEAR_FIELDS, Job, View
from simfl.selection.asking import observe
from simfl.training.base import Rule

Floats = NDArray[np.float64]

STORED = frozenset({"seconds", *CLEAR_FIELDS, "last_round"})
"""Fields that change as the run goes on; the others are the same at any time, or follow from the round."""


class Known(NamedTuple):
    """What a policy may be shown besides the round: declared reports by name, (clients,), and its own state."""

    reports: Mapping[str, Floats]
    state: Arrays


class ClientRecords:
    """What the server has learned of each client, of all this only what the policy declares to read.

    Args:
        parts: the built scenario.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.reads = parts.policy.reads
        self.reports = {name: np.full(parts.clients, np.nan) for name in sorted(self.reads & STORED)}
        self.estimates = estimate_job_s(parts) if self.reads & {"estimate_s", "upload_estimate_s"} else {}
        self.policy_state = parts.policy.start(parts.clients)

    def known(self, version: int) -> Known:
        """All of it, for the aggregation that makes the model ``version + 1``."""
        shown = self.reports | self.estimates
        if "samples" in self.reads:
            shown["samples"] = self.parts.learner.counts(np.arange(self.parts.clients), version).astype(np.float64)
        return Known(shown, self.policy_state)

    def add_durations(self, clients: NDArray[np.integer], seconds: Floats) -> None:
        """Notes the durations of jobs, (n,), whose updates have arrived."""
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
                    self.reports[name][members] = column

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """For checkpoints."""
        return {**prefix_arrays("client", self.reports), **prefix_arrays("policy", self.policy_state)}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.reports = {name: np.array(values) for name, values in under("client", state).items()}
        self.policy_state = under("policy", state)
