"""``simfl plot``"""

from pathlib import Path

import click

from simfl.api.functions import FONTS, WIDTHS_IN, plot
from simfl.cli import completing
from simfl.cli.shared import ResultsPath, figure_plugin_option, load_plugins, values_by_key


class _Figures(click.Command):
    """Lists the figures below the options."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from simfl.report.figures import figures

        with formatter.section("Figures"):
            formatter.write_dl([(kind.name, kind.title) for kind in figures()])


@click.command("plot", cls=_Figures)
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=ResultsPath())
@click.option("--figure", "name", metavar="NAME", help="Which figure.", shell_complete=completing.figures)
@click.option("--y", metavar="MEASURE", help="Instead of a named figure: this measure, e.g. test_accuracy, ...")
@click.option(
    "--x", metavar="KEY", help="... against a key that varies, another measure, or for curves 'round' or 'time'."
)
@click.option("--color", "colors", metavar="KEY,...", default="", help="Keys told by colours; default: all others.")
@click.option("--panels", metavar="KEY,...", default="", help="Keys with a panel for each value.")
@click.option("--where", multiple=True, metavar="KEY=VALUE", help="Of what varies, this value only.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="A .pdf, .svg or .png file; the data go to FILE.csv beside it.")  # fmt: skip
@figure_plugin_option
@click.option("--width", type=click.Choice(list(WIDTHS_IN)), help="One column (3.4 in) or the page (7 in) of a paper.")
@click.option("--font", type=click.Choice(list(FONTS)), default="sans", show_default=True, help="Letters.")
def command(
    folders: tuple[Path, ...], name: str | None, y: str | None, x: str | None, colors: str, panels: str,
    where: tuple[str, ...], output: Path, plugins: tuple[Path, ...], width: str | None, font: str,
) -> None:  # fmt: skip
    """Draw one figure of a run, a sweep or a comparison into a file.

    The same results give the same bytes.
    """
    if (name is None) == (x is None or y is None) or (name and (x or y or colors or panels or where)):
        raise click.UsageError("give --figure NAME, or --x and --y")
    from simfl.results.file_names import refuse_result_files

    refuse_result_files(output, output.with_suffix(".csv"))
    load_plugins(plugins)
    plot(
        folders, name, y=y, x=x, color=_keys(colors), panels=_keys(panels), where=values_by_key(where), output=output,
        width=width, font=font,
    )  # fmt: skip
    for path in (output, output.with_suffix(".csv")):
        click.echo(str(path))


def _keys(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))
