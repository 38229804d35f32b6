"""``simfl export``"""

from pathlib import Path

import click

from simfl.cli.shared import ResultsPath, as_json, check_latex, print_json, sort_option, values_by_key, write_latex


@click.command("export")
@click.argument("directory", type=ResultsPath(exists=True))
@click.option("--parquet", is_flag=True, help="Every table as Parquet, beside it (extra: parquet).")
@click.option("--tensorboard", is_flag=True, help="Curves of all runs, in DIRECTORY/tensorboard (extra: tensorboard).")
@click.option("--rounds", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="All rounds of all runs as one table, a row a run and round with the keys that vary; FILE ends in "
              ".csv or .parquet.")  # fmt: skip
@click.option("--latex", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Means as a LaTeX table (booktabs), a row a configuration.")  # fmt: skip
@click.option("--columns", metavar="NAME,NAME,...", default="", help="Which columns --latex has; default: all that "
              "differ. With --rows: keys whose values are the columns.")  # fmt: skip
@click.option("--rows", metavar="KEY,KEY,...", default="", help="Make a table of one number, --cell: a row for each "
              "value of these keys, a column for each value of --columns; printed as CSV, or for --latex.")  # fmt: skip
@click.option("--cell", metavar="NAME", help="The number of such a table, e.g. test_accuracy.")
@click.option("--where", multiple=True, metavar="KEY=VALUE", help="Of what else varies, this value only.")
@sort_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write into this folder instead.")
@as_json
def command(
    directory: Path, parquet: bool, tensorboard: bool, rounds: Path | None, latex: Path | None, columns: str, rows: str,
    cell: str | None, where: tuple[str, ...], sort: str | None, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Write the results of a run, a sweep or a comparison in other programs' formats."""
    if rows or cell or where:
        if not (rows and cell and columns) or parquet or tensorboard or rounds or sort:
            raise click.UsageError("a table of keys needs --rows, --columns and --cell, and goes with --latex only")
        check_latex(latex)
        _pivot(directory, [part.split(",") for part in (rows, columns)], cell, where, latex)
        return
    if not (parquet or tensorboard or rounds or latex):
        raise click.UsageError("choose --parquet, --tensorboard, --rounds FILE or --latex FILE, or several of them")
    if sort and latex is None:
        raise click.UsageError("--sort orders the rows of --latex")
    check_latex(latex)
    written: list[Path] = []
    if latex is not None:
        write_latex(directory, latex, tuple(filter(None, columns.split(","))), sort)
        written.append(latex)
    if rounds is not None:
        from simfl.results.export import export_rounds

        written += export_rounds(directory, rounds)
    if parquet:
        from simfl.results.export import export_tables

        written += export_tables(directory, out or directory)
    if tensorboard:
        from simfl.results.export import export_events

        written += export_events(directory, out or directory / "tensorboard")
    if as_json:
        print_json([str(path) for path in written])
    else:
        for path in written:
            click.echo(path)


def _pivot(directory: Path, keys: list[list[str]], cell: str, where: tuple[str, ...], latex: Path | None) -> None:
    from simfl.core.storage.disk import write_atomically
    from simfl.report.study_reader import read_study
    from simfl.report.study_tables import latex_pivot, pivot

    study = read_study([directory])
    down, across = keys
    table = pivot(study, down, across, cell, values_by_key(where), percent=latex is not None)
    if latex is None:
        click.echo(table.to_csv(), nl=False)
    else:
        write_atomically(latex, latex_pivot(study, table, cell).encode())
        click.echo(latex)
