"""The scenario: what a YAML file says, complete, checked and frozen."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from simfl.attacks.base import OBSERVERS
from simfl.clients.client_agents import Agents
from simfl.compression.base import COMPRESSIONS
from simfl.core import coverage
from simfl.core.errors import ScenarioError
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import SINCE_LATER, plain
from simfl.core.registration.registry import OrNull, validate
from simfl.core.scenario_view import RuntimeOptions
from simfl.core.storage.data_folder import DATA_PATH
from simfl.devices import Devices
from simfl.learning.base import LEARNING
from simfl.metrics.base import METRICS
from simfl.network.base import NETWORKS
from simfl.privacy.base import PRIVACY
from simfl.scenario import checks, data_files, overrides
from simfl.scenario import plugin_files as pluginfiles
from simfl.scenario import resolution as plugins
from simfl.scenario.builtin import find
from simfl.scenario.digest import digest_of, origins_of
from simfl.scenario.extends import merge_extended, read_scenario_file
from simfl.scenario.named_worlds import in_its_world, said_besides
from simfl.scenario.plugin_files import NAMED, Trust
from simfl.scenario.yaml.places import InvalidScenario, KeyPath, Place, Places, Problem, dotted_key, in_order
from simfl.scenario.yaml.reader import LARGEST, Document, read
from simfl.scenario.yaml.writer import as_data, dump
from simfl.secagg.base import PROTOCOLS
from simfl.selection.base import POLICIES
from simfl.topology.base import TOPOLOGIES
from simfl.training.base import RULES

MAX_CLIENTS = 10**8

PluginPath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"\.py$"), DATA_PATH]

_NAMES_PLUGINS = re.compile(r"\s*plugins\s*[.=]")
"""An override that names plugin files."""


@dataclass(frozen=True)
class Source:
    """Where a scenario was read.

    Attributes:
        folder: what its data files are relative to.
        places: where its keys stand.
        means: with what it is run.
        notes: what was chosen because the scenario does not say it, in words.
    """

    folder: Path = Path()
    places: Places = field(default_factory=lambda: Places(Place("scenario")))
    means: RuntimeOptions = RuntimeOptions()
    notes: tuple[str, ...] = ()


class NotAKey:
    """Marks a field of the scenario that no YAML key sets."""

    @staticmethod
    def __get_pydantic_core_schema__(source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(NotAKey.refuse)

    @staticmethod
    def refuse(value: object) -> Any:
        raise PydanticCustomError("unexpected_keyword_argument", "unknown key")

    @staticmethod
    def __get_pydantic_json_schema__(schema: object, handler: object) -> JsonObject:
        return {"not": {}}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One simulated federated training run, complete. Every field but ``source`` is a key of the YAML file."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$",
            max_length=100,
            description="names the results' folder: letters, digits, '.', '_' and '-', beginning with none of '.-'; "
            "default: the file's name",
        ),
    ] = "scenario"
    seed: Annotated[int, Field(ge=0, le=LARGEST, description="decides every random draw")] = 0
    clients: Annotated[int, Field(ge=1, le=MAX_CLIENTS, description="number of clients")]
    network: Annotated[Any, NETWORKS, Field(description="how long messages take")] = field(
        default_factory=lambda: NETWORKS.of("star")
    )
    devices: Annotated[Devices, Field(description="availability, computation and failures of the clients")] = field(
        default_factory=Devices
    )
    world: Annotated[
        Literal["memoryless", "sticky", "groups", "day_and_night", "trace"] | None,
        Field(description="how the absence of devices hangs together, as often as devices.availability says"),
    ] = field(default=None, metadata=SINCE_LATER)
    selection: Annotated[Any, POLICIES, Field(description="who takes part in an aggregation")]
    training: Annotated[Any, RULES, Field(description="rounds, local training and the server's step")]
    learning: Annotated[Any, LEARNING, Field(description="data set, its partition and the model")] = field(
        default_factory=lambda: LEARNING.of({"data": "digits", "partition": "iid", "model": "mlp"})
    )
    compression: Annotated[Any, COMPRESSIONS, Field(description="how updates are coded on their way up")] = field(
        default_factory=lambda: COMPRESSIONS.of("none"), metadata=SINCE_LATER
    )
    secagg: Annotated[
        Any,
        PROTOCOLS,
        OrNull,
        Field(description="how the updates are added up; null = ideal where only a sum is needed, else plain"),
    ] = None
    privacy: Annotated[Any, PRIVACY, Field(description="what the server can learn over the rounds")] = field(
        default_factory=lambda: PRIVACY.of("multi_round")
    )
    attacks: Annotated[
        tuple[Annotated[Any, OBSERVERS], ...], Field(description="observers of what the server sees")
    ] = ()
    metrics: Annotated[
        tuple[Annotated[Any, METRICS], ...], Field(description="what else is measured after every round and at the end")
    ] = ()
    agents: Annotated[Agents, Field(description="what clients do on the clock")] = field(
        default_factory=Agents, metadata=SINCE_LATER
    )
    topology: Annotated[Any, TOPOLOGIES, Field(description="who talks with whom")] = field(
        default_factory=lambda: TOPOLOGIES.of("star"), metadata=SINCE_LATER
    )
    plugins: Annotated[
        tuple[PluginPath, ...], Field(description="Python files that register plugins, beside the scenario file")
    ] = ()
    trace: Annotated[
        Literal["rounds", "events", "aggregates"],
        Field(description="what is recorded: a row a round, every message too, or every sum too, to attack it later"),
    ] = "rounds"
    source: Annotated[Source, NotAKey] = field(
        default_factory=Source, compare=False, repr=False, metadata={"yaml": False}
    )

    # -- reading -------------------------------------------------------------------------------

    @classmethod
    def load(
        cls, path: Path | str, overrides: Iterable[str] = (), plugins: Iterable[Path] = (), trust: Trust = NAMED
    ) -> Self:
        """Reads a scenario file. The plugin files that it names are executed.

        Args:
            path: a YAML file, or the name of a built-in scenario (:func:`simfl.scenario.builtin.find`).
            overrides: ``key=value`` texts, applied in turn.
            plugins: further plugin files, as seen from the working directory.
            trust: which plugin files may be executed; of a results folder not simply all.

        Raises:
            InvalidScenario: with everything that is wrong, each with file, line, column and key.
        """
        file = find(path)
        here = Path(os.path.realpath(file.path))
        return cls._read_document(
            read_scenario_file(file), file.path.stem, file.folder, overrides, plugins, (here,), trust
        )

    @classmethod
    def parse(
        cls,
        text: str,
        name: str = "scenario",
        overrides: Iterable[str] = (),
        folder: Path = Path(),
        plugins: Iterable[Path] = (),
    ) -> Self:
        """Reads a scenario from a text. The plugin files that it names are executed.

        Args:
            text: YAML.
            name: the scenario's name if the text gives none; also how messages call the text.
            overrides: ``key=value`` texts, applied in turn.
            folder: what data files are relative to.
            plugins: further plugin files, as seen from the working directory.

        Raises:
            InvalidScenario: with everything that is wrong.
        """
        return cls._read_document(read(text, name), name, folder, overrides, plugins)

    @classmethod
    def of(
        cls,
        data: Mapping[str, object],
        name: str = "scenario",
        overrides: Iterable[str] = (),
        folder: Path = Path(),
        plugins: Iterable[Path] = (),
        trust: Trust = NAMED,
    ) -> Self:
        """A scenario from a mapping with the keys of a scenario file, in which plugins may also be objects.

        Args, Raises: as for :meth:`parse` and :meth:`load`.
        """
        text = dump(as_data(data))
        return cls._read_document(read(text, name), name, folder, overrides, plugins, trust=trust)

    @classmethod
    def _read_document(
        cls,
        document: Document,
        name: str,
        folder: Path,
        changes: Iterable[str],
        plugin_files: Iterable[Path],
        chain: tuple[Path, ...] = (),
        trust: Trust = NAMED,
    ) -> Self:
        changes = list(changes)
        loading = [text for text in changes if _NAMES_PLUGINS.match(text)]  # what is named there must be known first
        overrides.apply(document, loading, cls)
        pluginfiles.load_all(document, folder, plugin_files, trust)
        document = merge_extended(document, folder, cls, chain, trust)
        overrides.apply(document, [text for text in changes if text not in loading], cls)
        if () in document.spoiled:
            raise InvalidScenario(in_order(document.problems))
        if (twice := said_besides(document)) is not None:
            document.problems.append(twice)
        data = document.value
        if isinstance(data, dict):
            data = {"name": re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100].lstrip(".-") or "scenario", **data}
        try:
            scenario = validate(cls, data)
        except ValidationError as error:
            from simfl.scenario.messages.problems import problems

            wrong = problems(error.errors(include_url=False), document, cls)
            raise InvalidScenario(in_order([*document.problems, *wrong])) from None
        scenario = replace(scenario, source=Source(folder, document.places))
        return scenario._complete(document, trust)

    def _complete(self, document: Document, trust: Trust) -> Self:
        scenario, wrong = self, checks.refuse_untrusted(self, trust)
        if not wrong:
            devices, wrong = checks.fill_in(scenario)
            scenario = replace(scenario, devices=devices)
        if not wrong:
            scenario, wrong = in_its_world(scenario)
        if not wrong:
            scenario, wrong = checks.complete(scenario)
        located = [scenario._problem(path, message) for path, message in wrong]
        if located or document.problems:
            raise InvalidScenario(in_order([*document.problems, *located]))
        return scenario

    def _problem(self, path: KeyPath, message: str) -> Problem:
        return Problem(self.source.places.of(path), dotted_key(path), message)

    # -- using ---------------------------------------------------------------------------------

    def file(self, name: str) -> Path:
        """The path of a data file that the scenario names.

        Args:
            name: relative to the scenario file's folder or, if it is not there, to the data folder; or absolute.
        """
        return data_files.find(name, self.source.folder)

    @property
    def means(self) -> RuntimeOptions:
        """With what it is run; no key, and no part of the digest."""
        return self.source.means

    def using(self, **means: Any) -> Self:
        """The same scenario, run with other means, see :class:`simfl.core.scenario_view.RuntimeOptions`."""
        return replace(self, source=replace(self.source, means=replace(self.means, **means)))

    def locate(self, error: ScenarioError) -> InvalidScenario:
        """An error that shows only when the scenario is built, with the place of its key in the file."""
        if isinstance(error, InvalidScenario):
            return error
        return InvalidScenario([self._problem(plugins.key_of(self, error), error.message)])

    def cautions(self) -> list[str]:
        """What works, but is perhaps not what was meant."""
        return [
            *plugins.cautions(self),
            *(f"{dotted_key(checks.algorithm_key(self))}: {text}" for text in coverage.cautions(self)),
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was chosen because the scenario does not say it, in words."""
        return self.source.notes

    def plain(self, folder: Path | None = None) -> JsonObject:
        """The scenario as plain data, all defaults and automatic fields filled in.

        Without ``agents.engine``: how clients are computed changes no result.

        Args:
            folder: where the data will be read from; relative data files are named as seen from there.
        """
        home = self.source.folder
        scenario = self
        if folder is not None:
            scenario = data_files.rename_files(self, lambda name, mark: data_files.seen_from(name, home, folder))
        return plain(replace(scenario, agents=Agents(scenario.agents.client)))

    def to_yaml(self, folder: Path | None = None) -> str:
        """The resolved scenario as a file that ``load`` reads back as the same scenario, from ``folder`` if given."""
        return dump(self.plain(folder))

    @cached_property
    def digest(self) -> str:
        """The first 12 hex digits of the SHA-256 of the resolved scenario's canonical JSON.

        Data files and plugin files count by their content, other plugins by their code, simfl's own by its results
        version; where a known data set lies does not count.
        Raises:
            ScenarioError: a data file cannot be read.
        """
        return digest_of(self)

    @cached_property
    def origins(self) -> dict[str, str]:
        """What the digest holds of things outside the scenario, each by its content: data and plugin files by the keys
        that name them, the code of other plugins by their classes, simfl by its results version.

        Raises:
            ScenarioError: a data file cannot be read.
        """
        return origins_of(self)
