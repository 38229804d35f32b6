"""One list of columns: whoever fills one, everyone who shows numbers knows it."""

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core import columns
from simfl.core.column_files import FILE, columns_by_name
from simfl.core.columns import GUARANTEES, ROUND_COLUMNS, SUMMARY_COLUMNS, TARGET_COLUMNS, Column, unknown
from simfl.core.errors import IntegrityError
from simfl.core.storage.disk import sha256
from simfl.experiments.compare.comparison import compare
from simfl.experiments.sweep.execution import How
from simfl.experiments.sweep.plan import plan_sweep
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.base import COLUMNS as PRIVACY
from simfl.report import draw, read_study
from simfl.report.html_page import page
from simfl.report.live.watched_folder import WatchedFolder
from simfl.report.page_tables import group_table, round_table, run_table
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import summarise
from simfl.results.tables import ROUNDS, TableWriter
from simfl.runs.finalise import finish
from simfl.runs.run import verify
from simfl.scenario import Scenario
from tests.conftest import CHOICES, SEEDS, WORLD
from tests.support.damages import reseal, seal_begun
from tests.support.swept_axes import axes

pytestmark = pytest.mark.usefixtures("sweeps_here")


HERE = Path(__file__).resolve().parents[2]

EPSILON = Column("epsilon_max", "Largest ε", "number", "Largest privacy loss of a client so far.", -1)
SPENT = Column("spent_s", "Time spent", "seconds", "What it took in the round.", -1, "sum")
EXTRA = (*ROUND_COLUMNS, EPSILON, SPENT)


def test_every_column_is_described_once_and_wholly():
    found = (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS)
    assert len({column.name for column in found}) == len(found)
    assert len({column.heading for column in found}) == len(found)
    for column in found:
        assert column.sentence.endswith(".") and column.heading == column.heading.strip()
        if column.unit == "seconds":
            assert column.name.endswith("_s")
        if column.unit == "bytes":
            assert "bytes" in column.name
    assert tuple(column.name for column in ROUND_COLUMNS) == ROUNDS and set(PRIVACY) <= set(ROUND_COLUMNS)


def test_the_page_about_columns_is_the_list():
    written = (HERE / "docs/reference/columns.md").read_text()
    assert written == columns.markdown()
    for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS, *TARGET_COLUMNS):
        assert f"| `{column.name}` | {column.heading} | {column.unit} |" in written
    assert "docs/reference/columns.md" in (HERE / "README.md").read_text()


def test_nobody_else_spells_a_column_of_a_target():
    for path in (*HERE.glob("simfl/**/*.py"), *HERE.glob("docs/**/*.md"), *HERE.glob("simfl/**/*.js")):
        assert "time_s_to_target" not in path.read_text(), path


def test_a_summary_is_what_the_rows_say(single):
    with open(single / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table, found = pandas.read_csv(single / "rounds.csv"), summarise(rows)
    assert found["rounds"] == len(table) and found["best_test_accuracy"] == table.test_accuracy.max()
    for name in ("skipped", "failed", "bytes_down", "bytes_up"):
        assert found[name] == table[name].sum() and isinstance(found[name], int)
    last = ("time_s", "mean_cardinality", "fairness_gap", "privacy_strong", "privacy_semi_strong",
            "privacy_weak_lower", "privacy_weak_upper", "train_loss", "test_loss", "test_accuracy", "measured_error",
            "measured_recovered")  # fmt: skip
    for name in last:
        assert found[name] == table[name].dropna().iloc[-1]
    assert set(found) == {"rounds", "skipped", "failed", "bytes_down", "bytes_up", "best_test_accuracy", *last}
    summary = json.loads((single / "summary.json").read_text())
    assert found.items() <= summary.items()
    empty = summarise([{name: "" for name in ROUNDS}])
    assert empty["skipped"] == 0 and empty["test_accuracy"] is empty["best_test_accuracy"] is None


def test_finals_of_every_kind():
    rows = [{"a": "2", "b": 1.5}, {"a": "", "b": None}, {"a": "1", "b": -0.5}]
    made = [Column("a", "A", "number", "A.", 0, final) for final in ("last", "sum", "max", "min", "count")]
    assert [summarise(rows, [column])["a"] for column in made] == [1.0, 3, 2.0, 1.0, 2]
    assert summarise(rows, [Column("b", "B", "number", "B.", final="sum")])["b"] == 1.0
    assert "a" not in summarise(rows, [made[0]._replace(final=None)])


def test_finals_whose_empty_cells_count():
    """Of the last round; in sums, of every round that aggregated something."""
    rows = [{"a": "2", "cardinality": "3"}, {"a": "", "cardinality": "0"}, {"a": "1.5", "cardinality": "1"},
            {"a": "", "cardinality": "2"}]  # fmt: skip
    end, whole = (Column("a", "A", "number", "A.", -1, final) for final in ("end", "whole_sum"))
    assert [summarise(rows[:count], [end])["a"] for count in (1, 2, 3, 4)] == [2.0, None, 1.5, None]
    assert [summarise(rows[:count], [whole])["a"] for count in (0, 1, 2, 3, 4)] == [0, 2, 2, 3.5, None]


# -- a plugin's columns --------------------------------------------------------------------------------


def filled(folder):
    """A finished run finished again, with what a plugin would have written: the round's root, and a quarter second."""
    scenario = Scenario.load(folder / "scenario.yaml")
    summary = json.loads((folder / "summary.json").read_text())
    rounds = pandas.read_csv(folder / "rounds.csv", dtype=str, keep_default_na=False)
    rounds["epsilon_max"] = [repr(float(np.sqrt(t + scenario.seed))) for t in range(len(rounds))]
    rounds["spent_s"] = "0.25"
    tables = {"rounds.csv": TableWriter(folder / "rounds.csv", list(rounds.columns))}
    tables["rounds.csv"].append(rounds.itertuples(index=False))
    for name in ("participation.csv", "evaluation.csv", "events.jsonl"):
        if (folder / name).exists():
            data = (folder / name).read_bytes()
            tables[name] = TableWriter(folder / name, None)
            tables[name]._add(data)
    seal_begun(folder, "scenario.yaml", "clients.csv", "latency.csv")
    return finish(folder, scenario, tables, len(rounds), None, summary["expected_cardinality"], EXTRA,
                  summary["no_skill_accuracy"])  # fmt: skip


@pytest.fixture(scope="module")
def plugged(comparison, tmp_path_factory):
    """The comparison's runs with two columns more; its folder."""
    out = tmp_path_factory.mktemp("plugged")
    shutil.copytree(comparison.parent, out / "sample")
    shutil.rmtree(out / "sample" / comparison.name)
    for path in (out / "sample").glob("*/summary.json"):
        filled(path.parent)
    (out / "sample.yaml").write_text(WORLD)
    plan = plan_sweep(out / "sample.yaml", axes([f"selection={','.join(CHOICES)}"]), len(SEEDS))
    return compare(plan, out, How(jobs=1)).path


def test_a_run_describes_its_columns(single):
    written = json.loads((single / FILE).read_text())
    with open(single / "rounds.csv", newline="") as file:
        assert next(csv.reader(file)) == [entry["name"] for entry in written][: len(ROUNDS)]
    summary = json.loads((single / "summary.json").read_text())
    fixed = {"name", "digest", "seed", "clients", "sha256", "in_clear", "privacy_assumes", "backend", "device"}
    assert set(summary) - fixed <= {entry["name"] for entry in written}
    assert summary["sha256"][FILE] == sha256(single / FILE)
    assert verify(single)[FILE]
    assert {"name", "heading", "unit", "better", "sentence", "final"} <= set(written[0])


def test_a_plugins_column_is_seen_everywhere_unasked(plugged, no_pictures):
    study = read_study([plugged])
    run = next(study.runs)
    assert list(run.rounds.columns[-2:]) == ["epsilon_max", "spent_s"]
    assert run.summary["epsilon_max"] == run.rounds.epsilon_max.iloc[-1] and run.summary["spent_s"] == 14 * 0.25
    index = pandas.read_csv(plugged / "index.csv")
    assert (index.spent_s == 3.5).all() and index.epsilon_max.nunique() == len(SEEDS)
    means = pandas.read_csv(plugged / "comparison.csv").set_index(["choice", "metric"])
    assert means.loc[("random", "epsilon_max"), "mean"] == pytest.approx(np.mean(np.sqrt([13, 14, 15])))

    for table in (group_table(study), run_table(study), round_table(run)):
        heads = {head.name: head for head in table.columns}
        assert heads["epsilon_max"].label == "Largest ε" and "privacy loss" in heads["epsilon_max"].about
    units = {head.name: head.unit for head in group_table(study).columns}
    assert units["spent_s"] == "s"

    fig, table = draw("plugins", study)
    assert [axes.get_title(loc="left") for axes in fig.axes] == ["Largest ε", "Time spent"]
    rows = table[(table.column == "epsilon_max") & (table.group == "random")]
    np.testing.assert_allclose(rows["mean"], np.mean([np.sqrt(np.arange(14) + seed) for seed in SEEDS], axis=0))
    assert rows["round"].tolist() == list(range(14))
    text = page(study)
    assert "Largest ε" in text and 'id="figure-plugins"' in text

    watched = WatchedFolder(run.path).look()
    assert [c["heading"] for c in watched["columns"] if c["name"] == "epsilon_max"] == ["Largest ε"]
    assert watched["shown"][0]["curves"]["epsilon_max"] == list(run.rounds.epsilon_max)


@pytest.fixture
def accountant():
    """An accountant that somebody registers: the rounds so far, as a privacy loss."""

    @ACCOUNTANTS("counting")
    @dataclass(frozen=True)
    class Counting:
        columns: ClassVar[tuple[Column, ...]] = (EPSILON,)

        def accounts(self, history):
            return {"epsilon_max": [float(t + 1) for t in range(history.shape[0])]}

    yield Counting
    del ACCOUNTANTS._plugins["counting"]


def test_a_registered_plugin_is_enough(accountant, tmp_path):
    from simfl.runs.run import run

    overrides = ["learning=none", "training.rounds=5", "privacy.accountants=[{name: counting}]"]
    done = run(Scenario.parse(WORLD, "x", overrides), tmp_path)
    assert done.summary["epsilon_max"] == 5.0 and verify(done.path)[FILE]
    found = ResultsFolder.open(done.path).columns()["epsilon_max"]
    assert found == EPSILON._replace(
        final="end", observer=found.observer, protects=found.protects, assumes=found.assumes
    )
    assert found.observer == "an observer that is not said"
    heads = {head.name: head for head in group_table(read_study([done.path])).columns}
    assert heads["epsilon_max"].label == "Largest ε"
    _, table = draw("plugins", done.path)
    assert table["mean"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0] and set(table.column) == {"epsilon_max"}


def test_compare_prints_a_plugins_column(plugged, capsys):
    simfl.open(plugged).show()
    heading = next(line for line in capsys.readouterr().out.splitlines() if "Accuracy" in line)
    assert "Largest ε" in heading and "Time spent, s" in heading


def test_without_plugins_there_is_no_figure_of_theirs(single):
    from simfl.report.figures import NothingToDraw

    with pytest.raises(NothingToDraw, match="no plugin"):
        draw("plugins", single)


def test_what_only_has_a_name_is_shown_by_it(single, tmp_path):
    """A run in progress, or one of before, has no columns.json."""
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    filled(folder)
    (folder / FILE).unlink()
    reseal(folder, without={FILE})
    theirs = ResultsFolder.open(folder).columns()
    assert theirs.keys() == columns_by_name().keys() and "epsilon_max" not in theirs
    heads = {head.name: head for head in group_table(read_study([folder])).columns}
    assert heads["epsilon_max"].label == "Epsilon max" and heads["spent_s"].unit == "s"
    assert unknown("bytes_lost").unit == "bytes" and unknown("idle_s").heading == "Idle"


@pytest.mark.parametrize(
    "text", ["{", "{}x", "[1]", '[{"name": "a"}]', '[{"name": 3, "heading": "", "unit": "number", "sentence": ""}]',
             '[{"name": "a", "heading": "", "unit": "miles", "sentence": ""}]', "\xff"],
)  # fmt: skip
def test_a_damaged_description_is_refused_by_name(text):
    with pytest.raises(IntegrityError, match=FILE):
        columns_by_name(text.encode("latin-1"))


def test_a_report_refuses_a_damaged_description_by_name(single, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    (folder / FILE).write_text("{")
    done = CliRunner().invoke(group, ["report", str(folder)])
    assert done.exit_code == 4 and FILE in done.output and "Traceback" not in done.output
    assert not (folder / "report.html").exists()


def test_a_plugin_cannot_rename_what_simfl_reports():
    theirs = {**EPSILON._asdict(), "name": "test_accuracy", "better": -1}
    assert columns_by_name(json.dumps([theirs]).encode())["test_accuracy"] in ROUND_COLUMNS


# -- what theory adds to a summary ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["selection=partition"], (4, 4, 4)),
        (["selection=batch_partition:T=2"], (2, 2, 2)),
        (["selection=half_partition:T=2"], (1, 2, 2)),
        (["selection=random"], (1, 1, 1)),
        (["selection=partition", "training.on_failure=partial"], (None, None, None)),
        (["selection=random:k=12", "devices.availability.dropout=0"], (1, 1, 1)),
        (["selection=partition", "privacy=none"], (None, None, None)),
        (["selection=partition", "training.aggregate=median", "training.weighting=equal"], (1, 1, 1)),
    ],
)
def test_the_guarantee_for_any_number_of_rounds_is_the_units(tmp_path, overrides, expected):
    small = ["training.rounds=30", "trace=rounds"]
    small += [] if "training.aggregate=median" in overrides else ["learning=none"]
    from simfl.runs.run import run

    done = run(Scenario.parse(WORLD, "x", [*small, *overrides]), tmp_path)
    assert tuple(done.summary[column.name] for column in GUARANTEES) == expected
    if expected[0]:
        assert done.summary["privacy_semi_strong"] >= done.summary["guarantee_semi_strong"]
