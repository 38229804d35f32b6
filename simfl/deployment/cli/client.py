"""Be a client of simfl serve, perhaps a slow one."""

from dataclasses import replace
from pathlib import Path

import click

from simfl.deployment.cli.serve import read_token
from simfl.plugins.commands import amount


@click.command("client", short_help=__doc__)
@click.argument("address")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              required=True, help="The project's token, as for simfl serve.")  # fmt: skip
@click.option("--slot", type=click.IntRange(min=0), metavar="CLIENT",
              help="The client to be; by default the first that nobody is.")  # fmt: skip
@click.option("--name", default="", help="What the process is called where the run is watched.")
@click.option("--throttle", metavar="FILE.csv|COLUMN=NUMBER,...",
              help="Be as slow as a row of device profiles: samples_per_s, work_sigma, down_bytes_per_s, "
                   "up_bytes_per_s, latency_s.")  # fmt: skip
def command(address: str, token_file: Path, slot: int | None, name: str, throttle: str | None) -> None:
    """Join the run at ADDRESS (simfl serve) as one client, and train its jobs until the run has ended.

    It trains by simfl's own local training on the samples that the scenario gives the client, which must be here, too.
    With --throttle it is slower than this machine: its line lets a token bucket's bytes through, and its work is
    waited for, in proportion to its samples. The results of the run do not depend on that; job_times.csv does.
    """
    from simfl.deployment.remote.client import join
    from simfl.deployment.remote.throttle import parse_throttle

    if throttle is not None:
        parse_throttle(throttle, slot or 0)  # what is wrong is said before anybody is asked
    client = join(address, read_token(token_file), name, slot)
    if throttle is not None:
        client = replace(client, throttle=parse_throttle(throttle, client.slot))
    train, done = client.local_training(), 0
    click.echo(f"client {client.slot}: joined {client.project['name']}", err=True)
    for job in client.jobs():
        delta, loss = train(job, client.model(job))
        client.pretend_work(job, train.samples(job))
        client.send(job, delta, loss)
        done += 1
    click.echo(f"client {client.slot}: {amount(done, 'update')}")
