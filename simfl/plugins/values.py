"""The values that all families share, as ``simfl.plugins`` hands them out."""

from simfl.core.columns import Column
from simfl.core.errors import (
    ExhaustedError,
    IntegrityError,
    MissingError,
    ScenarioError,
    SimflError,
    amount,
    is_exhausted,
    printable,
    suggestion,
)
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import SINCE_LATER, required_fields
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataFolder, DataPath
from simfl.core.types import (
    CLEAR_FIELDS,
    SERVER,
    Aggregate,
    Arrays,
    Bools,
    Floats,
    Integers,
    Job,
    JobRequest,
    JobResult,
    Labels,
    Predictions,
    RemoteClientError,
    Updates,
    Vectors,
    View,
)
from simfl.core.version import RESULTS, VERSION

__all__ = [
    "Address", "Aggregate", "Arrays", "Bools", "CLEAR_FIELDS", "Column", "DataFolder", "DataPath", "ExhaustedError",
    "Floats", "Integers", "IntegrityError", "Job", "JobRequest", "JobResult", "JsonObject", "Labels",
    "MissingError", "Predictions", "RESULTS", "RemoteClientError", "SERVER", "SINCE_LATER", "ScenarioError",
    "ScenarioView", "SimflError", "Streams", "Updates", "VERSION", "Vectors", "View", "amount", "is_exhausted",
    "printable", "required_fields", "suggestion",
]  # fmt: skip
