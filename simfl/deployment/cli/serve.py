"""Run a scenario with clients that are processes of their own."""

from pathlib import Path

import click

from simfl.plugins.commands import (
    ScenarioError,
    SimflError,
    load,
    out_option,
    say_how_to_watch,
    scenario_arguments,
    shown,
)

MAX_TOKEN_BYTES = 1000


@click.command("serve", short_help=__doc__)
@scenario_arguments
@out_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Port to listen at.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--insecure", is_flag=True, help="Listen also where the network is not this machine's own, in clear.")
@click.option("--name", "names", multiple=True, metavar="NAME",
              help="Another name or address by which clients reach this server; can be repeated.")  # fmt: skip
@click.option("--token-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The token that lets a process join; by default a new one is printed.")  # fmt: skip
@click.option("--timeout", "limit_s", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True,
              metavar="SECONDS", help="Real time that clients have for the jobs of one aggregation.")  # fmt: skip
@click.option("--replay", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="Take the updates from a finished run; no client is needed.")  # fmt: skip
@click.option("--force", is_flag=True, help="Run from the start, and ask for every update again.")
@click.option("-q", "--quiet", is_flag=True, help="Print only address, token and the results folder.")
def command(
    file: str,
    overrides: tuple[str, ...],
    plugins: tuple[Path, ...],
    out: Path,
    port: int,
    host: str,
    insecure: bool,
    names: tuple[str, ...],
    token_file: Path | None,
    limit_s: float,
    replay: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    """Run a scenario some of whose clients are processes of their own (learning.backend: external).

    They join over HTTP with the token that is printed, e.g. by simfl.deployment.remote.client. Time
    stays simulated; the run waits for their updates and keeps them, so that verify and --replay need no client. A
    client that does not deliver ends the run with exit code 3; the same command goes on with it.

    `simfl serve client ADDRESS` is such a client, and `simfl serve calibrate LOG` fits device profiles to their times.
    """
    from simfl.api.files import is_finished

    scenario = load(file, overrides, plugins)
    folder = out / scenario.name / scenario.digest
    token = None if token_file is None else read_token(token_file)
    if force or not is_finished(folder):
        say_how_to_watch(folder, quiet)
    try:
        with shown(quiet) as (progress, phase):
            from simfl.deployment.remote.job_server import serve

            finished = serve(scenario, out, token=token, host=host, port=port, insecure=insecure, names=names,
                             limit_s=limit_s, force=force, replay=replay, progress=progress, phase=phase,
                             ready=lambda at, by: click.echo(at if token_file else f"{at}  token {by}"))  # fmt: skip
    except ScenarioError as error:
        raise scenario.locate(error) from None
    if finished.reused:
        click.echo("these results were complete already; --force repeats the run", err=True)
    click.echo(str(finished.path) if quiet else f"{finished.path}  digest {finished.digest}")
    for note in () if quiet else scenario.notes:
        click.echo(f"{file}: note: {note}", err=True)


def read_token(file: Path) -> str:
    """The token in a file.

    Raises:
        SimflError: there is no token in it.
    """
    from simfl.api.files import open_regular

    with open_regular(file) as opened:
        token = opened.read(MAX_TOKEN_BYTES).decode(errors="replace").strip()
    if not (16 <= len(token) <= 200 and token.isascii() and token.isprintable() and " " not in token):
        raise SimflError(f"--token-file {file}: a token has 16 to 200 letters, digits and signs without spaces")
    return token
