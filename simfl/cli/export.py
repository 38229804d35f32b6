"""``simfl export``"""

from pathlib import Path

import click

from simfl.cli.shared import ResultsPath, as_json, check_latex, print_json, write_latex


@click.command("export")
@click.argument("directory", type=ResultsPath(exists=True))
@click.option("--parquet", is_flag=True, help="Every table as Parquet, beside it (extra: parquet).")
@click.option("--tensorboard", is_flag=True, help="Curves of all runs, in DIRECTORY/tensorboard (extra: tensorboard).")
@click.option("--rounds", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="All rounds of all runs as one table, a row a run and round with the keys that vary; FILE ends in "
              ".csv or .parquet.")  # fmt: skip
@click.option(
    "--latex",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Means as a LaTeX table (booktabs), a row a configuration.",
)
@click.option("--columns", metavar="NAME,NAME,...", default="", help="Which columns --latex has; default: all that "
              "differ.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write into this folder instead.")
@as_json
def command(
    directory: Path, parquet: bool, tensorboard: bool, rounds: Path | None, latex: Path | None, columns: str,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Write the results of a run, a sweep or a comparison in other programs' formats."""
    if not (parquet or tensorboard or rounds or latex):
        raise click.UsageError("choose --parquet, --tensorboard, --rounds FILE or --latex FILE, or several of them")
    check_latex(latex)
    written: list[Path] = []
    if latex is not None:
        write_latex(directory, latex, tuple(filter(None, columns.split(","))))
        written.append(latex)
    if rounds is not None:
        from simfl.results.export.parquet import export_rounds

        written += export_rounds(directory, rounds)
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
