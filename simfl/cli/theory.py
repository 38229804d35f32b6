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
@click.option("--epsilon", type=float, help="Also say how much noise keeps every client at this epsilon.")
@click.option("--delta", type=float, default=1e-5, show_default=True, help="Of that epsilon.")
@as_json
def command(
    file: str,
    overrides: tuple[str, ...],
    plugins: tuple[Path, ...],
    epsilon: float | None,
    delta: float,
    as_json: bool,
) -> None:
    """Print what theory says about a scenario's selection policy, before any round is played.

    The size of its family of rows, its guarantee, and the expected cardinality under the scenario's dropout rates
    (Multi-RoundSecAgg, arXiv 2106.03328) and failures. With --epsilon, the noise multiplier (standard deviation of
    the Gaussian noise in a sum over the clip norm) for a client in every round, and for one in its share of them.
    """
    from simfl.selection.theory import theory

    scenario = load(file, overrides, plugins)
    known = theory(scenario)
    if epsilon is not None:
        known |= _noise(scenario, epsilon, delta, known["expected_cardinality"])
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
        click.echo(f"{name:<27}{shown}")
    if known["family_size_log10"] is None:
        click.echo(f"theory                     not known: {known['policy']} declares no family of rows")
    elif unknown := [name for name, value in known.items() if value is None and name not in OPTIONAL]:
        click.echo(f"not known                  {', '.join(unknown)}")


def _noise(scenario: Any, epsilon: float, delta: float, cardinality: float | None) -> dict[str, float]:
    """Noise multipliers; updates of weight 1, who takes part being known.

    Raises:
        SimflError: no noise gives such an epsilon, or the number of rounds is not known.
    """
    from simfl.errors import SimflError
    from simfl.privacy.replay import noise_multiplier

    if not epsilon > 0:
        raise SimflError(f"--epsilon {epsilon:g}: must be above 0")
    if not 0 < delta < 1:
        raise SimflError(f"--delta {delta:g}: must lie between 0 and 1; below {1 / scenario.clients:g} here")
    rounds = scenario.training.most_rounds
    if rounds is None:
        raise SimflError("training.rounds: is needed to say how much noise; the run has no known end")
    found = {"noise_multiplier_always": noise_multiplier(epsilon, delta, rounds)}
    if cardinality:
        found["expected_participations"] = rounds * cardinality / scenario.clients
        found["noise_multiplier_expected"] = noise_multiplier(epsilon, delta, found["expected_participations"])
    return found
