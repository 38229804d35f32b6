"""``simfl validate``"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.cli import completing
from simfl.cli.shared import as_json, load, plugin_option, print_json
from simfl.core.errors import MissingError, PluginError, ScenarioError, SimflError
from simfl.core.json_data import JsonObject

if TYPE_CHECKING:
    from simfl.scenario import Problem, Scenario

WRONG, MISSING = 2, 5

MANY_CLIENTS = 1_000_000
"""For more clients even the arrays of latencies and rates take their time."""


@dataclass
class Preflight:
    """What a valid scenario would still meet when it is built, found without running it.

    Attributes:
        problems: why it cannot be built, each with its place.
        missing: what is not here (data, extras, devices) and how to get it.
        unchecked: what was not looked at.
        cautions: what works, but is perhaps not what was meant.
    """

    problems: list["Problem"] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


@click.command("validate", short_help="Check scenario files.")
@click.argument("words", nargs=-1, required=True, metavar="FILE... [KEY=VALUE]...", shell_complete=completing.scenarios)
@click.option("--deep", is_flag=True, help="Load the data and build the model too, as a run would.")
@plugin_option
@as_json
@click.pass_context
def command(
    context: click.Context, words: tuple[str, ...], plugins: tuple[Path, ...], deep: bool, as_json: bool
) -> None:
    """Check scenario files: every problem with its line and the nearest valid value.

    Overrides (KEY=VALUE) change keys of every file, as in `simfl run`.

    A Python file (FILE.py) is one of plugins: each is played with chosen updates wherever its family is probed. Printed
    are what certificates will count it as and what it says that is not so.

    The network and the devices are built and the data's headers compared with the model; nothing is trained. What this
    leaves unchecked is named, and what works but is perhaps not what was meant. Exit code 2: something is wrong; 5:
    nothing is, but data or a package are not here.
    """
    refuse_spaces(words)
    overrides = tuple(word for word in words if "=" in word and not os.path.exists(word))
    files = [word for word in words if word not in overrides]
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    reports = []
    codes = {0}
    needed = [*plugins, *(Path(file) for file in files if file.endswith(".py"))]
    for file in files:
        if file.endswith(".py"):
            codes.add(WRONG if (report := _check_plugins(file, needed))["refuted"] else 0)
            reports.append(report) if as_json else _print_plugins(report)
            continue
        preflight, digest = _check(file, overrides, plugins, deep)
        codes.add(WRONG if preflight.problems else MISSING if preflight.missing else 0)
        if as_json:
            reports.append(_report(file, preflight, digest))
        else:
            _print(file, preflight, digest)
    if as_json:
        print_json(reports)
    context.exit(WRONG if WRONG in codes else max(codes))


def refuse_spaces(words: tuple[str, ...]) -> None:
    """Refuses ``key = value``, of which two words would be taken for files.

    Raises:
        SimflError: with the right way.
    """
    if "=" in words:
        from simfl.scenario.overrides import FORM, spaced_override

        if (spaced := spaced_override(words)) is not None:
            raise SimflError(f"override {spaced[0]}: {FORM}, did you mean '{spaced[1]}'?")


def _check(
    file: str, overrides: tuple[str, ...], plugins: tuple[Path, ...], deep: bool
) -> tuple[Preflight, str | None]:
    """What was found, and the digest of a scenario in which nothing is wrong."""
    from simfl.scenario import InvalidScenario

    try:
        scenario = load(file, overrides, plugins)
    except InvalidScenario as error:
        return Preflight(list(error.problems)), None
    except MissingError as error:
        return Preflight(missing=[str(error)]), None
    preflight = run_preflight(scenario, deep)
    try:
        return preflight, None if preflight.problems else scenario.digest
    except ScenarioError as error:  # a data file that cannot be read
        return Preflight(list(scenario.locate(error).problems)), None


def _check_plugins(file: str, needed: list[Path]) -> JsonObject:
    """What probes say of the plugins of a file, which may need those of others."""
    from simfl.cli.validate_plugins import judged_file

    try:
        verdicts = judged_file(Path(file), needed)
    except ValueError as error:
        return {"file": file, "refuted": [str(error)], "plugins": []}
    refuted = [f"{each.family} '{each.name}': {words}" for each in verdicts for words in each.refuted]
    return {"file": file, "refuted": refuted, "plugins": [asdict(each) for each in verdicts]}


def _print_plugins(report: JsonObject) -> None:
    for plugin in report["plugins"]:
        for words in plugin["counts_as"]:
            click.echo(f"{plugin['family']} {plugin['name']}: {words}")
        if plugin["played"] and not plugin["refuted"]:
            click.echo(f"{plugin['family']} {plugin['name']}: {plugin['played']} scenarios played, nothing refuted")
    for words in report["refuted"]:
        click.echo(f"{report['file']}: {words}", err=True)


def _report(file: str, preflight: Preflight, digest: str | None) -> JsonObject:
    problems = [
        {
            "source": p.place.source,
            "line": p.place.line or None,
            "column": p.place.column or None,
            "key": p.key,
            "message": p.message,
        }
        for p in preflight.problems
    ]
    about = {"file": file, "valid": not preflight.problems, "digest": digest, "problems": problems}
    return about | {"missing": preflight.missing, "unchecked": preflight.unchecked, "cautions": preflight.cautions}


def _print(file: str, preflight: Preflight, digest: str | None) -> None:
    from simfl.scenario import InvalidScenario

    if preflight.problems:
        click.echo(str(InvalidScenario(preflight.problems)), err=True)
    for missing in preflight.missing:
        click.echo(f"{file}: {missing}", err=True)
    if digest is not None:
        click.echo(f"{file}: valid, digest {digest}")
        if preflight.unchecked:
            click.echo(f"{file}: not checked without --deep: {'; '.join(preflight.unchecked)}")
        for caution in preflight.cautions:
            click.echo(f"{file}: note: {caution}")


def run_preflight(scenario: "Scenario", deep: bool = False) -> Preflight:
    """Builds the network and the devices, and compares the headers of the data with the model.

    Fast, and without torch as far as the built-in choices go. With ``deep`` everything is loaded and built as for a
    run.
    """
    preflight = Preflight(cautions=[*scenario.notes, *scenario.cautions()])

    def attempt(build: Callable[[], Any]) -> Any:
        try:
            return build()
        except ScenarioError as error:
            preflight.problems += scenario.locate(error).problems
        except PluginError as error:
            wrong = ScenarioError("training", str(error))
            preflight.problems += scenario.locate(wrong).problems
        except MissingError as error:
            preflight.missing.append(str(error))
        return None

    if deep:
        from simfl.runs.run import build

        if (parts := attempt(lambda: build(scenario))) is not None:
            preflight.cautions += parts.learner.notes
        return preflight
    from simfl.core.registration.protocol import is_foreign
    from simfl.core.rng import Streams
    from simfl.runs.client_links import build_links

    if is_foreign(scenario.training) or is_foreign(scenario.topology):  # simfl's own name servers that are there
        from simfl.agents.server_choice import server_of

        attempt(lambda: server_of(scenario.training, scenario.topology.server))
    streams, devices = Streams(scenario.seed), scenario.devices
    if scenario.clients > MANY_CLIENTS:
        preflight.unchecked.append(f"what is drawn for each of {scenario.clients:,} clients")
    else:
        if (links := attempt(lambda: build_links(scenario, streams))) is not None:
            attempt(lambda: devices.availability.build(scenario, streams, links.names))
        attempt(lambda: devices.computation.build(scenario, streams))
        attempt(lambda: devices.failure.build(scenario, streams))
    preflight.unchecked += attempt(lambda: _preview(scenario)) or []
    return preflight


def _preview(scenario: "Scenario") -> list[str]:
    """What looking at the headers of the data leaves unchecked."""
    from simfl.scenario.data_files import names

    unchecked = scenario.learning.preview(scenario)
    files = ", ".join(name for path, name in names(scenario) if path[:2] == ("learning", "data"))
    return [f"the content of {files} beyond a header", *unchecked] if files else unchecked
