"""``simfl attack``"""

import re
from collections.abc import Mapping
from math import isnan
from pathlib import Path

import click

from simfl.cli.shared import ResultsPath, as_json, print_json, trusting_plugins
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject

LIRA = "lira"
"""Runs scenarios rather than looking on, so that it is no plugin."""


@click.command("attack")
@click.argument("folder", type=ResultsPath())
@click.argument("name")
@click.argument("overrides", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--rounds", metavar="FIRST:STOP", help="Rounds FIRST .. STOP - 1 only; either may be left out.")
@click.option("--shadows", type=click.IntRange(min=16), default=16, show_default=True, help="Of lira: federations.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Of lira: processes.")
@trusting_plugins
@as_json
def command(
    folder: Path,
    name: str,
    overrides: tuple[str, ...],
    rounds: str | None,
    shadows: int,
    jobs: int,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Attack a finished run with what its server saw.

    FOLDER is the results folder of a run made with trace=aggregates; NAME one of `simfl list attack`. The truth that
    the attack is measured against is trained anew: by all clients, from the model in the middle of the window.

    NAME lira is the likelihood-ratio attack on the final model: it runs the scenario again with other data, as often
    as there are shadows, and needs no recorded sums.
    """
    if name == LIRA:
        from simfl.experiments.attack.after_run import likelihood

        scores = {
            kind: each.numbers
            for kind, each in likelihood(folder, shadows, jobs=jobs, trust_plugins=trust_plugins).items()
        }
        document: JsonObject = {"shadows": shadows, "findings": scores}
        numbers = {f"{kind} {key}": value for kind, each in scores.items() for key, value in each.items()}
        title = f"{name}: {shadows} shadow federations"
    else:
        from simfl.experiments.attack.after_run import attack

        replayed = attack(folder, name, overrides, *_window(rounds), trust_plugins=trust_plugins)
        document, numbers = replayed.to_json(), {**replayed.errors, **replayed.finding.numbers}
        window = f"rounds {replayed.first} to {replayed.last}, {replayed.aggregations} aggregations"
        title = f"{name}: {window}; truth trained from the model before round {replayed.middle}"
    if as_json:
        print_json(_without_nan(document))
        return
    click.echo(title)
    for key, value in numbers.items():
        click.echo(f"{key:<40}{'too few samples' if isnan(value) else f'{value:.6g}'}")


def _without_nan(value: object) -> object:
    """null for numbers that were not measured."""
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and value != value else value


def _window(text: str | None) -> tuple[int, int | None]:
    """``100:150`` as (100, 150)."""
    if text is None:
        return 0, None
    if not (window := re.fullmatch(r"(\d{0,9}):(\d{0,9})", text)):
        raise SimflError(f"--rounds: '{text}' is no FIRST:STOP, e.g. 100:150")
    first, stop = window.groups()
    return int(first or 0), int(stop) if stop else None
