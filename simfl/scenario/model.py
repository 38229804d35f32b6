"""The scenario: what a YAML file says, complete, checked and frozen."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from simfl import coverage
from simfl.attacks import OBSERVERS
from simfl.devices import Devices
from simfl.errors import ScenarioError
from simfl.files import DATA_PATH, data_places
from simfl.learning import LEARNING
from simfl.measurement import METRICS
from simfl.network import NETWORKS
from simfl.plugin import is_plugin
from simfl.privacy import PRIVACY
from simfl.registry import plain, validate
from simfl.scenario import datafiles, identity, overrides, owned, pluginfiles, plugins
from simfl.scenario.builtin import find
from simfl.scenario.extending import extended, opened
from simfl.scenario.messages import in_order, problems
from simfl.scenario.places import InvalidScenario, KeyPath, Place, Places, Problem, dotted, shown
from simfl.scenario.reader import Document, read
from simfl.scenario.scalars import LARGEST
from simfl.scenario.trust import NAMED, Trust
from simfl.scenario.writer import as_data, dump
from simfl.secagg import PROTOCOLS
from simfl.selection import POLICIES
from simfl.setting import Means
from simfl.training import RULES
from simfl.version import RESULTS

__all__ = ["Scenario", "Source"]

MAX_CLIENTS = 10**8
DIGEST_DIGITS = 12

PluginPath = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"\.py$"), DATA_PATH]


@dataclass(frozen=True)
class Source:
    """Where a scenario was read.

    Attributes:
        folder: what its data files are relative to.
        places: where its keys stand.
        means: with what it is played.
    """

    folder: Path = Path()
    places: Places = field(default_factory=lambda: Places(Place("scenario")))
    means: Means = Means()


_NAMES_PLUGINS = re.compile(r"\s*plugins\s*[.=]")
"""An override that names plugin files."""


class _NotAKey:
    """Marks a field of the scenario that no YAML key sets."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(_NotAKey.refuse)

    @staticmethod
    def refuse(value: Any) -> Any:
        raise PydanticCustomError("unexpected_keyword_argument", "unknown key")

    @staticmethod
    def __get_pydantic_json_schema__(schema: Any, handler: Any) -> dict[str, Any]:
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
    selection: Annotated[Any, POLICIES, Field(description="who takes part in an aggregation")]
    training: Annotated[Any, RULES, Field(description="rounds, local training and the server's step")]
    learning: Annotated[Any, LEARNING, Field(description="data set, its partition and the model")] = field(
        default_factory=lambda: LEARNING.of({"data": "digits", "partition": "iid", "model": "mlp"})
    )
    secagg: Annotated[Any, PROTOCOLS, Field(description="how the updates are added up")] = field(
        default_factory=lambda: PROTOCOLS.of("plain")
    )
    privacy: Annotated[Any, PRIVACY, Field(description="what the server can learn over the rounds")] = field(
        default_factory=lambda: PRIVACY.of("multi_round")
    )
    attacks: Annotated[
        tuple[Annotated[Any, OBSERVERS], ...], Field(description="observers of what the server sees")
    ] = ()
    metrics: Annotated[
        tuple[Annotated[Any, METRICS], ...], Field(description="what else is measured after every round and at the end")
    ] = ()
    plugins: Annotated[
        tuple[PluginPath, ...], Field(description="Python files that register plugins, beside the scenario file")
    ] = ()
    trace: Annotated[
        Literal["rounds", "events", "aggregates"],
        Field(description="what is recorded: a row a round, every message too, or every sum too, to attack it later"),
    ] = "rounds"
    source: Annotated[Source, _NotAKey] = field(
        default_factory=Source, compare=False, repr=False, metadata={"yaml": False}
    )

    # -- reading -------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: Path | str,
        overrides: Iterable[str] = (),
        plugins: Iterable[Path] = (),
        trust: Trust = NAMED,
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
        found = find(path)
        here = Path(os.path.realpath(found.path))
        return cls._made(opened(found), found.path.stem, found.folder, overrides, plugins, (here,), trust)

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
        return cls._made(read(text, name), name, folder, overrides, plugins)

    @classmethod
    def of(
        cls,
        data: Mapping[str, Any],
        name: str = "scenario",
        overrides: Iterable[str] = (),
        folder: Path = Path(),
        plugins: Iterable[Path] = (),
    ) -> Self:
        """A scenario from a mapping with the keys of a scenario file, in which plugins may also be objects.

        Args, Raises: as for :meth:`parse`.
        """
        text = dump(as_data(data))
        return cls._made(read(text, name), name, folder, overrides, plugins)

    @classmethod
    def _made(
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
        document = extended(document, folder, cls, chain, trust)
        overrides.apply(document, [text for text in changes if text not in loading], cls)
        if () in document.spoiled:
            raise InvalidScenario(in_order(document.problems))
        data = document.value
        if isinstance(data, dict):
            data = {"name": _safe(name), **data}
        try:
            scenario = validate(cls, data)
        except ValidationError as error:
            found = problems(error.errors(include_url=False), document, cls)
            raise InvalidScenario(in_order([*document.problems, *found])) from None
        scenario = replace(scenario, source=Source(folder, document.places))
        return scenario._completed(document)

    def _completed(self, document: Document) -> Self:
        scenario, found = plugins.resolved(self)
        if not found:
            found = [*plugins.checked(scenario), *scenario._missing_files(), *scenario._not_named()]
            found += owned.clashes(scenario)
            found += scenario._uncovered()
        located = [scenario._problem(path, message) for path, message in found]
        if located or document.problems:
            raise InvalidScenario(in_order([*document.problems, *located]))
        return scenario

    def _uncovered(self) -> Iterator[tuple[KeyPath, str]]:
        """What the client algorithm sends although a certificate does not cover it."""
        name = self.training.variant.name
        yield from ((self._algorithm, f"{name} {message}") for message in coverage.uncovered(self))

    @property
    def _algorithm(self) -> KeyPath:
        """Where the client algorithm stands."""
        return next((path for path, plugin in plugins.walk(self) if plugin is self.training.variant), ("training",))

    def _missing_files(self) -> Iterator[tuple[KeyPath, str]]:
        for path, name in datafiles.named(self):
            if not os.path.isfile(self.file(name)):
                yield path, f"{shown(name)} is no file beside the scenario or in {data_places()}"

    def _not_named(self) -> Iterator[tuple[KeyPath, str]]:
        """Plugins of files that another scenario of this process has named."""
        named = {self._content(("plugins", i), name) for i, name in enumerate(self.plugins)}
        for path, plugin in plugins.walk(self):
            cls = type(plugin)
            if is_plugin(plugin) and pluginfiles.is_plugin_file(cls) and pluginfiles.file_of(cls) not in named:
                yield path, f"'{cls.name}' is of a plugin file that this scenario does not name under plugins"

    def _problem(self, path: KeyPath, message: str) -> Problem:
        return Problem(self.source.places.of(path), dotted(path), message)

    # -- using ---------------------------------------------------------------------------------

    def file(self, name: str) -> Path:
        """The path of a data file that the scenario names.

        Args:
            name: relative to the scenario file's folder or, if it is not there, to the data folder; or absolute.
        """
        return datafiles.find(name, self.source.folder)

    @property
    def means(self) -> Means:
        """With what it is played; no key, and no part of the digest."""
        return self.source.means

    def using(self, **means: Any) -> Self:
        """The same scenario, played with other means, see :class:`simfl.setting.Means`."""
        return replace(self, source=replace(self.source, means=replace(self.means, **means)))

    def located(self, error: ScenarioError) -> InvalidScenario:
        """An error that shows only when the scenario is built, with the place of its key in the file."""
        if isinstance(error, InvalidScenario):
            return error
        return InvalidScenario([self._problem(plugins.located(self, error), error.message)])

    def cautions(self) -> list[str]:
        """What works, but is perhaps not what was meant."""
        return [*plugins.cautions(self), *(f"{dotted(self._algorithm)}: {text}" for text in coverage.cautions(self))]

    def plain(self, folder: Path | None = None) -> dict[str, Any]:
        """The scenario as plain data, all defaults and automatic fields filled in.

        Args:
            folder: where the data will be read from; relative data files are named as seen from there.
        """
        home = self.source.folder
        scenario = self
        if folder is not None:
            scenario = datafiles.renamed(self, lambda name, mark: datafiles.seen_from(name, home, folder))
        data: dict[str, Any] = plain(scenario)
        return data

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
        known = {name: self.origins[dotted(path)] for path, name in datafiles.named(self)}
        data = plain(datafiles.renamed(self, lambda name, mark: known[name] if mark == DATA_PATH else ""))
        data["code"] = identity.codes(self.foreign())
        data["results"] = RESULTS
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]

    @cached_property
    def origins(self) -> dict[str, str]:
        """What the digest holds of things outside the scenario, each by its content: data and plugin files by the keys
        that name them, the code of other plugins by their classes, simfl by its results version.

        Raises:
            ScenarioError: a data file cannot be read.
        """
        files = {dotted(path): self._content(path, name) for path, name in datafiles.named(self)}
        return files | identity.codes(self.foreign()) | {"simfl": f"results version {RESULTS}"}

    def foreign(self) -> list[type]:
        """The plugins that it uses, the innermost first, that are neither simfl's own nor of its plugin files."""
        used = dict.fromkeys(type(plugin) for _, plugin in plugins.walk(self) if is_plugin(plugin))
        return [cls for cls in used if identity.is_foreign(cls)]

    def _content(self, path: KeyPath, name: str) -> str:
        try:
            return datafiles.content(self.file(name))
        except OSError as error:
            raise ScenarioError(dotted(path), f"cannot be read: {error.strerror or error}") from None


def _safe(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", stem)[:100].lstrip(".-") or "scenario"
