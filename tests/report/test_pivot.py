"""One number of a study by two kinds of keys: means by hand, and what else varies must be said."""

import csv
import io
import re

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl

pytestmark = pytest.mark.usefixtures("sweeps_here")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("pivot")
    words = ("sweep quickstart selection=random,batch_partition:T=4 devices.availability.dropout=0.1,0.4 "
             "selection.k=4,8 learning=none training.rounds=4 --replications 3 --jobs 1 -q --out").split()  # fmt: skip
    done = CliRunner().invoke(simfl, [*words, str(out)])
    assert done.exit_code == 0, done.output
    (folder,) = out.glob("quickstart/sweep-*")
    with open(folder / "index.csv", newline="") as file:
        return folder, list(csv.DictReader(file))


def export(folder, *words):
    return CliRunner().invoke(simfl, ["export", str(folder), *words])


def test_cells_are_the_means_of_their_runs(swept):
    folder, runs = swept
    words = "--rows selection,selection.k --columns dropout --cell mean_cardinality".split()
    done = export(folder, *words)
    assert done.exit_code == 0, done.output
    head, *rows = csv.reader(io.StringIO(done.output))
    assert head == ["", "0.1", "0.4"] and len(rows) == 4
    for name, *cells in rows:
        policy, k = name.rsplit(", ", 1)
        for dropout, cell in zip(head[1:], cells, strict=True):
            keys = ("selection", "selection.k", "devices.availability.dropout")
            mine = [run for run in runs if tuple(run[key] for key in keys) == (policy, k, dropout)]
            values = [float(run["mean_cardinality"]) for run in mine]
            assert len(values) == 3 and float(cell.split(" ")[0]) == pytest.approx(np.mean(values), rel=1e-3)


def test_the_same_for_latex_and_of_one_value_of_what_else_varies(swept, tmp_path):
    folder, _ = swept
    words = "--rows selection --columns dropout --cell time_s --where selection.k=8".split()
    assert export(folder, *words).exit_code == 0
    done = export(folder, *words, "--latex", str(tmp_path / "table.tex"))
    assert done.exit_code == 0, done.output
    text = (tmp_path / "table.tex").read_text()
    assert "Simulated time, s, mean over 3 seeds" in text and text.count(r"\\") == 3
    cells = re.findall(r"batch\\_partition.*", text)[0].split("&")
    assert len(cells) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rows selection --columns dropout --cell time_s", "selection.k varies, too"),
        ("--rows selection --columns dropout --cell time", "did you mean"),
        ("--rows selektion --columns dropout --cell time_s", "did you mean 'selection'"),
        ("--rows selection --columns dropout --cell time_s --where selection.k=5", "has no value '5'"),
        ("--rows selection --cell time_s", "needs --rows, --columns and --cell"),
        ("--rows selection --columns dropout --cell time_s --where k", "give KEY=VALUE"),
    ],
)
def test_what_does_not_fit_is_one_line(swept, words, said):
    done = export(swept[0], *words.split())
    assert done.exit_code == 2 and said in done.output and "Traceback" not in done.output


def test_a_figure_by_keys_has_the_means_in_its_table(swept, tmp_path):
    """Dropouts along x, a colour for each policy, a panel for each k; and one measure against another."""
    folder, runs = swept
    words = f"plot {folder} --y mean_cardinality --x dropout --color selection --panels selection.k -o"
    done = CliRunner().invoke(simfl, [*words.split(), str(tmp_path / "a.svg")])
    assert done.exit_code == 0, done.output
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 and {row["panel"] for row in rows} == {"4", "8"}
    for row in rows:
        keys = ("selection.k", "selection", "devices.availability.dropout")
        mine = [run for run in runs if tuple(run[key] for key in keys) == (row["panel"], row["color"], row["x"])]
        values = {int(run["seed"]): float(run["mean_cardinality"]) for run in mine}
        assert float(row["y"]) == pytest.approx(np.mean([*values.values()])) and row["seeds"] == "3"
        assert all(float(row[f"y_seed_{seed}"]) == pytest.approx(value) for seed, value in values.items())
    words = f"plot {folder} --y time_s --x mean_cardinality --where dropout=0.4 --where selection.k=8 -o"
    done = CliRunner().invoke(simfl, [*words.split(), str(tmp_path / "b.svg")])
    assert done.exit_code == 0, done.output
    with open(tmp_path / "b.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["color"] for row in rows] == ["batch_partition:T=4", "random"] and all(float(r["x"]) > 0 for r in rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--y time_s", "give --figure NAME, or --x and --y"),
        ("--figure effect --x dropout --y time_s", "give --figure NAME, or --x and --y"),
        ("--y time_s --x dropuot", "no column 'dropuot'"),
        ("--y tim_s --x dropout", "did you mean 'time_s'"),
        ("--y time_s --x dropout --color clients", "does not vary"),
        ("--y time_s --x dropout --color selection", "selection.k varies, too"),
        ("--y time_s --x dropout --where selection.k=5", "has no value '5'"),
    ],
)
def test_a_figure_of_what_is_not_there_is_one_line(swept, tmp_path, words, said):
    done = CliRunner().invoke(simfl, ["plot", str(swept[0]), *words.split(), "-o", str(tmp_path / "x.svg")])
    assert done.exit_code == 2 and said in done.output and not (tmp_path / "x.svg").exists()
