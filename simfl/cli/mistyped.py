"""What was perhaps meant by a command or an option that simfl does not have."""

from collections.abc import Iterable
from pathlib import Path

from simfl.core.errors import nearest

COMMANDS_ELSEWHERE = {
    "check": "validate",
    "config": "show",
    "create": "new",
    "dashboard": "watch",
    "delete": "rm",
    "draw": "plot",
    "help": "--help",
    "init": "new",
    "launch": "run",
    "lint": "validate",
    "multirun": "sweep",
    "optimise": "search",
    "optimize": "search",
    "plugins": "list",
    "remove": "rm",
    "results": "ls",
    "runs": "ls",
    "scenarios": "list scenarios",
    "simulate": "run",
    "start": "run",
    "train": "run",
    "tune": "search",
    "version": "--version",
}
"""What other programs call a command."""

OPTIONS_ELSEWHERE = {
    "-m": ("simfl sweep",),
    "--multirun": ("simfl sweep",),
    "--n-jobs": ("--jobs", "--processes"),
    "--n-trials": ("--runs", "--replications"),
    "--seeds": ("--replications",),
    "--trials": ("--runs", "--replications"),
    "--workers": ("--jobs", "--processes"),
}
"""What other programs call an option: options here, of which a command has one or none, or another command."""


def command_meant(word: str, commands: Iterable[str]) -> str | None:
    """The command, or the whole line, that an unknown command may have meant: ``simfl start``, ``simfl mine.yaml``."""
    if word in COMMANDS_ELSEWHERE:
        return COMMANDS_ELSEWHERE[word]
    from simfl.scenario.builtin import SUFFIXES, builtins

    if word in builtins() or Path(word).suffix in SUFFIXES:
        return f"simfl run {word}"
    return nearest(word, commands)


def key_meant(option: str) -> str | None:
    """The key of a scenario that an unknown option names: ``--rounds`` is ``training.rounds``."""
    from simfl.scenario import Scenario
    from simfl.scenario.fields import key_homes, keys_of
    from simfl.scenario.messages.suggestions import ALSO_CALLED, same_name
    from simfl.scenario.yaml.places import dotted_key

    word = option.lstrip("-").replace("-", "_")
    if (key := same_name(word, keys_of(Scenario, {}))) is not None:
        return key
    for name in (word, *ALSO_CALLED.get(word.replace("_", ""), ())):
        homes = sorted((home for home, _ in key_homes(Scenario, name)), key=len)
        if homes:
            return dotted_key((*homes[0], name))
    return None
