"""An epsilon, or a signal to noise, that has become infinite, or a guarantee that is no longer known exactly: nothing
shows the value from before.
"""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from simfl.cli import simfl
from simfl.experiments.compare.run_numbers import Course
from simfl.privacy.multiround.guarantee_trace import LOWER_BOUNDS
from simfl.report.advice import cautions
from simfl.report.live.terminal import table as live_table
from simfl.report.live.watched_folder import WatchedFolder
from simfl.report.measures import measures
from simfl.report.page_tables import equal_table
from simfl.report.study_reader import read_study
from simfl.results.folder import ResultsFolder
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.judge import table

pytestmark = pytest.mark.usefixtures("sweeps_here")

BASE = {
    "name": "infinite",
    "clients": 12,
    "selection": {"name": "random", "k": 4},
    "training": {"name": "fedavg", "rounds": 10, "on_failure": "partial", "weighting": "equal"},
    "learning": {"name": "none", "parameters": 4},
}
FAILING = {"devices": {"failure": {"name": "bernoulli", "probability": 0.25}}}
SHARES = {"name": "laplace_shares", "epsilon": 1.0}
ZERO_OUT = {"accountants": [{"name": "zero_out"}]}
CASES = {
    "shares are missing": BASE | FAILING | {"privacy": ZERO_OUT | {"stages": [SHARES]}},
    "no noise": BASE | {"selection": {"name": "random", "k": 5}, "privacy": {"stages": []} | ZERO_OUT},
    "no noise, ledger": BASE | {"training": BASE["training"] | {"rounds": 16}, "privacy": {"ledger": True}},
}  # fmt: skip
BECOMES_INFINITE = {"shares are missing": "epsilon_max", "no noise": "epsilon_median", "no noise, ledger": "mu_alone"}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """The column that becomes infinite, its cells, the folder of the run."""
    folder = run(Scenario.parse(json.dumps(CASES[request.param])), tmp_path_factory.mktemp("infinite")).path
    column = BECOMES_INFINITE[request.param]
    return column, [row[column] for row in table(folder / "rounds.csv")], folder


def test_the_summary_has_no_value(case):
    column, cells, folder = case
    assert cells[0] and not cells[-1]
    assert json.loads((folder / "summary.json").read_text())[column] is None


def test_neither_has_a_comparison_at_an_equal_budget_later(case):
    column, cells, folder = case
    course = Course.read(folder / "rounds.csv", ResultsFolder.open(folder).columns().values())
    finite = cells.index("")
    assert course.at({"rounds": finite})["rounds"][column] == float(cells[finite - 1])
    assert column not in course.at({"rounds": len(cells)})["rounds"]


def test_the_command_says_so(case, tmp_path):
    column, _, folder = case
    done = CliRunner().invoke(simfl, ["run", str(folder / "scenario.yaml"), "--out", str(tmp_path)])
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("infinite (left empty): ")]
    assert done.exit_code == 0 and column in line.partition(": ")[2].split(", ")


def test_the_page_of_a_finished_run_says_so(case):
    column, _, folder = case
    state = WatchedFolder(folder).look()
    names = state["runs"][0]["infinite"]
    assert ResultsFolder.open(folder).columns()[column].noun in names
    lines = Console(width=400, record=True, file=io.StringIO())
    lines.print(live_table(state))
    assert f"infinite: {', '.join(names)}" in lines.export_text()


LIMITED = BASE | FAILING | {
    "clients": 24,
    "selection": {"name": "batch_partition", "k": 6, "T": 3},
    "training": BASE["training"] | {"rounds": 12},
}  # fmt: skip


@pytest.mark.parametrize("budget", [0, 2000, 5000, 100000, 10**9])
def test_after_the_budget_a_guarantee_is_a_lower_bound(tmp_path, budget):
    limited = LIMITED | {"privacy": {"budget": budget}}
    folders = [run(Scenario.parse(json.dumps(document)), tmp_path).path for document in (LIMITED, limited)]
    exact, bounds = ([float(row["privacy_semi_strong"]) for row in table(folder / "rounds.csv")] for folder in folders)
    strong = [float(row["privacy_strong"]) for row in table(folders[1] / "rounds.csv")]
    assert all(low <= bound <= truth for low, bound, truth in zip(strong, bounds, exact, strict=True))
    assert bounds == sorted(bounds, reverse=True)
    summary = json.loads((folders[1] / "summary.json").read_text())
    assert summary["privacy_semi_strong"] == bounds[-1] and (bounds == exact) == (budget == 10**9)
    said = CliRunner().invoke(simfl, ["run", str(folders[1] / "scenario.yaml"), "--out", str(tmp_path)]).stderr
    assert (LOWER_BOUNDS in said) == (summary["privacy_weak_lower"] < summary["privacy_weak_upper"])


SILENT = """
from dataclasses import dataclass

from simfl.plugins.privacy import STAGES, Stage


@STAGES("silent")
@dataclass(frozen=True)
class Silent(Stage):
    def client(self, vectors, jobs, state, streams):
        return vectors
"""


def test_beside_a_stage_without_maps_the_lower_bounds_are_said_to_come_from_it(tmp_path):
    (tmp_path / "silent.py").write_text(SILENT)
    document = LIMITED | {"plugins": ["silent.py"], "privacy": {"stages": ["silent"]}}
    (tmp_path / "base.yaml").write_text(json.dumps(document))
    done = CliRunner().invoke(simfl, ["run", str(tmp_path / "base.yaml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output + done.stderr
    assert LOWER_BOUNDS in done.stderr and "a stage does not say what it does to updates (maps)" in LOWER_BOUNDS


def test_a_comparison_says_that_its_guarantees_are_bounds(tmp_path):
    (tmp_path / "limited.yaml").write_text(json.dumps(LIMITED))
    words = ["compare", str(tmp_path / "limited.yaml"), "privacy.budget=2000,1000000000", "--replications", "2"]
    done = CliRunner().invoke(simfl, [*words, "--jobs", "1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    said = " ".join((done.output + done.stderr).split())
    assert f"warning: 2000: {LOWER_BOUNDS}" in said and f"1000000000: {LOWER_BOUNDS}" not in said
    (folder,) = (tmp_path / "out").glob("*/compare-*")
    assert any(LOWER_BOUNDS in sentence for sentence in cautions(read_study([folder])))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_mean_over_runs_of_which_one_is_infinite_is_none(tmp_path):
    (tmp_path / "base.yaml").write_text(json.dumps(CASES["shares are missing"]))
    words = ["compare", str(tmp_path / "base.yaml"), "devices.failure.probability=0.0,0.25", "training.rounds=4"]
    words += ["--replications", "6", "--jobs", "1", "--at", "rounds", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(simfl, words)
    assert done.exit_code == 0, done.output
    (file,) = (tmp_path / "out").glob("*/compare-*/comparison.csv")
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("*/*/summary.json")]
    failing = [summary["epsilon_max"] for summary in runs if summary["failed"]]
    assert None in failing and any(failing), "infinite in some of the runs"
    means = [table(file), table(file.with_name("equal.csv"))]
    for rows in means:
        assert {(row["choice"], row["runs"]) for row in rows if row["metric"] == "epsilon_max"} == {("0.0", "6")}
    compared = {row["metric"] for row in table(file.with_name("paired.csv"))}
    assert "time_s" in compared and "epsilon_max" not in compared
    study = read_study([file.parent])
    (epsilon,) = [measure for measure in measures(study) if measure.name == "epsilon_max"]
    assert [len(epsilon.by_seed(group)) for group in study.groups] == [6, 0]
    equal = equal_table(study)
    place = [head.name for head in equal.columns].index("epsilon_max")
    assert {row.cells[1].text: row.cells[place].text == "–" for row in equal.rows} == {"0.0": False, "0.25": True}


def test_where_nothing_is_sent_nothing_is_infinite(tmp_path):
    file = tmp_path / "local.yaml"
    alone = {"training": BASE["training"] | {"personal": {"name": "local"}, "batch_size": 16, "learning_rate": 0.1}}
    learning = {"learning": {"data": "digits", "model": "logistic", "partition": "iid", "evaluate": {"every": 0}}}
    file.write_text(json.dumps(BASE | alone | learning | {"privacy": {"ledger": True} | ZERO_OUT}))
    done = CliRunner().invoke(simfl, ["run", str(file), "training.rounds=2", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0 and "\ninfinite (left empty)" not in done.stderr


def test_a_sum_of_epsilons_is_none_where_clients_leave(tmp_path):
    path = Path(__file__).resolve().parents[2] / "scenarios" / "privacyfl.yaml"
    brief = ["training.rounds=2", "training.client.tolerance=0.001", "learning.evaluate.every=0"]
    folder = run(Scenario.load(path, brief), tmp_path).path
    assert {row["epsilon_model"] for row in table(folder / "rounds.csv")} == {""}
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["epsilon_model"] is summary["epsilon_weight"] is None


def test_an_objective_that_is_infinite_in_every_run_is_none(tmp_path):
    file = tmp_path / "bare.yaml"
    file.write_text(json.dumps(CASES["no noise"]))
    words = [
        "search",
        str(file),
        "selection.k=3..5",
        "--minimise",
        "epsilon_median",
        "--out",
        str(tmp_path),
        "--runs",
        "3",
    ]
    done = CliRunner().invoke(simfl, words)
    assert done.exit_code == 2
    assert done.stderr.startswith("epsilon_median: no run has a finite value of it; ") and "infinite" in done.stderr


def test_a_lower_bound_at_an_equal_budget_is_the_last_one_computed(tmp_path):
    noisy = {"ledger": True, "every": 5, "stages": [{"name": "central_gaussian", "noise_multiplier": 2.0}]}
    folder = run(Scenario.parse(json.dumps(BASE | {"privacy": noisy})), tmp_path).path
    rows = table(folder / "rounds.csv")
    course = Course.read(folder / "rounds.csv", ResultsFolder.open(folder).columns().values())
    at = course.at({"rounds": 7})["rounds"]
    assert not rows[6]["mu_4_lower"]
    assert at["mu_4_lower"] == float(rows[4]["mu_4_lower"]) and at["mu_4_upper"] == float(rows[9]["mu_4_upper"])
