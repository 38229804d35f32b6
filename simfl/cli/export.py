"""``simfl export``"""

from pathlib import Path

import click

from simfl.cli.shared import ResultsPath, as_json, print_json


@click.command("export")
@click.argument("directory", type=ResultsPath(exists=True))
@click.option("--parquet", is_flag=True, help="Every table as Parquet, beside it (extra: parquet).")
@click.option("--tensorboard", is_flag=True, help="Curves of all runs, in DIRECTORY/tensorboard (extra: tensorboard).")
@click.option("--rounds", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="All rounds of all runs as one table, a row a run and round with the keys that vary; FILE ends in "
              ".csv or .parquet.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write into this folder instead.")
@as_json
def command(
    directory: Path, parquet: bool, tensorboard: bool, rounds: Path | None, out: Path | None, as_json: bool
) -> None:
    """Write the results of a run, a sweep or a comparison in other programs' formats."""
    if not (parquet or tensorboard or rounds):
        raise click.UsageError("choose --parquet, --tensorboard or --rounds FILE, or several of them")
    written: list[Path] = []
    if rounds is not None:
        from simfl.results.export import all_rounds

        written += all_rounds.export(directory, rounds)
    if parquet:
        from simfl.results.export import parquet as to_parquet

        written += to_parquet.export(directory, out or directory)
    if tensorboard:
        from simfl.results.export import tensorboard as to_tensorboard

        written += to_tensorboard.export(directory, out or directory / "tensorboard")
    if as_json:
        print_json([str(path) for path in written])
    else:
        for path in written:
            click.echo(path)
