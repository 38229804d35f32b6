"""What is compared besides changes nobody's numbers but the ends of means' intervals: the same rows in every set."""

import csv
import json
from itertools import chain, combinations

import pytest

import simfl

pytestmark = pytest.mark.usefixtures("sweeps_here")

TEXT = """
name: beside
clients: 8
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
devices: {availability: {name: bernoulli, dropout: 0.3}, computation: {name: random, distribution: 0.2}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 10, batch_size: 10, learning_rate: 0.2}
learning:
  data: {name: synthetic, samples: 160, test_samples: 60, shape: [4], classes: 3, separation: 1.5}
  model: logistic
privacy: none
"""
BASELINE = "random"
OTHERS = ["random:k=1", "partition:k=8", "batch_partition:T=2"]
"""One that learns slowly, one that may never sum, one that skips some rounds."""

FIXED = {"rounds": 4, "time": 4.0}


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """The comparison of the baseline with each set of others, and its folder; the runs are shared."""
    folder = tmp_path_factory.mktemp("beside")
    file = folder / "beside.yaml"
    file.write_text(TEXT)
    found = {}
    for names in chain.from_iterable(combinations(OTHERS, n) for n in range(1, len(OTHERS) + 1)):
        made = simfl.compare(file, {"selection": [BASELINE, *names]}, replications=3, out=folder / "r", jobs=1,
                             progress=False, at=FIXED)  # fmt: skip
        found[names] = json.loads((made.path / "comparison.json").read_text()), made.path
    return found


ENDS = ("lower", "upper", "collapsed_seeds")
"""What means have in the light of all that is compared: no value lies further out than the furthest one seen."""


def rows_by_choice(document, part):
    rows = {}
    for row in document[part]:
        own = {name: value for name, value in row.items() if part != "means" or name not in ENDS}
        rows.setdefault(row["choice"], []).append(own)
    return rows


@pytest.mark.parametrize("part", ["means", "paired"])
def test_no_number_depends_on_what_else_is_compared(documents, part):
    every = rows_by_choice(documents[tuple(OTHERS)][0], part)
    assert any(row["metric"] == "time_to_target_s" for rows in every.values() for row in rows)
    for names, (document, _) in documents.items():
        assert document["target_accuracy"] == documents[tuple(OTHERS)][0]["target_accuracy"] is not None
        found = rows_by_choice(document, part)
        assert set(found) == {*names, BASELINE} - ({BASELINE} if part == "paired" else set())
        assert found == {name: every[name] for name in found}


def test_at_a_budget_that_is_given_neither(documents):
    every = {at["budget"]: rows_by_choice(at, "means") for at in documents[tuple(OTHERS)][0]["equal"]}
    for names, (document, _) in documents.items():
        fixed = [at for at in document["equal"] if at["budget"] in FIXED]
        assert len(fixed) == len(FIXED) and not any(at["most"] for at in fixed)
        for at in fixed:
            found = rows_by_choice(at, "means")
            assert set(found) <= {*names, BASELINE} and found == {n: every[at["budget"]][n] for n in found}


def test_the_target_is_said_to_be_the_baselines(documents):
    from io import StringIO

    from rich.console import Console

    from simfl.experiments.compare.show import show

    document, _ = documents[tuple(OTHERS)]
    runs = [row for row in document["means"] if row["choice"] == BASELINE and row["metric"] == "best_test_accuracy"]
    assert document["target_accuracy"] == int(100 * 0.95 * runs[0]["mean"] + 1e-9) / 100
    text = StringIO()
    show(document, Console(file=text, width=400))
    assert "(95 % of the best of random, mean over its runs)" in text.getvalue().splitlines()[0]
    for at in document["equal"]:
        at["most"] = True
    text = StringIO()
    show(document, Console(file=text, width=400), at="rounds")
    assert "another configuration may lower it (--at fixes it)" in text.getvalue()
    lost = {**document, "target_accuracy": None}
    text = StringIO()
    show(lost, Console(file=text, width=400))
    assert "no time to a target: random has not learned; give --target-accuracy" in text.getvalue()


def test_every_run_has_a_row_from_which_the_means_follow(documents):
    document, path = documents[tuple(OTHERS)]
    with open(path / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["choice"], int(row["seed"])) for row in rows] == [
        (c, s) for c in (BASELINE, *OTHERS) for s in range(3)
    ]
    assert [row["digest"] for row in rows] == [run["digest"] for each in document["choices"] for run in each["runs"]]
    for mean in document["means"]:
        values = [float(row[mean["metric"]]) for row in rows if row["choice"] == mean["choice"] and row[mean["metric"]]]
        assert len(values) == mean["runs"] and sum(values) / len(values) == pytest.approx(mean["mean"])
