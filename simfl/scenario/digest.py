"""What a scenario's digest is computed of: its resolved keys, and the contents of what they name."""

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from simfl.core.errors import ScenarioError
from simfl.core.registration.plugin_data import plain
from simfl.core.registration.protocol import is_plugin
from simfl.core.storage.data_folder import DATA_PATH
from simfl.core.version import RESULTS
from simfl.scenario import data_files, identity, resolution
from simfl.scenario.yaml.places import KeyPath, dotted_key

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

DIGEST_DIGITS = 12


def digest_of(scenario: "Scenario") -> str:
    """The digest of a scenario, see :attr:`simfl.scenario.model.Scenario.digest`."""
    known = {name: scenario.origins[dotted_key(path)] for path, name in data_files.names(scenario)}
    data = plain(data_files.rename_files(scenario, lambda name, mark: known[name] if mark == DATA_PATH else ""))
    data["code"] = identity.codes(foreign_plugins(scenario))
    data["results"] = RESULTS
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def origins_of(scenario: "Scenario") -> dict[str, str]:
    """What the digest holds of things outside the scenario, see :attr:`simfl.scenario.model.Scenario.origins`."""
    files = {dotted_key(path): content_of(scenario, path, name) for path, name in data_files.names(scenario)}
    return files | identity.codes(foreign_plugins(scenario)) | {"simfl": f"results version {RESULTS}"}


def foreign_plugins(scenario: "Scenario") -> list[type]:
    """The plugins that it uses, the innermost first, that are neither simfl's own nor of its plugin files."""
    used = dict.fromkeys(type(plugin) for _, plugin in resolution.walk(scenario) if is_plugin(plugin))
    return [cls for cls in used if identity.is_foreign(cls)]


def content_of(scenario: "Scenario", path: KeyPath, name: str) -> str:
    """A data or plugin file by its content.

    Args:
        scenario: names the file.
        path: the key that does.
        name: how it is named there.

    Raises:
        ScenarioError: it cannot be read.
    """
    try:
        return data_files.content(scenario.file(name))
    except OSError as error:
        raise ScenarioError(dotted_key(path), f"cannot be read: {error.strerror or error}") from None
