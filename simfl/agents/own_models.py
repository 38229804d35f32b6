"""Servers whose clients train their own models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import R_co, RoundResult
from simfl.agents.aggregation.pipeline import AggregationResult
from simfl.agents.servers import RoundServer
from simfl.core.errors import PluginError
from simfl.core.types import Arrays, Job, Updates
from simfl.metrics.participation import Tally
from simfl.secagg.sessions import SessionResult


@dataclass(eq=False)
class OwnModelsServer(RoundServer[R_co]):
    """Clients train their own models; :meth:`aggregate_neighbours` ends a round.

    The global model, which is measured and stored, is the mean of the clients'. A server of this kind says in
    :meth:`simfl.agents.servers.RoundServer.round` who sends to whom, and how long that takes. Its rule says
    :attr:`simfl.training.base.Rule.own_models`: what works on the one aggregate of a round (protocols, noise stages,
    attacks, a server optimiser with a state) is refused beside it.

    Attributes:
        models: the clients' current models, float32 (clients, d).
    """

    def start(self) -> None:
        """Everybody begins with the same model.

        Raises:
            PluginError: the rule does not say ``own_models``, by which scenarios are checked, or ``many_aggregators``.
        """
        rule = self.parts.rule
        if not (rule.own_models and rule.many_aggregators):
            raise PluginError(
                f"training '{rule.name}'",
                f"its server '{self.name}' has a model in every client; the rule must say "
                "own_models = many_aggregators = True",
            )
        self.models = np.tile(self.parts.learner.initial(), (self.parts.clients, 1))

    @property
    def model(self) -> NDArray[np.float32]:
        """The mean of the clients' models, float32 (d,)."""
        mean: NDArray[np.float32] = self.models.mean(axis=0, dtype=np.float32)
        return mean

    def jobs(self, t: int) -> list[Job]:
        """A job for every client in round ``t``, on its own model, which the learner holds as number -1 - client."""
        for client, model in enumerate(self.models):
            self.parts.learner.put(-1 - client, model)
        return [Job.of(t, client, t, self.world.now, own_model=-1 - client) for client in range(self.parts.clients)]

    def aggregate_neighbours(self, jobs: list[Job], neighbours: Mapping[int, Sequence[int]]) -> RoundResult:
        """Trains everybody's job; each client then takes a step to the average of its own and its neighbours' models.

        Args:
            jobs: of all clients, as :meth:`jobs` gives them.
            neighbours: ascending, the clients whose models each client averages, itself among them. A client that is
                left out, or has an empty list, keeps the model with which it began the round.

        Raises:
            PluginError: they are not ascending.
        """
        pipeline, t = self.global_model.pipeline, self.global_model.version
        trained = pipeline.train(jobs)
        results: dict[int, AggregationResult] = {}
        for client, group in neighbours.items():
            if list(group) != sorted(set(group)):
                raise PluginError(
                    f"server '{self.name}'", f"the neighbours of client {client} must be ascending, not {list(group)}"
                )
            models = self.models[group] + trained.deltas[group]
            moves = Updates(models - self.models[client], trained.examples[group], trained.loss[group])
            fresh, everybody = np.zeros(len(group), dtype=np.int64), SessionResult(np.ones(1, dtype=bool))
            result = pipeline.sum(t, [jobs[i] for i in group], moves, fresh, self.models[client], everybody)
            if result is not None:  # somebody among them holds samples
                results[client] = result
        for client, result in results.items():
            self.models[client], _ = self.parts.rule.step(self.models[client], result.server_update, {})
        for job in jobs:
            self.parts.learner.drop(job.start)
        return self._end_round(t, results, trained.mean_loss)

    def _end_round(self, t: int, results: Mapping[int, AggregationResult], loss: float | None) -> RoundResult:
        totals = [result.total for result in results.values()]
        clients = np.concatenate([np.empty(0, np.int32), *(total.clients for total in totals)])
        weights = np.concatenate([np.empty(0), *(total.weights for total in totals)])
        who = np.repeat(np.array(list(results), dtype=np.int32), [len(total.clients) for total in totals])
        self.global_model.replace(self.model)
        row, last = self.global_model.progress.end_round(
            np.unique(clients), self.world.now, self.accounts.costs.row(), train_loss=loss, model_changed=True
        )
        self.parts.learner.drop(t)
        self.note("round_end", round=t, cardinality=self.tally.latest)
        self.at_end = last
        return self.report(RoundResult(t, clients, weights, row, last, aggregators=who, phases=self.accounts.phases))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: the clients' models."""
        return super().state() | {"models": self.models}

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.models = np.array(state["models"])
