"""What plugins import: this package and its modules, one a family; nothing else of simfl is promised to stay.

Here stand the values that all families share; the registry, the protocols and what else a family offers stand in
``simfl.plugins.<family>``. None of these modules imports torch.
"""

from simfl.core.columns import Column
from simfl.core.errors import MissingError, ScenarioError, SimflError
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataFolder, DataPath
from simfl.core.types import SERVER, Aggregate, Arrays, Job, Labels, Predictions, Updates, View

__all__ = [
    "SERVER",
    "Address",
    "Arrays",
    "Column",
    "DataFolder",
    "DataPath",
    "Job",
    "Labels",
    "MissingError",
    "Predictions",
    "ScenarioError",
    "ScenarioView",
    "SimflError",
    "Streams",
    "Aggregate",
    "Updates",
    "View",
]
