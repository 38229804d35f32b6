"""Scenarios, and reading those of finished runs."""

from simfl.report.live.watched_folder import scenario_of
from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.plugin_files import Trust
from simfl.scenario.yaml.reader import read

__all__ = [
    "InvalidScenario", "Scenario", "Trust", "read", "scenario_of",
]  # fmt: skip
