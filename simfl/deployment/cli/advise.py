"""Find the policy that exposes nobody else and loses the fewest rounds, and say how to deploy it."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simfl.deployment.cli.forecast import horizon_of, parts_folder
from simfl.deployment.cli.log_options import log_options
from simfl.plugins.commands import SimflError, as_json, print_json

if TYPE_CHECKING:
    from simfl.deployment.audit.log_columns import LogOptions
    from simfl.deployment.forecasting.policy_advice import PolicyAdvice


@click.command("advise")
@click.argument("participation")
@as_json
@click.option("--horizon", metavar="ROUNDS|DAYSd", help="Coming rounds, or days such as 30d; as many as the log has.")
@click.option("--futures", type=click.IntRange(min=2), default=100, show_default=True, help="Futures of each policy.")
@click.option("--target", metavar="SHARE", default="95%", show_default=True, help="Of futures that expose nobody else.")
@click.option(
    "--grid", metavar="POLICY", multiple=True, help="A policy to look at, not the listed ones; may be given 11 times."
)
@click.option("--policy", metavar="POLICY", help="The log's own policy, where it is not recognised.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Decides every draw.")
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True, help="How many work at once.")
@log_options
@click.option("-o", "--output", metavar="FOLDER", type=click.Path(path_type=Path),
              help="Write policies.csv and deploy.py there; an interrupted advice continues from it.")  # fmt: skip
def command(
    participation: str,
    as_json: bool,
    horizon: str | None,
    futures: int,
    target: str,
    grid: tuple[str, ...],
    policy: str | None,
    seed: int,
    processes: int,
    log_options: "LogOptions",
    output: Path | None,
) -> None:
    """Find the policy that exposes nobody else and loses the fewest rounds, and say how to deploy it.

    PARTICIPATION is a log as for `simfl audit`. Many futures are simulated from its end under the log's own policy and
    under batches, half-batches, groups and guards; the three best are printed, with how sure that is.
    """
    from simfl.deployment.forecasting.advice_text import text
    from simfl.deployment.forecasting.forecast_result import rounds_ahead
    from simfl.deployment.forecasting.past import read_past

    past = read_past(participation, log_options)
    rounds = rounds_ahead(past, *horizon_of(horizon))
    settings = {"horizon": rounds, "futures": futures, "target": _share(target), "policy": policy, "seed": seed,
                "processes": processes, "folder": parts_folder(output)}  # fmt: skip
    of = _simulate(past, grid, settings)
    click.echo(past.how_read, err=True)
    if output is not None:
        _write(of, output, participation, log_options)
    print_json(of.to_json()) if as_json else click.echo(text(of, participation, log_options))


def _simulate(past: Any, grid: tuple[str, ...], settings: dict[str, Any]) -> "PolicyAdvice":
    """Simulates all futures, with a bar that says how much time is left at most."""
    from simfl.deployment.forecasting.policy_advice import advise

    with ExitStack() as stack:

        def begin(policies: int) -> None:
            length = policies * settings["futures"]
            bars.append(stack.enter_context(click.progressbar(length=length, label="futures", file=sys.stderr)))

        bars: list[Any] = []
        return advise(past, grid, **settings, begin=begin, step=lambda ready: bars[0].update(ready))


def _write(of: "PolicyAdvice", folder: Path, log: str, options: "LogOptions") -> None:
    from simfl.api.files import write_atomically
    from simfl.deployment.forecasting.advice_text import deployment

    write_atomically(folder / "policies.csv", of.table().to_csv(index=False, lineterminator="\n").encode())
    written = [folder / "policies.csv"]
    (folder / "deploy.py").unlink(missing_ok=True)
    if (best := of.ranking()[:1]) and of.exposed_already < len(of.past.clients):
        lines = deployment(of, best[0], log, options)
        write_atomically(folder / "deploy.py", ("\n".join(lines) + "\n").encode())
        written.append(folder / "deploy.py")
    click.echo(f"Written: {', '.join(map(str, written))}", err=True)


def _share(text: str) -> float:
    """``95%`` or ``0.95``.

    Raises:
        SimflError: it is no share that can be shown.
    """
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0.5 <= value < 1:
        raise SimflError(f"--target {text}: no share of futures from 50% to below 100%, e.g. 95%")
    return value
