"""``simfl report``"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command("report")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Where the page goes.  [default: report.html in DIR, or here if there are several]")  # fmt: skip
def command(folders: tuple[Path, ...], output: Path | None) -> None:
    """Write one self-contained HTML page about a run, a sweep or a comparison.

    DIR is the folder of a run, of a sweep or a comparison, or one that holds runs. Several are taken together.
    """
    from simfl.disk import write_atomically
    from simfl.report.page import page
    from simfl.report.reading import read_study
    from simfl.stored import refuse_own

    target = output or (folders[0] if len(folders) == 1 else Path()) / "report.html"
    refuse_own(target)
    study = read_study(folders)
    data = page(study).encode()
    write_atomically(target, data)
    click.echo(f"{target}  {len(data) / 1e6:.2f} MB")
