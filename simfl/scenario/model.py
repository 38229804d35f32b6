"""The scenario: what a YAML file says, complete, checked and frozen."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from simfl.devices import AVAILABILITY, COMPUTATION, FAILURE
from simfl.errors import ScenarioError
from simfl.learning import LEARNING
from simfl.network import NETWORKS
from simfl.privacy import PRIVACY
from simfl.registry import plain
from simfl.scenario import files, messages, overrides, plugins, writer
from simfl.scenario.places import InvalidScenario, Place, Places, Problem
from simfl.scenario.reader import Document, decode, read
from simfl.secagg import PROTOCOLS
from simfl.selection import POLICIES
from simfl.training import RULES

__all__ = ["Devices", "Scenario"]

