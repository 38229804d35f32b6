"""A scenario file to start from: a built-in one with every key explained."""

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry
from simfl.scenario.builtin import find
from simfl.scenario.extends import merge_extended, read_scenario_file
from simfl.scenario.fields import annotation_at, describe, keys_of, registry_of
from simfl.scenario.model import Scenario
from simfl.scenario.overrides import brief
from simfl.scenario.yaml.writer import dump

WIDTH = 100


def draft(name: str, builtin: str, changes: Mapping[str, object] | None = None, compared: str = "") -> str:
    """A scenario file: every key of the scenario's top with what it means and what can be chosen.

    Keys that the built-in scenario leaves out stand there as comments, with their defaults.

    Args:
        name: of the new scenario.
        builtin: the scenario whose values it has.
        changes: other values of some keys, ``world`` among them.
        compared: values of ``selection``, which a line at the head compares.

    Raises:
        InvalidScenario: the name is none, or a change cannot be.
    """
    scenario_file = find(builtin)
    value = merge_extended(read_scenario_file(scenario_file), scenario_file.folder, Scenario).value | {"name": name}
    value |= changes or {}
    lines = scenario_file.path.read_text(encoding="utf-8").splitlines()
    about = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    lines = [
        f"# {name}: begun as a copy of the built-in scenario {builtin}, which says of itself:",
        *_comment(about, "#   "),
        "#",
        f"# Check it: simfl validate {name}.yaml    Run it: simfl run {name}.yaml",
        *([f"# Compare: {compare_command(f'{name}.yaml', compared)}"] if compared else []),
        "# What can be chosen, with all fields: simfl list [FAMILY]. A bare name is short for {name: NAME}.",
    ]
    for field in describe(Scenario):
        known = annotation_at(Scenario, value, (field.name,))
        lines += ["", *_comment(f"{field.description}{_choices(known, value.get(field.name))}")]
        if field.name in value:
            lines += _written(field.name, value[field.name])
        elif field.default is not MISSING:
            known_field = Scenario.__dataclass_fields__[field.name]
            default = known_field.default if known_field.default_factory is MISSING else known_field.default_factory()
            lines += [f"# {line}" for line in _written(field.name, brief(default))]
    text = "\n".join(lines) + "\n"
    Scenario.parse(text, name)
    return text


def compare_command(path: str, compared: str) -> str:
    """The line that compares values of ``selection``."""
    return f"simfl compare {path} {shlex.quote(f'selection={compared}')} --replications 5"


def _written(key: str, value: object) -> list[str]:
    text = dump({key: value}).strip()
    return text.removeprefix("{").removesuffix("}").splitlines() if text.startswith("{") else text.splitlines()


def _comment(text: str, sign: str = "# ") -> Iterator[str]:
    yield from (sign + line for line in textwrap.wrap(text, WIDTH))


def _choices(annotation: object, value: object) -> str:
    """What may stand at a key, in words."""
    registry = registry_of(annotation)
    if registry is not None:
        return f". {registry.family}: {_names(registry)}"
    inner = {key: registry_of(hint) for key, hint in keys_of(annotation, value or {}).items()}
    return "".join(f". {key}: {_names(registry)}" for key, registry in inner.items() if registry is not None)


def _names(registry: Registry[Plugin]) -> str:
    return " | ".join(registry)
