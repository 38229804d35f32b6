"""``simfl list``"""

import json
from pathlib import Path

import click

from simfl.cli import completing
from simfl.cli.shared import as_json, load_plugins, plugin_option, print_json
from simfl.core.errors import suggestion
from simfl.core.json_data import JsonObject

SCENARIOS = "scenarios"

PLURALS = {"policies": "selection", "datasets": "data", "noise": "stage", "metrics": "metric"}
"""What a family may be called in a question."""


@click.command("list", short_help="List what a scenario can choose.")
@click.argument("family", required=False, shell_complete=completing.families)
@click.argument("name", required=False)
@plugin_option
@as_json
def command(family: str | None, name: str | None, plugins: tuple[Path, ...], as_json: bool) -> None:
    """List what a scenario can choose: the names of every family's plugins.

    With FAMILY (e.g. selection) what its plugins are and which keys they have, with NAME of one of them alone;
    "scenarios" lists those that come with simfl. --json prints all of it.
    """
    if family == SCENARIOS:
        if name is not None:
            raise click.UsageError(f"of a scenario, 'simfl show {name}' prints all that it says")
        _list_scenarios(as_json)
        return
    load_plugins(plugins)
    known = catalogue()
    if family is not None and family not in known:
        near = suggestion(PLURALS.get(family, family), [*known, SCENARIOS])
        raise click.UsageError(f"no family {family!r}{near or '.'} The families are {', '.join(known)}.")
    chosen = known if family is None else {family: known[family]}
    if family is not None and name is not None:
        if name not in known[family]:
            near = suggestion(name, known[family]) or f". They are {', '.join(known[family])}"
            raise click.UsageError(f"no {family} {name!r}{near}")
        chosen = {family: {name: known[family][name]}}
    if as_json:
        print_json(chosen)
    elif family is None:
        _list_names(known)
    else:
        click.echo(_section(family, chosen[family]))
    from simfl.core.registration.family_index import broken

    for problem in broken():
        click.echo(f"{problem.group}: {problem}", err=True)


def _list_names(known: dict[str, JsonObject]) -> None:
    from simfl.scenario.builtin import builtins

    for family, plugins in known.items():
        click.echo(f"{click.style(family, bold=True)}: {', '.join(plugins)}")
    click.echo(f"{click.style(SCENARIOS, bold=True)}: {', '.join(builtins())}")
    click.echo("What each one is and its keys: simfl list FAMILY, e.g. simfl list selection", err=True)


def _list_scenarios(as_json: bool) -> None:
    from simfl.scenario.builtin import about, builtins

    known = {name: about(name) for name in builtins()}
    if as_json:
        print_json(known)
    else:
        click.echo("\n".join(f"{click.style(name, fg='cyan')}: {text}" for name, text in known.items()))


def catalogue() -> dict[str, JsonObject]:
    """Family -> plugin -> its description and fields, as plain data; families in the scenario's order."""
    from simfl import scenario  # registers every plugin
    from simfl.core.registration.family_index import FAMILIES
    from simfl.core.registration.protocol import summary
    from simfl.scenario.fields import describe

    order = list(scenario.Scenario.__dataclass_fields__)
    families = sorted(FAMILIES, key=lambda name: (order.index(name) if name in order else len(order), name))
    return {
        family: {
            name: {
                "description": summary(cls),
                "default": name == FAMILIES[family].default,
                "fields": [
                    {
                        "name": field.name,
                        "type": field.type,
                        "required": field.required,
                        **({} if field.required else {"default": field.default}),
                        "description": field.description,
                    }
                    for field in describe(cls)
                ],
            }
            for name, cls in FAMILIES[family].items()
        }
        for family in families
    }


def _section(family: str, plugins: JsonObject) -> str:
    """The plugins of a family; fields that several of them have alike stand once, with who has them."""
    having: dict[str, list[str]] = {}
    for name, plugin in plugins.items():
        for field in plugin["fields"]:
            having.setdefault(_field(field), []).append(name)
    lines = [click.style(family, bold=True)]
    for name, plugin in plugins.items():
        lines.append(f"  {click.style(name, fg='cyan')}: {plugin['description']}")
        lines += [f"      {text}" for text, names in having.items() if names == [name]]
    for names in dict.fromkeys(tuple(names) for names in having.values() if len(names) > 1):
        lines.append(
            f"  {click.style(', '.join(names), fg='cyan')} also have" if names != tuple(plugins) else "  all have"
        )
        lines += [f"      {text}" for text, of in having.items() if tuple(of) == names]
    return "\n".join(lines)


def _field(field: JsonObject) -> str:
    default = "required" if field["required"] else f"default {_short(field['default'])}"
    about = f": {field['description']}" if field["description"] else ""
    return f"{field['name']} ({field['type']}; {default}){about}"


def _short(value: object) -> str:
    """A default as it would be written in YAML."""
    if isinstance(value, dict) and list(value) == ["name"]:
        return str(value["name"])
    return value if isinstance(value, str) else json.dumps(value)
