"""``simfl theory``"""

from pathlib import Path
from typing import Any

import click

from simfl.cli.shared import as_json, load, print_json, scenario_arguments

__all__ = ["command"]

OPTIONAL = ("mode", "family_size", "left_out")
"""What may be missing though theory knows everything."""


@click.command("theory")
@scenario_arguments
@as_json
def command(file: str, overrides: tuple[str, ...], plugins: tuple[Path, ...], as_json: bool) -> None:
    """Print what theory says about a scenario's selection policy, before any round is played.

    The size of its family of rows, its guarantee, and the expected cardinality under the scenario's dropout rates
    (Multi-RoundSecAgg, arXiv 2106.03328) and failures. Then, for up to 150 clients, what a server recovers that solves
    the sums of so many rounds by least squares: the mean error of an update without noise, 1 - rank / clients, and by
    what the variance of noise in a sum is multiplied; medians of simulated rows, with everybody there.
    """
    from simfl.attacking.theory import windows
    from simfl.selection.theory import theory

    scenario = load(file, overrides, plugins)
    known = theory(scenario)
    seen = windows(scenario)
    if as_json:
        print_json(known | {"least_squares": seen})
        return
    for name, value in known.items():
        if value is None or value == []:
            continue
        if isinstance(value, list):
            value = ", ".join(value)
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<22}{shown}")
    if known["family_size_log10"] is None:
        click.echo(f"theory                not known: {known['policy']} declares no family of rows")
    elif unknown := [name for name, value in known.items() if value is None and name not in OPTIONAL]:
        click.echo(f"not known             {', '.join(unknown)}")
    _least_squares(seen)


def _least_squares(seen: list[dict[str, Any]]) -> None:
    if seen:
        click.echo("\nleast squares over   rank   error   noise times (90 %)")
    for row in seen:
        noise = f"{row['noise_amplification']:.3g} ({row['noise_amplification_90']:.3g})"
        click.echo(f"{row['rounds']:>7} rounds      {row['rank']:>6g} {row['error']:>7.3f}   {noise}")
