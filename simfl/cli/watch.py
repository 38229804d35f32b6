"""``simfl watch``"""

from pathlib import Path
from threading import Event

import click

from simfl.cli.shared import ResultsPath


@click.command("watch")
@click.argument("folder", metavar="DIR", type=ResultsPath())
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Port of the page.")
@click.option("--terminal", is_flag=True, help="Show it in the terminal instead of on a page.")
def command(folder: Path, port: int, terminal: bool) -> None:
    """Watch a run, a sweep or a comparison while it is running.

    DIR is its folder. The page is for this machine only (127.0.0.1). Ctrl-C ends the watching, never the run.
    """
    from simfl.report.live.watched_folder import WatchedFolder

    watched = WatchedFolder(folder)
    watched.look()  # says at once that there is nothing
    try:
        if terminal:
            from simfl.report.live.terminal import follow

            follow(watched)
        else:
            from simfl.report.live.page_server import ADDRESS, serve_page

            with serve_page(watched, port) as server:
                click.echo(f"http://{ADDRESS}:{server.server_port}/  (Ctrl-C ends the watching)")
                Event().wait()
    except KeyboardInterrupt:
        click.echo("stopped watching", err=True)
