"""A figure of a plugin file works in ``simfl plot`` and ``simfl report``, or is refused in one line that says how."""

import sys

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as command
from simfl.report.figures import FIGURES
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it

FIGURE = """
from pandas import DataFrame
from simfl.plugins.figures import figure, style


@figure("rounds_played", "Rounds played", "Time")
def rounds_played(study):
    '''Rounds of each group.'''
    table = DataFrame([(group.label, len(group.first.rounds)) for group in study.groups], columns=["group", "rounds"])
    fig, ((axes,),) = style.figure()
    axes.bar(table["group"], table["rounds"])
    return fig, table
"""
SMALL = """\
name: small
clients: 4
selection: all
training: {name: fedavg, rounds: 3}
learning: none
plugins: [figures.py]
"""


def simfl(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.fixture
def played(tmp_path, monkeypatch, forgotten):  # noqa: F811
    """A folder with the results of a scenario that names the file of a figure, which no longer is registered."""
    monkeypatch.chdir(tmp_path)
    before, loaded = dict(FIGURES), set(sys.modules)
    (tmp_path / "figures.py").write_text(FIGURE)
    (tmp_path / "small.yaml").write_text(SMALL)
    assert simfl("run", "small.yaml", "--out", "r").exit_code == 0
    forget(before, loaded)
    yield tmp_path
    forget(before, loaded)


def forget(before, loaded):
    for name in FIGURES.keys() - before.keys():
        del FIGURES[name]
    for name in [name for name in sys.modules if name.startswith("simfl_plugin_") and name not in loaded]:
        del sys.modules[name]


def test_with_plugin_both_commands_draw_it(played):
    assert simfl("plot", "r", "--figure", "rounds_played", "-o", "x.svg", "--plugin", "figures.py").exit_code == 0
    assert (played / "x.csv").read_text().splitlines() == ["group,rounds", "small,3"]
    assert simfl("report", "r", "-o", "x.html", "--plugin", "figures.py").exit_code == 0
    assert "Rounds of each group." in (played / "x.html").read_text()


def test_without_it_one_line_says_how(played):
    done = simfl("plot", "r", "--figure", "rounds_played", "-o", "x.svg")
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    hint = "plugin files that the results name are not executed (figures.py); --plugin FILE adds the figures of a file"
    assert done.stderr.startswith("no figure 'rounds_played'") and done.stderr.endswith(f"; {hint}\n")
    done = simfl("report", "r", "-o", "x.html")
    assert done.exit_code == 0 and done.stderr == f"{hint}\n"
    assert "Rounds of each group." not in (played / "x.html").read_text()


def test_a_file_that_was_executed_is_not_said_to_be_left_out(played):
    done = simfl("plot", "r", "--figure", "round_played", "-o", "x.svg", "--plugin", "figures.py")
    assert done.exit_code == 2 and "did you mean 'rounds_played'?" in done.stderr and "not executed" not in done.stderr


def test_a_figure_that_gives_no_table_is_named(played):
    (played / "figures.py").write_text(FIGURE.replace("return fig, table", "return fig"))
    for arguments in (["plot", "--figure", "rounds_played", "-o", "x.svg"], ["report", "-o", "x.html"]):
        done = simfl(arguments[0], "r", *arguments[1:], "--plugin", "figures.py")
        message = "figure 'rounds_played': its function must give (figure, table), not NotebookFigure\n"
        assert (done.exit_code, done.stderr) == (1, message)
