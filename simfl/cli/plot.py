"""``simfl plot``"""

from pathlib import Path

import click

from simfl.cli import completing
from simfl.cli.shared import ResultsPath, figure_plugin_option, load_plugins

WIDTHS_IN = {"column": 3.4, "page": 7.0}
"""Widths of one and of two columns of a paper, inches."""

FONTS = {"sans": {}, "serif": {"font_family": "STIXGeneral", "mathtext_fontset": "stix"}}


class _Figures(click.Command):
    """Lists the figures below the options."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from simfl.report.figures import figures

        with formatter.section("Figures"):
            formatter.write_dl([(kind.name, kind.title) for kind in figures()])


@click.command("plot", cls=_Figures)
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=ResultsPath())
@click.option("--figure", "name", required=True, metavar="NAME", help="Which figure.",
              shell_complete=completing.figures)  # fmt: skip
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="A .pdf, .svg or .png file; the data go to FILE.csv beside it.")  # fmt: skip
@figure_plugin_option
@click.option("--width", type=click.Choice(list(WIDTHS_IN)), help="One column (3.4 in) or the page (7 in) of a paper.")
@click.option("--font", type=click.Choice(list(FONTS)), default="sans", show_default=True, help="Letters.")
def command(
    folders: tuple[Path, ...], name: str, output: Path, plugins: tuple[Path, ...], width: str | None, font: str
) -> None:
    """Draw one figure of a run, a sweep or a comparison into a file.

    The same results give the same bytes.
    """
    from simfl.report import draw, style
    from simfl.report.saving import save
    from simfl.results.file_names import refuse_result_files

    refuse_result_files(output, output.with_suffix(".csv"))
    load_plugins(plugins)
    size = {"figure_figsize": (WIDTHS_IN[width], WIDTHS_IN[width])} if width else {}
    fig, table = draw(name, folders, **FONTS[font], **size)
    with style.settings(**FONTS[font]):
        for path in save(fig, table, output):
            click.echo(str(path))
