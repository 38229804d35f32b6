"""``simfl report``"""

import re
from pathlib import Path

import click

from simfl.cli.shared import ResultsPath, figure_plugin_option, load_plugins
from simfl.core.json_data import number_of


class AccuracyMargin(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A difference of accuracies: ``1 point``, ``0.5``."""

    name = "POINTS"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> float:
        points = number_of(re.sub(r"\s*points?$", "", str(value).strip()), 0.0)
        if not 0 < points <= 100:
            self.fail(f"{value!r} is no number of points above 0 and up to 100, such as '1 point'", parameter, context)
        return points / 100


@click.command("report")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=ResultsPath())
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Where the page goes.  [default: report.html in DIR, or here if there are several]")  # fmt: skip
@click.option("--margin", type=AccuracyMargin(), default="1 point", show_default=True,
              help="Loss of accuracy that does not matter: nothing is recommended that may lose more.")  # fmt: skip
@figure_plugin_option
def command(folders: tuple[Path, ...], output: Path | None, margin: float, plugins: tuple[Path, ...]) -> None:
    """Write one self-contained HTML page about a run, a sweep or a comparison.

    DIR is the folder of a run, of a sweep or a comparison, or one that holds runs. Several are taken together.
    """
    from simfl.report import write
    from simfl.report.plugin_figures import missing_figures_hint, unreadable_plugins
    from simfl.report.study_reader import read_study
    from simfl.results.file_names import refuse_result_files

    target = output or (folders[0] if len(folders) == 1 else Path()) / "report.html"
    refuse_result_files(target)
    load_plugins(plugins)
    study = read_study(folders)
    for note in (unreadable_plugins(study), missing_figures_hint(study)):
        if note:
            click.echo(note, err=True)
    write(study, target, margin)
    click.echo(f"{target}  {target.stat().st_size / 1e6:.2f} MB")
