"""From YAML to scenario: read strictly, overridden, validated, completed, frozen, with a digest."""

from simfl.scenario.model import Scenario, Source
from simfl.scenario.places import InvalidScenario, Place, Problem

__all__ = ["InvalidScenario", "Place", "Problem", "Scenario", "Source"]
