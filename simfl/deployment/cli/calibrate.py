"""Fit device profiles to the times of real clients' jobs."""

from dataclasses import asdict
from pathlib import Path

import click

from simfl.plugins.commands import SimflError, as_json, print_json

BANDWIDTH = click.FloatRange(1e-9, 1e15)


@click.command("calibrate", short_help=__doc__)
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.csv",
              help="Write the profiles here, for devices.profiles.")  # fmt: skip
@click.option("--drawn", "draw_devices", is_flag=True,
              help="Leave out the column client: clients of a scenario draw their devices from the rows.")  # fmt: skip
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
              show_default=True, help="Of the intervals.")  # fmt: skip
@click.option("--server-down", "down_bytes_per_s", type=BANDWIDTH, metavar="BYTES_PER_S",
              help="The server's own link, which all downloads shared; taken off the clients' lines.")  # fmt: skip
@click.option("--server-up", "up_bytes_per_s", type=BANDWIDTH, metavar="BYTES_PER_S",
              help="Likewise, of all uploads.")  # fmt: skip
@as_json
def command(
    log: Path,
    out: Path | None,
    draw_devices: bool,
    confidence: float,
    down_bytes_per_s: float | None,
    up_bytes_per_s: float | None,
    as_json: bool,
) -> None:
    """Fit a device profile, with intervals, to each client of LOG: job_times.csv, or the folder of a served run.

    It says what the log could not tell apart: latency and bandwidth where every message has one size, speed and a fixed
    time of each job where every job has one number of samples. Of a log without bytes it fits times only.
    """
    from simfl.api.files import refuse_result_files, write_atomically
    from simfl.deployment.remote.calibration import calibrate_shared, calibration_text, profiles_bytes
    from simfl.deployment.remote.job_times import read_job_times
    from simfl.plugins.network import ServerLink

    if out is not None:
        refuse_result_files(out)
        if not out.absolute().parent.is_dir():
            raise SimflError(f"{out}: there is no folder {out.parent}")
        if out.resolve() == log.resolve():
            raise SimflError(f"{out}: is the log itself; name another file")
    rows, silent = read_job_times(log)
    if not rows:
        raise SimflError(f"{log}: no job has durations of download, work and upload")
    for option, limit, name in (("down", down_bytes_per_s, "down_bytes"), ("up", up_bytes_per_s, "up_bytes")):
        if limit is not None and not any(getattr(row, name) for row in rows):
            raise SimflError(f"--server-{option}: {log} has no sizes in {name}, by which messages wait; leave it out")
    server = ServerLink(up_bytes_per_s=up_bytes_per_s, down_bytes_per_s=down_bytes_per_s)
    calibration = calibrate_shared(rows, server, confidence, silent)
    if out is not None:
        write_atomically(out, profiles_bytes(calibration, draw_devices))
        click.echo(f"Profiles: {out}", err=True)
    if as_json:
        print_json(asdict(calibration) | {"unresolved": calibration.unresolved})
    else:
        click.echo(calibration_text(calibration))
