"""Keys and plugins of simfl as people mistype them, and what a message proposes for a word."""

import re

from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.fields import keys_of, registry_of

BASE = """\
clients: 40
network: {name: star, latency_s: 0.1}
devices: {availability: {name: bernoulli, dropout: 0.2}}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 10}
learning: {data: digits, model: logistic}
"""
DEEPEST = 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def homes(annotation=Scenario, path=(), choices=()):
    """Each place with keys: its path, the plugins chosen on the way ((path, name), ...), and its keys."""
    registry = registry_of(annotation)
    for name in registry or (None,):
        inside = (*choices, (path, name)) if name else choices
        keys = keys_of(annotation, {"name": name} if name else {})
        if keys:
            yield path, inside, keys
        if len(path) < DEEPEST and not (name and path[:1] != ("learning",) and len(path) > 1):
            for key, hint in keys.items():
                if keys_of(hint, {}) or registry_of(hint):
                    yield from homes(hint, (*path, key), inside)


def misspelt(word, rng):
    """The word with one slip of the fingers, drawn by a numpy Generator."""
    i = rng.integers(len(word))
    match rng.integers(5):
        case 0:
            slip = word[:i] + word[i + 1 :]
        case 1:
            slip = word[:i] + word[i] + word[i:]
        case 2:
            slip = word[:i] + rng.choice(list(LETTERS)) + word[i + 1 :]
        case 3:
            slip = word[:i] + word[i : i + 2][::-1] + word[i + 2 :]
        case _:
            slip = word[:i] + rng.choice(list(LETTERS)) + word[i:]
    return slip


def message(overrides, about, text=BASE):
    """What is said about a key; nothing where the overrides are valid."""
    try:
        Scenario.parse(text, "mine.yaml", overrides)
    except InvalidScenario as error:
        lines = str(error).splitlines()
        return next((line for line in lines if f": {about}: " in line or line.startswith(f"override {about}")), "")
    return ""


def proposals(line):
    """What a message proposes: the texts in quotes behind "did you mean"."""
    return re.findall(r"'([^']+)'", line.partition("; did you mean ")[2].partition("?")[0])


def chosen(choices):
    """Overrides that choose the plugins."""
    return [f"{'.'.join(path)}={name}" for path, name in choices]


def places():
    """Each place at which a plugin may stand, with its registry."""
    known = {}
    for path, choices, keys in homes():
        for key, hint in keys.items():
            if (registry := registry_of(hint)) is not None:
                known.setdefault((*path, key), (choices, registry))
    return known
