"""A scenario completed and checked: what cannot work in it although every key of it is valid by itself."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

from simfl.core import coverage
from simfl.core.errors import PLUGIN_FILE, ScenarioError, amount
from simfl.core.registration.protocol import default_of, is_foreign, is_plugin
from simfl.core.rng import Streams
from simfl.core.scenario_view import has_buffer
from simfl.core.storage.data_folder import data_places
from simfl.devices import AVAILABILITY, COMPUTATION, Devices
from simfl.devices.profiles import read_profiles
from simfl.learning.objects.choice import python_objects
from simfl.scenario import column_owners, data_files, plugin_files, resolution
from simfl.scenario.digest import content_of
from simfl.scenario.edge_scenarios import (
    cloud_noise_problem,
    edge_groups,
    edge_scenario,
    first_difference,
    keys_of_edges,
    sampling_problem,
)
from simfl.scenario.plugin_files import Trust, note_executed
from simfl.scenario.yaml.places import KeyPath, dotted_key, shown
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.selection.asking import unreadable
from simfl.training.fedavg import FedAvg

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

PARTS = {"computation": (COMPUTATION, "samples_per_s"), "availability": (AVAILABILITY, "availability")}
"""Parts of ``devices`` that a column of the file decides: the family of the part, and the column."""

S = TypeVar("S", bound="Scenario")

Wrong = list[tuple[KeyPath, str]]


def conflicts(scenario: "Scenario") -> list[tuple[KeyPath, str]]:
    """What is wrong, each with the key where it is."""
    algorithm, compression = scenario.training.algorithm.name, scenario.compression.name
    return [
        *resolution.check_all(scenario),
        *(
            (path, f"{shown(name)} is no file beside the scenario or in {data_places()}")
            for path, name in data_files.absent(scenario)
        ),
        *_plugins_not_named(scenario),
        *_agents_unheard(scenario),
        *_for_one_server(scenario),
        *column_owners.problems(scenario),
        *((algorithm_key(scenario), f"{algorithm} {message}") for message in coverage.coverage_problems(scenario)),
        *((("compression",), f"{compression} {message}") for message in coverage.compression_problems(scenario)),
        *(
            (("selection",), f"{scenario.selection.name} {message}")
            for message in unreadable(scenario) or coverage.selection_problems(scenario)
        ),
    ]


def algorithm_key(scenario: "Scenario") -> KeyPath:
    """Where the client algorithm stands."""
    algorithm = scenario.training.algorithm
    return next((path for path, plugin in resolution.walk(scenario) if plugin is algorithm), ("training",))


def _plugins_not_named(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    """Plugins of files that another scenario of this process has named."""
    named = {content_of(scenario, ("plugins", i), name) for i, name in enumerate(scenario.plugins)}
    for path, plugin in resolution.walk(scenario):
        cls = type(plugin)
        content = "sha256:" + cls.__module__.removeprefix(PLUGIN_FILE)
        if is_plugin(plugin) and plugin_files.is_plugin_file(cls) and content not in named:
            yield path, f"'{cls.name}' is of a plugin file that this scenario does not name under plugins"


def _agents_unheard(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    """Agents of clients, and losses of their messages, where no server asks or waits for them."""
    rule, loss, protocol = scenario.training, scenario.network.loss, scenario.secagg
    reads_data = scenario.agents.reads_data
    if reads_data and not scenario.learning.measures_losses:
        yield ("agents", "client"), f"reads losses, and learning '{scenario.learning.name}' has none; use another agent"
    if rule.many_aggregators:
        if not scenario.agents.all_standard and not scenario.network.independent:
            yield ("agents", "client"), "clients without a server share no links; use standard, or share none"
        why = f"training '{rule.name}' has no server with a deadline, and would wait for"
        if reads_data:
            yield ("agents", "client"), f"{why} clients that send nothing for ever; use another agent"
        if loss:
            yield ("network", "loss"), f"{why} what is lost for ever; leave it out"
        if (server := coverage.plugin_server(scenario)) is not None and not server.asks_agents:
            why = f"server '{rule.server}' does not say asks_agents = True"
            if not scenario.agents.all_standard:
                yield ("agents", "client"), f"{why}; use standard"
            if scenario.agents.engine == "processes":
                yield ("agents", "engine"), f"{why}; use auto or arrays"
    elif loss or reads_data:
        deadline_s = rule.deadline_s if has_buffer(rule) else None if rule.losses is None else rule.losses.deadline_s
        if deadline_s is None and reads_data:
            yield ("agents", "client"), "may send nothing, which only a deadline tells; give training.deadline_s"
        elif deadline_s is None:
            yield ("network", "loss"), "only a deadline tells that an update is lost; give training.deadline_s"
        if loss and type(protocol).setup is not Protocol.setup and not is_foreign(protocol):
            yield ("network", "loss"), f"{protocol.name} waits without a deadline for what clients set up; leave it out"
        elif loss and protocol.phases and protocol.deadline_s is None:
            yield ("network", "loss"), "only a deadline tells that an answer is lost; give secagg.deadline_s"


def _for_one_server(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    """What looks at one server, beside a topology of several observers."""
    if scenario.topology.server is None and not scenario.topology.own_models:
        return
    if scenario.topology.noise == "cloud" and (problem := cloud_noise_problem(scenario)):
        yield ("topology", "noise"), f"is cloud, but {problem}"
    if not scenario.topology.own_models and not scenario.network.independent:
        yield ("network",), f"beside topology '{scenario.topology.name}' no links are shared; leave their bandwidth out"
    why = f"beside topology '{scenario.topology.name}' there is no one server"
    if scenario.trace == "aggregates":
        yield ("trace",), f"{why} whose aggregates could be recorded; use events or rounds"
    if scenario.learning.external:
        yield ("learning", "backend"), f"{why} for clients that are processes of their own; use another backend"


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


def complete(scenario: S) -> tuple[S, Wrong]:
    """The scenario with every automatic field, and what is wrong in it.

    ``secagg: null`` is ``ideal`` where nothing speaks against it, that is where the server needs a weighted sum and
    nothing else, and ``plain`` where something does. The first is the one assumption that a default makes.
    """
    if scenario.topology.own_models and type(scenario.training) is FedAvg:
        try:
            scenario = replace(scenario, training=scenario.training.without_server())
        except ScenarioError as error:
            return scenario, [(("training", error.key), error.message)]
    if not (sizes := {len(group) for group in edge_groups(scenario) if len(group)}):
        return _complete_one(scenario)
    keys, (whole, wrong) = keys_of_edges(scenario), _complete_one(scenario)
    wrong = [problem for problem in wrong if problem[0][:1] and problem[0][0] not in keys]
    wrong += [(("topology",), why) for why in [sampling_problem(scenario)] if why]
    of_edges = []
    for size in sorted(sizes):
        edge, problems = _complete_one(edge_scenario(scenario, size))
        of_edges.append(edge)
        unknown = resolution.resolve(edge)[1]  # of devices, say, of which an edge has others
        others = [(dotted_key(key), why) for key, why in unknown if key[:1] and key[0] not in keys]
        whose = f"an edge of {amount(size, 'client')}"
        wrong += [(("topology",), f"{whose} needs {key}, which {why}") for key, why in others]
        here = (problem for problem in problems if problem[0][:1] and problem[0][0] in keys)
        wrong += [(key, f"{why} (in {whose})") for key, why in here]
    if not wrong:
        different = (first_difference(keys, of_edges[0], other) for other in of_edges[1:])
        wrong = [difference for difference in different if difference is not None][:1]
    filled = {key: getattr(of_edges[0], key) for key in keys}
    return replace(whole, **filled, source=of_edges[0].source), wrong


def _complete_one(scenario: S) -> tuple[S, Wrong]:
    if scenario.secagg is not None:
        return _resolve(scenario)
    assumed, against = _resolve(replace(scenario, secagg=PROTOCOLS.of("ideal")))
    if not against:
        why = f"assume that {assumed.secagg.assumes}; a protocol (simfl list secagg) costs time and bytes"
        return _with_note(assumed, f"secagg: not set, so {assumed.secagg.name}: numbers about privacy {why}"), []
    shown, wrong = _resolve(replace(scenario, secagg=PROTOCOLS.of("plain")))
    key, why = next((item for item in against if item not in wrong), against[0])
    said = f"secagg: not set, so {shown.secagg.name}, since the server sees each update: {dotted_key(key)} {why}"
    return _with_note(shown, said), wrong


def _resolve(scenario: S) -> tuple[S, Wrong]:
    scenario, wrong = resolution.resolve(scenario)
    return scenario, wrong or conflicts(scenario)


def _with_note(scenario: S, note: str) -> S:
    return replace(scenario, source=replace(scenario.source, notes=(*scenario.source.notes, note)))


def refuse_untrusted(scenario: "Scenario", trust: Trust) -> list[tuple[KeyPath, str]]:
    """What may not be executed, found before anything is: modules that a scenario names as ``module:attribute``.

    A module is known by the path and the content of its file, and so is each helper that it imports from its folder.
    What may be is noted as executed, where the user has named the scenario.
    """
    named = [part for part in python_objects(scenario.learning) if not part.handed_in and ":" in part.object]
    if not named:
        return []
    from simfl.learning.objects.module_sources import accept, module_sources

    problems: list[tuple[KeyPath, str]] = []
    for part in named:
        try:
            for source in module_sources(part.object, part.place(scenario)).values():
                trust.check(source.path, source.digest, source.mark)
                accept(source)
                if trust.named:
                    note_executed(source.mark)
        except ValueError as error:
            where = next(path for path, plugin in resolution.walk(scenario) if plugin is part)
            said = str(error).replace("is a plugin file", "is of a module")
            problems.append(((*where, "object"), f"{part.object} {said}"))
    return problems
