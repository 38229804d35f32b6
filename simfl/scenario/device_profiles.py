"""``devices.profiles`` of a scenario: read when it is loaded, and put where its columns belong."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from simfl.core.errors import ScenarioError
from simfl.core.registration.plugin_data import default_of
from simfl.core.rng import Streams
from simfl.devices import AVAILABILITY, COMPUTATION, Devices
from simfl.devices.profiles import read_profiles
from simfl.scenario.yaml.places import KeyPath

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

PARTS = {"computation": (COMPUTATION, "samples_per_s"), "availability": (AVAILABILITY, "availability")}
"""Parts of ``devices`` that a column of the file decides: the family of the part, and the column."""


def fill_in(scenario: "Scenario") -> tuple[Devices, list[tuple[KeyPath, str]]]:
    """The scenario's ``devices``, whose parts take from the profiles what these have, and what is wrong with them.

    A part that was left at its default becomes ``profile`` if the file has its column. Latency and bandwidths need no
    part: they are the client's own line before whatever network there is.
    """
    devices: Devices = scenario.devices
    if devices.profiles is None:
        return devices, []
    path = scenario.file(devices.profiles)
    if not path.is_file():  # said where all files are looked for
        return devices, []
    try:
        table = read_profiles(path)
        table.rows(scenario.clients, Streams(scenario.seed))
    except ScenarioError as error:
        return devices, [(("devices", "profiles"), error.message)]
    defaults = {field.name: default_of(field) for field in fields(Devices)}
    problems: list[tuple[KeyPath, str]] = []
    for part, (family, column) in PARTS.items():
        chosen, profiled = getattr(devices, part), family.of("profile")
        if column in table.columns and chosen == defaults[part]:
            devices = replace(devices, **{part: profiled})
        elif column in table.columns and chosen != profiled:
            both = f"'{chosen.name}' and the column {column} of {table.file} (devices.profiles) both say the same"
            problems.append((("devices", part), f"{both}; leave {part} out, or take the column out"))
        elif column not in table.columns and chosen == profiled:
            problems.append((("devices", part), f"{table.file} (devices.profiles) has no column {column}"))
    return devices, problems
