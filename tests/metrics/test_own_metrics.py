"""Metrics of one's own: one file, columns everywhere, resumable, and nothing that is played depends on them."""

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.metric_runner import MetricRunner
from simfl.api.result_objects import Result
from simfl.cli import simfl
from simfl.core.columns import Column
from simfl.core.errors import PluginError
from simfl.core.registration.protocol import required_fields
from simfl.core.rng import Streams
from simfl.learning.none import IdleLearner
from simfl.metrics.base import METRICS, Metric, RoundSnapshot
from simfl.report.html_page import page
from simfl.report.measures import with_values
from simfl.report.study_reader import read_study
from simfl.results import checkpoint
from simfl.runs.accounting import accounts, of_clients
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario

PLUGINS = Path(__file__).resolve().parents[1] / "support" / "plugins"
TEXT = """
name: measured
clients: 10
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}}
devices: {availability: {name: bernoulli, dropout: 0.2}, computation: 1}
selection: {name: random, k: 4}
learning: {data: {name: synthetic, samples: 200, test_samples: 60, classes: 3}, model: logistic, evaluate: {every: 2}}
plugins: [balanced.py]
"""
RULES = {
    "fedavg": "training: {name: fedavg, rounds: 9}\n",
    "fedbuff": "training: {name: fedbuff, rounds: 9, buffer: 3}\n",
}
OWN = ("balanced_accuracy", "smooth_cardinality", "coin", "model_change")


def scenario(rule, metrics="[model_change, {name: balanced, memory: 0.25}]"):
    return Scenario.parse(f"{TEXT}{RULES[rule]}metrics: {metrics}\n", "measured", folder=PLUGINS)


@pytest.fixture(scope="module", params=RULES)
def measured(request, tmp_path_factory):
    made = scenario(request.param)
    return request.param, run(made, tmp_path_factory.mktemp("measured")).path


def test_its_columns_hold_what_it_says(measured):
    _, folder = measured
    found = Result.open(folder)
    rounds, cardinality = found.rounds, found.rounds.cardinality.to_numpy()
    smooth = 0.0
    for t, value in enumerate(cardinality):
        smooth = 0.25 * smooth + 0.75 * value
        assert rounds.smooth_cardinality[t] == pytest.approx(smooth)
    assert (rounds.balanced_accuracy.notna() == rounds.test_accuracy.notna()).all()
    assert found.summary["balanced_accuracy"] == rounds.balanced_accuracy.dropna().iloc[-1]
    assert np.isnan(rounds.model_change[0]) and (rounds.model_change[1:][rounds.skipped[1:] == 0] > 0).all()
    share = found.participation.sum(axis=0) / found.participation.sum()
    if measured[0] == "fedavg":
        expected = -sum(p * np.log(p) for p in share if p)
        assert found.summary["participation_entropy"] == pytest.approx(expected)
    assert rounds.coin.nunique() == len(rounds)
    assert verify(folder) and all(verify(folder).values())


def test_nothing_played_depends_on_it(measured, tmp_path):
    rule, folder = measured
    plain = run(scenario(rule, "[]"), tmp_path).path
    with open(folder / "rounds.csv") as one, open(plain / "rounds.csv") as other:
        ours = [{k: v for k, v in row.items() if k not in OWN} for row in csv.DictReader(one)]
        assert ours == list(csv.DictReader(other))
    for name in ("participation.csv", "model.npy"):
        assert (folder / name).read_bytes() == (plain / name).read_bytes()


def killed_at(at, made, out, monkeypatch):
    """The folder of a run that was killed after so many checkpoints and run again."""
    saved, save = [], checkpoint.save

    class Killed(Exception):
        pass

    def dying(*arguments):
        save(*arguments)
        saved.append(arguments)
        if len(saved) == at:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("simfl.results.checkpoint.save", dying)
        run(made, out)
    return run(made, out).path


LISTS = """
from dataclasses import dataclass
from simfl.plugins import Column
from simfl.plugins.metrics import METRICS, Metric

@METRICS("lists")
@dataclass(frozen=True)
class Lists(Metric):
    \"\"\"Its state is a list and a number, not arrays.\"\"\"
    columns = (Column("added", "Added", "number", "What a list makes of a sum."),)

    def start(self, clients, dimension):
        return {"list": [1.0, 2.0], "number": 7}

    def after(self, snapshot, state):
        grown = state["list"] + [1.0, 1.0]
        return {"added": float(len(grown) + sum(grown))}, {"list": [float(each) for each in grown], "number": 7}
"""


@pytest.mark.parametrize("at", [1, 4])
def test_a_list_means_the_same_before_and_after_a_kill(tmp_path, monkeypatch, at):
    (tmp_path / "lists.py").write_text(LISTS)
    text = f"{TEXT}{RULES['fedavg']}metrics: [lists]\n".replace("balanced.py", "lists.py")
    made = Scenario.parse(text, "measured", folder=tmp_path)
    whole = run(made, tmp_path / "whole").path
    again = killed_at(at, made, tmp_path / "killed", monkeypatch)
    assert (again / "rounds.csv").read_bytes() == (whole / "rounds.csv").read_bytes()


@pytest.mark.parametrize("at", [1, 4, 8])
def test_a_killed_run_goes_on_with_its_memory(measured, tmp_path, monkeypatch, at):
    rule, folder = measured
    again = killed_at(at, scenario(rule), tmp_path, monkeypatch)
    for name in ("rounds.csv", "summary.json"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_it_is_shown_everywhere(measured, no_pictures):
    _, folder = measured
    study = read_study([folder])
    shown = {m.name: m.label for m in with_values(study)}
    assert shown["balanced_accuracy"] == "Balanced accuracy" and shown["participation_entropy"] == "Entropy"
    assert "coin" not in shown
    text = page(study)
    assert "Balanced accuracy" in text and "Smoothed cardinality" in text


def test_a_comparison_knows_it(tmp_path):
    (tmp_path / "balanced.py").write_text((PLUGINS / "balanced.py").read_text())
    (tmp_path / "measured.yaml").write_text(TEXT + RULES["fedavg"] + "metrics: [balanced]\n")
    words = ["compare", str(tmp_path / "measured.yaml"), "selection=random,weighted", "training.rounds=3",
             "--replications", "2", "--jobs", "1", "--out", str(tmp_path / "out")]  # fmt: skip
    result = CliRunner().invoke(simfl, words)
    assert result.exit_code == 0 and "Balanced accuracy" in result.output and "Entropy" in result.output
    (path,) = (tmp_path / "out").glob("measured/compare-*/comparison.json")
    document = json.loads(path.read_text())
    assert {"balanced_accuracy", "participation_entropy"} <= {row["metric"] for row in document["paired"]}
    at = document["equal"][0]
    assert "smooth_cardinality" in {row["metric"] for row in at["means"]}


# -- the contract of every metric ----------------------------------------------------------------------


def parts(*metrics, clients=4):
    learner = IdleLearner(0, np.ones(clients, dtype=np.int64))
    return Components(clients, Streams(0), *[None] * 6, learner, 0, metrics=metrics)


def done(number, clients=(0, 2)):
    chosen = np.array(clients, dtype=np.int32)
    return RoundResult(number, chosen, np.ones(len(chosen), dtype=np.int64), {"round": number, "time_s": 1.0}, False)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric(name):
    cls = METRICS[name]
    metric = cls(**cls.example) if required_fields(cls) else cls()
    assert all(isinstance(column, Column) for column in (*metric.columns, *metric.finals))
    one, other = MetricRunner(parts(metric)), MetricRunner(parts(metric))
    for t in range(3):
        model = np.full(5, t, dtype=np.float32)
        before = model.copy()
        first = one.after(done(t, () if t == 1 else (0, 2)), model)
        other.restore(other.state())
        assert first == other.after(done(t, () if t == 1 else (0, 2)), model)
        assert np.array_equal(model, before)
        assert all(isinstance(array, np.ndarray) for array in one.state().values())


@dataclass(frozen=True)
class Bad(Metric):
    said: object = None
    columns = (Column("mine", "Mine", "number", "Mine."),)
    name = "bad"

    def after(self, snapshot, state):
        if self.said == "write":
            snapshot.model[0] = 7
        if self.said == "row":
            snapshot.row["time_s"] = 7
        return self.said, state


def test_it_may_only_say_its_columns():
    with pytest.raises(
        PluginError, match=r"metric 'bad': after gives 'yours', which is not among its columns \(mine\)"
    ):
        MetricRunner(parts(Bad({"yours": 1}))).after(done(0), np.zeros(3, dtype=np.float32))


@pytest.mark.parametrize("said", ["write", "row"])
def test_what_it_may_not_touch(said):
    measuring = MetricRunner(parts(Bad(said)))
    with pytest.raises((ValueError, TypeError), match="read-only|does not support item assignment"):
        measuring.after(done(0), np.zeros(3, dtype=np.float32))


WRITER = """
from dataclasses import dataclass
from simfl.plugins.metrics import METRICS, Metric

@METRICS("writer")
@dataclass(frozen=True)
class Writer(Metric):
    field: str = "labels"

    def after(self, snapshot, state):
        getattr(snapshot.predictions(), self.field)[:] = 0
        return {}, state
"""


@pytest.mark.parametrize("field", ["labels", "predicted", "loss"])
def test_predictions_and_true_classes_may_not_be_touched(tmp_path, field):
    (tmp_path / "writer.py").write_text(WRITER)
    text = TEXT.replace("balanced.py", "writer.py") + RULES["fedavg"]
    made = Scenario.parse(f"{text}metrics: [{{name: writer, field: {field}}}]\n", "writer", folder=tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        run(made, tmp_path / "out")


THIEF = """
from dataclasses import dataclass
from simfl.plugins import Column
from simfl.plugins.metrics import METRICS, Metric

@METRICS("thief_of_KIND_NAME")
@dataclass(frozen=True)
class Thief(Metric):
    KIND = (Column("NAME", "Mine", "number", "Mine."),)

    def after(self, snapshot, state):
        return {}, state

    def end(self, table):
        return {}
"""
STAGE = "privacy: {name: multi_round, stages: [gaussian_sum]}\n"
OWNERS = {
    "test_accuracy": ("", "simfl's"),
    "bytes": ("", "simfl's"),
    "digest": ("", "simfl's"),
    "noise_std": (STAGE, "also that of privacy.stages.0"),
    "rho_max": (f"{STAGE[:-2]}, accountants: [zcdp]}}\n", "also that of privacy.accountants.0"),
    "helpers": ("secagg: three_phases\n", "also that of secagg"),
    "model_change": ("", "also that of metrics.0"),
}


@pytest.mark.parametrize("kind", ["columns", "finals"])
@pytest.mark.parametrize("name", OWNERS)
def test_columns_have_one_owner(tmp_path, name, kind):
    """Also beside those of protocols, stages and accountants; found when the scenario is read."""
    (tmp_path / "thief.py").write_text(THIEF.replace("NAME", name).replace("KIND", kind))
    more, whose = OWNERS[name]
    files = json.dumps([str(tmp_path / "thief.py"), "gaussian.py", "three_phases.py"])
    text = TEXT.replace("[balanced.py]", files) + RULES["fedavg"] + more
    Scenario.parse(f"{text}metrics: [model_change]\n", "s", folder=PLUGINS)
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(f"{text}metrics: [model_change, thief_of_{kind}_{name}]\n", "s", folder=PLUGINS)
    (problem,) = caught.value.problems
    assert problem.key == "metrics.1" and f"the name of its column '{name}' is {whose}" in problem.message


INVALID = {
    'Column("mine", "Mine", "metres", "Mine.")': "its column 'mine' has unit 'metres'; use 'number', 'count', ",
    'Column("mine", "Mine", "number", 3)': "its column 'mine' has sentence 3; use a text",
    'Column("mine", "Mine", "number", "Mine.", 1, "median")': "its column 'mine' has final 'median'; use 'last', ",
    '"mine"': "'mine' among its columns is no Column of simfl.plugins",
}


@pytest.mark.parametrize("column", INVALID)
def test_columns_that_cannot_be_shown_are_refused_before_the_run(tmp_path, column):
    """Beside a valid column of the same plugin, so that the message is of the wrong one."""
    name = f"invalid_{list(INVALID).index(column)}"
    columns = f'(Column("other", "Other", "number", "Other."), {column})'
    code = THIEF.replace("thief_of_KIND_NAME", name).replace('(Column("NAME", "Mine", "number", "Mine."),)', columns)
    (tmp_path / "invalid.py").write_text(code.replace("KIND", "columns"))
    text = TEXT.replace("balanced.py", "invalid.py") + RULES["fedavg"] + f"metrics: [{name}]\n"
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(text, "s", folder=tmp_path)
    (problem,) = caught.value.problems
    assert problem.key == "metrics.0" and INVALID[column] in problem.message


PAIR = """
from dataclasses import dataclass
from simfl.plugins import Column
from simfl.plugins.privacy import ACCOUNTANTS, STAGES, Accountant, Stage

@STAGES("stage_WORD")
@dataclass(frozen=True)
class MyStage(Stage):
    columns = (Column("sigma", "Sigma", "number", "Noise."),)

@ACCOUNTANTS("accountant_WORD")
@dataclass(frozen=True)
class MyAccountant(Accountant):
    columns = (Column("sigma", "Sigma", "number", "WORD."),)

    def accounts(self, history):
        return {"sigma": [1.0] * history.shape[0]}
"""


@pytest.mark.parametrize("word", ["Noise", "Variance"])
def test_a_stage_and_an_accountant_mean_the_same_by_a_column(tmp_path, word):
    (tmp_path / "pair.py").write_text(PAIR.replace("WORD", word))
    text = TEXT.replace("balanced.py", "pair.py") + RULES["fedavg"]
    text += f"privacy: {{name: none, stages: [stage_{word}], accountants: [accountant_{word}]}}\n"
    if word == "Noise":
        Scenario.parse(text, folder=tmp_path)
        return
    with pytest.raises(InvalidScenario, match="privacy.stages.0: the name of its column 'sigma' is also that of"):
        Scenario.parse(text, folder=tmp_path)


NOISY = PAIR.replace("WORD", "fills").replace(
    "@ACCOUNTANTS", """    def facts(self, members, state):
        return {"sigma": 1.0}

@ACCOUNTANTS""", 1,
).replace('"fills."', '"Noise."')  # fmt: skip
TWICE = {
    "stages: [central_gaussian], accountants: [{name: zero_out, delta: 1e-7}, {name: zero_out, delta: 0.05}]":
        ("privacy.accountants.1", "epsilon_max", "also that of privacy.accountants.0"),
    "stages: [central_gaussian, {name: adaptive_gaussian, bit_std: 2}]":
        ("privacy.stages.1", "noise_std", "also that of privacy.stages.0"),
    "stages: [stage_fills], accountants: [accountant_fills]":
        ("privacy.stages.0", "sigma", "also that of privacy.accountants.0"),
    "stages: [stage_fills, stage_fills]": ("privacy.stages.1", "sigma", "also that of privacy.stages.0"),
    "accountants: [of_simfl]": ("privacy.accountants.0", "cardinality", "simfl's"),
    "accountants: [guaranteeing]": ("privacy.accountants.0", "privacy_strong", "also that of privacy;"),
    "accountants: [zero_out, helping]": ("privacy.accountants.1", "helpers", "also that of secagg"),
    "name: none, accountants: [guaranteeing]": None,
    "stages: [clipping, clipping, local_gaussian, central_gaussian]": None,
    "stages: [central_gaussian], accountants: [zero_out, pld]": None,
}  # fmt: skip
FOREIGNERS = """
from dataclasses import dataclass
from simfl.core.columns import ROUND_COLUMNS
from simfl.plugins import Column
from simfl.plugins.privacy import ACCOUNTANTS, Accountant

class Filling(Accountant):
    def accounts(self, history):
        return {column.name: [1.0] * history.shape[0] for column in self.columns}

@ACCOUNTANTS("of_simfl")
@dataclass(frozen=True)
class OfSimfl(Filling):
    columns = tuple(column for column in ROUND_COLUMNS if column.name == "cardinality")

@ACCOUNTANTS("guaranteeing")
@dataclass(frozen=True)
class Guaranteeing(Filling):
    columns = tuple(column for column in ROUND_COLUMNS if column.name == "privacy_strong")

@ACCOUNTANTS("helping")
@dataclass(frozen=True)
class Helping(Filling):
    columns = (Column("helpers", "Helpers", "count", "Clients that answered the last phase.", 1, None),)
"""


@pytest.mark.parametrize("privacy", TWICE)
def test_no_column_is_filled_twice(tmp_path, privacy):
    """The later one's values would silently stand where the earlier one's were."""
    if "pld" in privacy:
        pytest.importorskip("dp_accounting")
    (tmp_path / "fills.py").write_text(NOISY)
    (tmp_path / "foreign.py").write_text(FOREIGNERS)
    files = json.dumps(["fills.py", "foreign.py", str(PLUGINS / "three_phases.py")])
    text = TEXT.replace("[balanced.py]", files) + RULES["fedavg"].replace("}", ", weighting: equal}", 1)
    text += "secagg: three_phases\n" if "helping" in privacy else ""
    wrong = TWICE[privacy]
    if wrong is None:
        Scenario.parse(f"{text}privacy: {{{privacy}}}\n", folder=tmp_path)
        return
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(f"{text}privacy: {{{privacy}}}\n", folder=tmp_path)
    (problem,) = caught.value.problems
    key, name, whose = wrong
    assert problem.key == key and f"the name of its column '{name}' is {whose}" in problem.message


def test_an_accountant_fills_no_column_of_another(tmp_path):
    """What it has not listed, and a client's number that another says otherwise; the same number is no harm."""
    scenario = SimpleNamespace(privacy=SimpleNamespace(accountants=(Said({"epsilon_max": [1.0]}),), columns=(),
                               accounts=lambda seen: {}, clients=lambda seen: {"rounds": np.arange(3)}))  # fmt: skip
    with pytest.raises(PluginError, match="accounts fills 'epsilon_max', which is none of its columns"):
        accounts(scenario, None)
    assert list(of_clients(scenario, None)) == ["rounds"]
    scenario.privacy.accountants = (Said({}, {"rounds": np.arange(3)}), Said({}, {"rounds": np.ones(3)}))
    with pytest.raises(PluginError, match="clients says 'rounds', as another accountant does"):
        of_clients(scenario, None)


@dataclass
class Said:
    """An accountant that says what it is told to."""

    of_rounds: dict
    of_clients: dict = field(default_factory=dict)
    columns: tuple = ()

    def accounts(self, seen):
        return self.of_rounds

    def clients(self, seen):
        return self.of_clients


def test_the_documented_metric_works(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "extend-measures.md").read_text()
    (code,) = [block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "@METRICS" in block]
    (tmp_path / "mine.py").write_text(code.replace('"balanced"', '"documented"'))
    made = TEXT.replace("balanced.py", "mine.py") + RULES["fedavg"] + "metrics: [documented]\n"
    found = Result.open(run(Scenario.parse(made, "documented", folder=tmp_path), tmp_path / "out").path)
    assert found.rounds.balanced_accuracy.notna().sum() == found.rounds.test_accuracy.notna().sum() > 0
    assert found.summary["reached_clients"] == (found.participation.sum(axis=0) > 0).sum()


def test_fairness_of_the_rounds_that_were_not_skipped(tmp_path):
    """Beside its definition, over a run of which many rounds are skipped."""
    text = "clients: 12\ndevices: {availability: {name: bernoulli, dropout: 0.3}}\nselection: {name: partition, k: 4}\n"
    made = Scenario.parse(
        f"{text}training: {{name: fedavg, rounds: 30}}\nlearning: none\nmetrics: [fairness_unskipped]\n", "skips"
    )
    found = Result.open(run(made, tmp_path).path)
    assert 5 < found.rounds.skipped.sum() < 25
    played = np.cumsum(found.participation.toarray() > 0, axis=0)
    some = np.cumsum(found.rounds.skipped == 0)
    gap = np.ptp(played, axis=1)
    for t, value in enumerate(found.rounds.fairness_gap_unskipped):
        assert (np.isnan(value) and some[t] == 0) or value == pytest.approx(gap[t] / some[t])
    assert found.summary["fairness_gap_unskipped"] == found.rounds.fairness_gap_unskipped.iloc[-1]
    last = found.rounds.iloc[-1]
    assert last.fairness_gap * len(found.rounds) == pytest.approx(last.fairness_gap_unskipped * some.iloc[-1])


def test_a_round_of_one_client_is_not_skipped():
    metric = METRICS["fairness_unskipped"]()
    state = metric.start(3, 0)
    gaps = []
    for t, clients in enumerate(([], [2], [0, 2])):
        members = np.array(clients, dtype=np.int32)
        snapshot = RoundSnapshot(t, members, np.ones(len(members)), {}, np.zeros(0, np.float32), lambda: None, None)
        values, state = metric.after(snapshot, state)
        gaps.append(values["fairness_gap_unskipped"])
    assert gaps == [None, 1.0, 1.0]


def test_the_change_of_a_model_is_the_length_of_the_difference():
    metric, state, changes = METRICS["model_change"](), {}, []
    for t, model in enumerate(([0, 0], [3, 4], [3, 4], [3, -8])):
        nobody = np.zeros(0, np.int32)
        snapshot = RoundSnapshot(t, nobody, np.zeros(0), {}, np.array(model, np.float32), lambda: None, None)
        values, state = metric.after(snapshot, state)
        changes.append(values.get("model_change"))
    assert changes == [None, 5.0, 0.0, 12.0]
