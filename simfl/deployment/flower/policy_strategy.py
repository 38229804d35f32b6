"""A strategy of Flower whose nodes a policy of simfl selects."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from simfl.deployment.flower.participation_file import Node
from simfl.deployment.flower.real_server import Deployment
from simfl.plugins import SimflError

LOOKS = 5
"""How often a strategy may look for nodes in a round; one that looks more often waits for more of them."""
_log = logging.getLogger("flwr")


class PolicyStrategy(Strategy):  # type: ignore[misc]  # Flower is no requirement
    """Any strategy of Flower, with training nodes that a selection policy of simfl chooses.

    Units (clients that are aggregated together or not at all) stay whole: where a node of a unit fails or does not
    reply in time, the replies of its other nodes are dropped before the strategy aggregates. A round without an
    available row is skipped and leaves the model as it is. Evaluation is the strategy's. A server that starts again
    with the same log goes on: sums of before count, and so does the last model, which is kept beside the log
    (``participation.npz``); what the strategy keeps itself (momentum) begins anew.

    Args:
        strategy: makes the messages and aggregates the replies; it must take all nodes that it is shown
            (``fraction_train=1``), however few (``min_train_nodes``, ``min_available_nodes``).
        policy, nodes: as for ``simfl.deployment.flower.real_server.Deployment``.
        metrics: for fields that the policy reads, where they stand in the MetricRecord of a reply if under another name
            than ``num-examples`` (samples), else their own; ``seconds`` may be missing: then it is the time between
            the two messages.
        keys: identity, seed, log, floor, past, past_options, skipped_round_s, as for the same.

    Attributes:
        selection: who has taken part, and ``stopped``: why training has ended, if the floor was reached.

    Raises:
        SimflError: one of them cannot be.
    """

    def __init__(
        self, strategy: Strategy, policy: str, nodes: int | list[Node], *, metrics: Mapping[str, str] | None = None,
        **keys: Any,
    ) -> None:  # fmt: skip
        if not isinstance(strategy, Strategy):
            name, of = type(strategy).__name__, type(strategy).__module__
            raise SimflError(f"strategy: {name} of {of} is none of flwr.serverapp.strategy, whose interface this is")
        self.strategy, self.deployment = strategy, Deployment(policy, nodes, **keys)
        self.selection = self.deployment.selection
        self.metrics = {"samples": "num-examples", **(metrics or {})}
        self.sent_s: dict[int, float] = {}

    def start(self, grid: Grid, initial_arrays: ArrayRecord, num_rounds: int = 3, *args: Any, **keys: Any) -> Result:
        """Runs so many rounds, from the model of the last sum if there is one.

        Raises:
            SimflError: no round had a sum.
        """
        before = len(self.selection.history)
        result = super().start(grid, self.deployment.resume(initial_arrays), num_rounds, *args, **keys)
        self.deployment.end(before, num_rounds)
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages to the nodes that the policy selects."""
        self.sent_s = {}
        if not (nodes := self.deployment.choose(grid)):
            return []
        messages = list(self.strategy.configure_train(server_round, arrays, config, SelectedNodes(grid, nodes)))
        self.sent_s = {message.metadata.dst_node_id: message.metadata.created_at for message in messages}
        if sorted(self.sent_s) != sorted(nodes):
            raise SimflError(f"{type(self.strategy).__name__} sends to {len(messages)} of the {len(nodes)} nodes that "
                             "the policy has selected; set its fraction_train=1.0")  # fmt: skip
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's aggregate of the units that are whole; no model where there is none."""
        by_node = {reply.metadata.src_node_id: reply for reply in replies if not reply.has_error()}
        values = {node: self._values(reply) for node, reply in by_node.items()}
        number, device_at = self.selection.round, self.deployment.device_at
        # an update of weight 0 hides nobody
        devices = self.selection.conclude({device_at[n]: of for n, of in values.items() if of.get("samples", 1.0) > 0})
        _log.info("aggregate_train: %s of %s nodes are aggregated", len(devices), len(self.sent_s))
        if not devices:
            return None, None
        node_of = {device: node for node, device in device_at.items()}
        arrays, metrics = self.strategy.aggregate_train(server_round, [by_node[node_of[each]] for each in devices])
        if arrays is not None:
            self.deployment.keep(arrays, number)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's; nothing once training has ended."""
        return [] if self.selection.stopped else self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Logs the policy, and the strategy's own summary."""
        _log.info("\t├──> Nodes: %s of %s, %s", self.selection.policy.k, self.selection.clients,
                  self.selection.policy.name)  # fmt: skip
        self.strategy.summary()

    def _values(self, reply: Message) -> dict[str, float]:
        """What a reply reports of the fields that are needed, and its samples where it says how many."""
        node, shown = reply.metadata.src_node_id, {}
        for record in reply.content.metric_records.values():
            shown.update(record)
        values = {"seconds": max(0.0, reply.metadata.created_at - self.sent_s[node])}
        for name in {*self.selection.needs, "samples"}:
            if (key := self.metrics.get(name, name)) in shown:
                values[name] = float(shown[key])
            elif name in self.selection.needs - values.keys():
                raise SimflError(f"node {node} reports no '{key}', and the policy reads {name}: have clients put it in "
                                 f"their MetricRecord, or say its name: metrics={{'{name}': NAME}}")  # fmt: skip
        return values


class SelectedNodes:
    """A grid that shows the selected nodes only."""

    def __init__(self, grid: Grid, nodes: list[int]) -> None:
        self.grid, self.nodes, self.looks = grid, nodes, 0

    def get_node_ids(self) -> list[int]:
        """The ids of the selected nodes.

        Raises:
            SimflError: the strategy waits for more.
        """
        self.looks += 1
        if self.looks > LOOKS:
            raise SimflError(f"the strategy waits for more nodes than the {len(self.nodes)} that the policy has "
                             "selected; lower its min_train_nodes and min_available_nodes")  # fmt: skip
        return list(self.nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)
