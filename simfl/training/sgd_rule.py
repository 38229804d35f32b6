"""What the training rules have in common whose clients train by SGD and whose updates are averaged."""

from dataclasses import dataclass

from simfl.clients.local_training import LocalTraining
from simfl.core.scenario_view import ScenarioView
from simfl.training.server_step import ServerStep
from simfl.training.stop import RunLength


@dataclass(frozen=True, kw_only=True)
class SgdRule(RunLength, LocalTraining, ServerStep):
    """When the run ends, the clients' local training, and the server's step; a rule adds who is waited for."""

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        """What cannot work in this scenario; a rule's own problems come besides."""
        problems = [*LocalTraining.check(self, scenario), *ServerStep.check(self, scenario)]
        return [*problems, *self.endless(scenario.learning)]
