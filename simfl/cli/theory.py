"""``simfl theory``"""

from pathlib import Path

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
    (Multi-RoundSecAgg, arXiv 2106.03328) and failures.
    """
    from simfl.selection.theory import theory

    known = theory(load(file, overrides, plugins))
    if as_json:
        print_json(known)
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
