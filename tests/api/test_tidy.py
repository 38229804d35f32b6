"""All rounds of many runs as one table, and results shown in notebooks."""

from html.parser import HTMLParser

import pandas
import pytest
from click.testing import CliRunner

import simfl as api
from simfl.cli import simfl
from simfl.core.column_files import columns_by_name
from simfl.report.study_reader import read_study
from simfl.results.run_files import as_printed

pytestmark = pytest.mark.usefixtures("sweeps_here")


TEXT = """
name: tidy
clients: 8
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 3}
learning: none
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tidy") / "tidy.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def swept(file):
    return api.sweep(file, {"selection.k": [1, 2], "training.rounds": [2, 4]}, replications=2, out=file.parent / "out",
                     progress=False, jobs=1)  # fmt: skip


@pytest.fixture(scope="module")
def compared(file):
    return api.compare(file, {"selection": ["random", "weighted"]}, replications=2, out=file.parent / "out",
                       progress=False, jobs=1)  # fmt: skip


def test_a_row_a_run_and_round_with_its_axes(swept):
    rounds = swept.rounds()
    assert list(rounds.columns[:5]) == ["digest", "selection.k", "training.rounds", "seed", "round"]
    assert len(rounds) == 2 * 2 * (2 + 4)
    for digest, mine in rounds.groupby("digest"):
        result = swept.result(digest)
        assert set(mine["selection.k"]) == {result.scenario.selection.k} and set(mine.seed) == {result.scenario.seed}
        table = mine[result.rounds.columns].reset_index(drop=True)
        pandas.testing.assert_frame_equal(table, result.rounds, check_dtype=False)


def test_a_comparison_names_its_choices(compared):
    rounds = compared.rounds()
    assert list(rounds.columns[:2]) == ["choice", "digest"] and len(rounds) == 2 * 2 * 3
    assert (rounds.choice == rounds.selection).all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_file_for_other_programs(swept, compared, tmp_path, kind):
    pytest.importorskip("pyarrow")
    read = pandas.read_csv if kind == "csv" else pandas.read_parquet
    for result in (swept, compared, swept.result(swept.runs.digest[0])):
        target = tmp_path / "all" / f"rounds.{kind}"
        done = CliRunner().invoke(simfl, ["export", str(result.path), "--rounds", str(target)])
        assert done.exit_code == 0 and done.output.strip() == str(target), done.output
        found = read(target)
        expected = result.rounds() if result is swept else None
        if expected is not None:
            pandas.testing.assert_frame_equal(found, expected, check_dtype=False)
        assert {"digest", "seed", "round", "time_s"} <= set(found)
        assert ("selection" in found) == (result is compared)


@pytest.mark.parametrize(
    ("target", "said"),
    [("x.txt", "the file must end in .csv or .parquet"), ("index.csv", "holds results; choose another name")],
)
def test_bad_targets(swept, target, said):
    done = CliRunner().invoke(simfl, ["export", str(swept.path), "--rounds", str(swept.path / target)])
    assert done.exit_code != 0 and said in done.output and not (swept.path / "x.txt").exists()


def test_a_damaged_table_is_not_believed(swept, tmp_path):
    folder = swept.path.parent / swept.runs.digest[3]
    text = (folder / "rounds.csv").read_text()
    try:
        (folder / "rounds.csv").write_text(text.replace("0", "1", 1))
        done = CliRunner().invoke(simfl, ["export", str(swept.path), "--rounds", str(tmp_path / "all.csv")])
        assert done.exit_code == 4 and "rounds.csv: damaged" in done.output and not (tmp_path / "all.csv").exists()
    finally:
        (folder / "rounds.csv").write_text(text)


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data.strip())


def shown(result):
    parser = Cells()
    parser.feed(result._repr_html_())
    assert not parser.open
    return " ".join(filter(None, parser.text))


def test_notebooks_show_results(swept, compared):
    single = swept.result(swept.runs.digest[0])
    assert single.summary["digest"] in shown(single) and "Simulated time" in shown(single)
    assert "Runs: 8 done" in shown(swept) and "selection.k" in shown(swept)
    assert "baseline random" in shown(compared) and "weighted" in shown(compared) and "±" in shown(compared)
    assert "diverged" not in shown(compared)
    study = read_study([compared.path])
    assert "tidy: comparison" in shown(study) and "weighted" in shown(study)


def test_printed_results_are_one_line(swept, compared):
    single = swept.result(swept.runs.digest[0])
    for result, words in (
        (single, ("Result tidy: seed", f"{single.summary['rounds']} rounds", "time_s")),
        (swept, ("SweepResult tidy: runs: 8 done",)),
        (compared, ("ComparisonResult tidy: runs:",)),
    ):
        text = repr(result)
        assert all(word in text for word in (*words, str(result.path))), text
        assert len(text) < 200 + len(str(result.path)) and "\n" not in text and str(result) == text


def test_what_is_shown_is_text():
    from simfl.results.run_files import html_table

    frame = pandas.DataFrame({"<i>": ["<script>alert(1)</script>"] * 30})
    text = html_table("<b>", frame, "<u>")
    assert "<script>" not in text and "<i>" not in text and "<u>" not in text
    assert text.count("&lt;script&gt;") == 20 and "30 rows, the first 20 of them shown" in text


def test_notebook_tables_write_numbers_as_the_terminal_does(swept, compared, capsys):
    """N6: they said 1.456e+05 where the terminal said MB."""
    compared.show()
    printed, note = capsys.readouterr().out, shown(compared)
    mean = compared.means.set_index(["choice", "metric"]).loc["random", "time_s"]["mean"]
    assert "Simulated time, s" in note and f"{mean:.4g}" in note and f"{mean:.4g}" in printed
    frame = pandas.DataFrame({"bytes": [1_456_000.0, None], "test_accuracy": [0.5, 0.25], "k": [3, 4]})
    text = as_printed(frame, columns_by_name())
    assert text.columns.tolist() == ["Traffic, MB", "Accuracy", "k"]
    assert text.to_numpy().tolist() == [["1.456", "0.5000", 3], ["–", "0.2500", 4]]
    single = shown(swept.result(swept.runs.digest[0]))
    assert "Traffic" not in single or "MB" in single
    assert "e+0" not in note + single + shown(swept) + shown(read_study([compared.path]))
