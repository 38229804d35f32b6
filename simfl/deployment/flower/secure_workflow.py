"""Flower's SecAgg+ with nodes that a policy of simfl selects: no sum is opened that the log does not state."""

import logging
from typing import Any

from flwr.common.constant import MessageTypeLegacy
from flwr.server.client_manager import SimpleClientManager
from flwr.server.compat import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid

from simfl.deployment.flower.participation_file import Node
from simfl.deployment.flower.real_server import Deployment
from simfl.plugins import SimflError

_log = logging.getLogger("flwr")


class PolicySecAgg(SecAggPlusWorkflow):  # type: ignore[misc]  # Flower is no requirement
    """The ``fit_workflow`` of a ``DefaultWorkflow``: SecAgg+ among the nodes that a policy selects.

    SecAgg+ opens the sum of all masked updates that have arrived, whoever is missing. So who is in it is known before
    the masks are removed: where it is not whole units that the policy admits, above the floor, the masks stay, and
    nothing of the round is opened. Else its clients are in the log before the first share is asked for; a sum that then
    cannot be opened since too few shares come stands in the log all the same.

    Args:
        policy, nodes: as for ``simfl.deployment.flower.real_server.Deployment``.
        num_shares, reconstruction_threshold: of SecAgg+.
        protocol: further arguments of Flower's ``SecAggPlusWorkflow``, such as timeout (real seconds).
        keys: identity, seed, log, floor, past, past_options, skipped_round_s, as for the deployment.

    Raises:
        SimflError: one of them cannot be, or the policy reads what replies do not report under masks.
    """

    def __init__(
        self, policy: str, nodes: int | list[Node], num_shares: float, reconstruction_threshold: float, *,
        protocol: dict[str, Any] | None = None, **keys: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_shares, reconstruction_threshold, **(protocol or {}))
        self.deployment = Deployment(policy, nodes, query=MessageTypeLegacy.GET_PROPERTIES, **keys)
        self.selection = self.deployment.selection
        self.before = len(self.selection.history)
        if unknown := self.selection.needs - {"samples"}:
            raise SimflError(f"policy {policy}: reads {', '.join(sorted(unknown))}, which nobody reports under masks")

    def __call__(self, grid: Grid, context: LegacyContext) -> None:
        """One round.

        Raises:
            SimflError: it was the last one, and none had a sum.
        """
        number, models = self.selection.round, context.state.array_records
        current = context.state.config_records[MAIN_CONFIGS_RECORD][Key.CURRENT_ROUND]
        if current == 1:
            models[MAIN_PARAMS_RECORD] = self.deployment.resume(models[MAIN_PARAMS_RECORD])
        super().__call__(grid, context)
        if self.selection.round == number:
            self.selection.conclude({})
        if current == context.config.num_rounds:
            self.deployment.end(self.before, current)

    def setup_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """The selected nodes, who exchange keys."""
        if not (nodes := self.deployment.choose(grid)):
            return False
        everybody, context.client_manager = context.client_manager, _Selected()
        for proxy in everybody.all().values():
            if proxy.node_id in nodes:
                context.client_manager.register(proxy)
        try:
            whole: bool = super().setup_stage(grid, context, state)
        finally:
            context.client_manager = everybody
        if sorted(state.nid_to_proxies) != sorted(nodes):
            raise SimflError(f"{type(context.strategy).__name__} asks {len(state.nid_to_proxies)} of the {len(nodes)} "
                             "nodes that the policy has selected; set its fraction_fit=1.0")  # fmt: skip
        return whole

    def unmask_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """The sum of all masked updates that have arrived, unless the policy or the floor forbids it."""
        device_at, number = self.deployment.device_at, self.selection.round
        samples = {proxy.node_id: float(result.num_examples) for proxy, result in state.legacy_results}
        replies = {device_at[node]: {"samples": samples[node]} for node in state.active_node_ids}
        if any(samples[node] <= 0 for node in state.active_node_ids):
            replies = {}  # an update of weight 0 hides nobody, and cannot be taken out of the sum
        if not self.selection.conclude(replies, only_all=True):
            _log.warning("round %s of the participation log is not opened: the %s masked updates that have arrived are "
                         "no sum that policy and floor allow", number, len(samples))  # fmt: skip
            return False
        opened: bool = super().unmask_stage(grid, context, state)
        if opened:
            self.deployment.keep(context.state.array_records[MAIN_PARAMS_RECORD], number)
        else:
            _log.warning("round %s stands in the participation log, and its masks could not be removed", number)
        return opened


class _Selected(SimpleClientManager):  # type: ignore[misc]
    """The clients of the selected nodes; nobody waits for more."""

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Whether there are so many.

        Raises:
            SimflError: there never will be.
        """
        if num_clients > len(self):
            raise SimflError(f"the strategy waits for {num_clients} nodes, and the policy has selected {len(self)}; "
                             "lower its min_fit_clients and min_available_clients")  # fmt: skip
        return True
