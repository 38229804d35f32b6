"""Asynchronous runs from YAML to tables: equal to FedAvg where they must be, the same bytes after any kill."""

import json
import multiprocessing
from collections import Counter
from pathlib import Path

import numpy as np
import pandas
import pytest

from simfl.api.result_objects import Result
from simfl.runs.run import run, verify
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parents[2]

DIGITS = """
name: asynchronous
clients: 24
network: {name: star, latency_s: {name: log_normal, median: 0.05, sigma: 1}, jitter_s: {name: exponential, mean: 0.02}}
devices:
  availability: {name: markov, mean_on_rounds: 6, mean_off_rounds: 2}
  computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedbuff, concurrency: 9, buffer: 4, rounds: 40, staleness: polynomial, deadline_s: 3.0, batch_size: 20}
learning: {data: digits, partition: iid, model: mlp}
privacy: none
"""

DRAWN = ["training.arrivals=uniform_staleness:max=5", "training.deadline_s=null"]


GROWING = [
    "learning.partition={name: growing, first: 10, new: 5, versions: 9}",
    "devices.computation={name: per_sample, seconds: 0.02}", "training.lookahead=12",
]  # fmt: skip
"""The time of a job's work depends on the version with which it departs."""


def tables(folder):
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.suffix in (".csv", ".jsonl", ".npy")}


@pytest.mark.parametrize(
    "selection, dropout",
    [("random:k=6", 0.3), ("weighted:k=6", 0.3), ("partition:k=6", 0.3), ("batch_partition:k=6,T=3", 0.1),
     ("half_partition:k=8,T=4", 0.02)],
)  # fmt: skip
def test_equal_durations_and_concurrency_k_are_fedavg_bit_for_bit(tmp_path, selection, dropout):
    """Rounds that FedAvg skips are no rounds of FedBuff. (Where some units can be had, but not K clients, FedAvg skips
    and FedBuff starts those it can have; such a round does not occur here.)
    """
    text = """
    clients: 24
    devices: {availability: {name: bernoulli, dropout: 0.3}, computation: 1.5}
    selection: {name: random, k: 6}
    training: {name: fedavg, rounds: 8, batch_size: 20, learning_rate: 0.1, server_learning_rate: 0.7}
    learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: mlp}
    privacy: none
    """
    common = [f"selection={selection}", f"devices.availability.dropout={dropout}"]
    k = int(selection.partition("k=")[2][0])
    fedavg = run(Scenario.parse(text, "s", [*common, "training.rounds=60"]), tmp_path / "sync")
    played = Result.open(fedavg.path).rounds
    done = played[played.skipped == 0].head(8)
    stop = int(done["round"].iloc[-1]) + 1
    fedavg = run(Scenario.parse(text, "s", [*common, f"training.rounds={stop}"]), tmp_path / "sync")
    buffered = ["training.name=fedbuff", f"training.concurrency={k}", f"training.buffer={k}", "training.rounds=8"]
    fedbuff = run(Scenario.parse(text, "s", [*common, *buffered]), tmp_path / "buffered")
    assert tables(fedavg.path)["model.npy"] == tables(fedbuff.path)["model.npy"]
    one, other = (Result.open(finished.path) for finished in (fedavg, fedbuff))
    one_rounds = one.rounds[one.rounds.skipped == 0].reset_index(drop=True)
    for column in ("time_s", "cardinality", "train_loss", "test_loss", "test_accuracy", "bytes_down", "bytes_up"):
        np.testing.assert_array_equal(one_rounds[column], other.rounds[column])
    rows = one.participation.toarray()
    np.testing.assert_array_equal(rows[rows.any(axis=1)], other.participation.toarray())
    assert (other.rounds.staleness_max == 0).all()


def test_buffer_and_concurrency_one_is_sequential_sgd(tmp_path):
    """Softmax regression by hand: one full-batch step on one client's samples after another's."""
    text = """
    clients: 10
    devices: {computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}}
    selection: {name: random, k: 1}
    training: {name: fedbuff, concurrency: 1, buffer: 1, rounds: 30, batch_size: null, learning_rate: 0.2}
    learning: {data: digits, partition: iid, model: logistic}
    privacy: none
    """
    scenario = Scenario.parse(text, "sequential")
    done = run(scenario, tmp_path)
    jobs = pandas.read_csv(done.path / "jobs.csv")
    assert set(jobs.outcome) == {"aggregated"} and (jobs.staleness == 0).all()
    assert list(jobs["round"]) == list(range(30))
    from simfl.runs.run import build

    learner = build(scenario).learner
    classes, pixels = learner.data.classes, learner.data.x_train[0].size
    flat = learner.initial().astype(np.float64)
    assert flat.size == classes * pixels + classes
    for client in jobs.client:
        held = learner.partition[client]
        x, y = learner.data.x_train[held].reshape(len(held), -1).astype(np.float64), learner.data.y_train[held]
        weight, bias = flat[: classes * pixels].reshape(classes, pixels), flat[classes * pixels :]
        logits = x @ weight.T + bias
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        gradient = np.concatenate([(p.T @ x).ravel(), p.sum(axis=0)]) / len(y)
        flat = flat - 0.2 * gradient
    np.testing.assert_allclose(np.load(done.path / "model.npy"), flat, atol=1e-5)


@pytest.mark.parametrize("overrides", [[], DRAWN], ids=["clock", "drawn"])
def test_tables_and_summary_agree(tmp_path, overrides):
    done = run(Scenario.parse(DIGITS, "s", [*overrides, "trace=events"]), tmp_path)
    result, jobs = Result.open(done.path), pandas.read_csv(done.path / "jobs.csv")
    rounds, summary = result.rounds, result.summary
    assert len(rounds) == 40 and (rounds.cardinality == 4).all() and (rounds.skipped == 0).all()
    counts = Counter(jobs.outcome)
    assert summary["jobs"] == dict(sorted(counts.items()))
    assert summary["client_updates"] == counts["aggregated"] == 160
    assert summary["wasted_updates"] == rounds.failed.sum() == len(jobs) - counts["aggregated"] - counts["open"] > 0
    used = jobs[jobs.outcome == "aggregated"]
    assert sum(summary["staleness_histogram"]) == 160
    assert sum(i * n for i, n in enumerate(summary["staleness_histogram"])) == used.staleness.sum()
    for t, group in used.groupby("round"):
        assert rounds.staleness_mean[t] == group.staleness.mean() and rounds.staleness_max[t] == group.staleness.max()
        row = result.participation[[t], :].toarray()[0]
        np.testing.assert_allclose(row[group.client], (1.0 + group.staleness) ** -0.5)
        assert np.count_nonzero(row) == 4
    if not overrides:
        assert (used.staleness == used["round"] - used.version).all()
        assert 7 < summary["mean_concurrency"] <= 9
        assert used.staleness.max() > 1
    assert set(verify(done.path).values()) == {True}
    assert tables(done.path)["events.jsonl"].decode().count('"kind":"model"') == len(jobs)


PER_SAMPLE = """
clients: 24
devices: {computation: {name: per_sample, seconds: 0.02}}
selection: {name: random, k: 6}
training: {name: fedbuff, concurrency: 6, buffer: 4, lookahead: 12, rounds: 8, batch_size: 20}
learning: {data: digits, partition: iid, model: mlp}
privacy: none
trace: events
"""


def computed(folder):
    """Client, version of the model (0 in a synchronous round) and seconds of each completed work."""
    file = folder / "jobs.csv"
    versions = pandas.read_csv(file).set_index("job").version if file.exists() else Counter()
    for record in map(json.loads, (folder / "events.jsonl").read_text().splitlines()):
        if record["event"] == "compute" and record["completed"]:
            yield record["client"], versions[record["job"]], record["end_s"] - record["start_s"]


@pytest.mark.parametrize(
    "overrides",
    [[], ["selection={name: half_partition, k: 8, T: 2}"], ["training.weighting=equal", "secagg=basecagg"],
     ["network={name: star, latency_s: 0.1, server: {down_bytes_per_s: 1.0e+6, up_bytes_per_s: 1.0e+6}}"]],
    ids=["alone", "units of two", "secure aggregation", "shared link"],
)  # fmt: skip
def test_work_takes_as_long_as_the_samples_that_a_client_trains_on(tmp_path, overrides):
    """Data grow while clients wait in the queue: the version that they depart with counts, not the selection's."""
    first, speed = np.arange(24) % 5 * 4, 1 + np.arange(24) % 3
    growing = [
        f"learning.partition={{name: growing, first: {first.tolist()}, new: 5, versions: 9}}", "training.rounds=16",
        f"devices.computation.speed={speed.tolist()}",
    ]  # fmt: skip
    done = run(Scenario.parse(PER_SAMPLE, "s", [*growing, *overrides]), tmp_path)
    works = pandas.DataFrame(computed(done.path), columns=["client", "version", "seconds"])
    assert works.version.nunique() > 6 and works.version.max() > 8
    samples = first[works.client] + 5 * np.minimum(works.version, 8)
    np.testing.assert_allclose(works.seconds, 0.02 * speed[works.client] * samples, atol=1e-9)
    untraced = tables(run(Scenario.parse(PER_SAMPLE, "s", [*growing, *overrides, "trace=rounds"]), tmp_path).path)
    assert {name: data for name, data in tables(done.path).items() if name != "events.jsonl"} == untraced


def test_training_once_more_takes_time_with_and_without_a_buffer(tmp_path):
    """FedLTN trains once more where it prunes, which only training shows."""
    personal = ["learning.holdout={validation: 0.5}", "training.personal={name: fedltn, threshold: 0.15}"]
    rules = {"fedbuff": ["training.concurrency=24", "training.lookahead=24"],
             "fedavg": ["training={name: fedavg, rounds: 1, batch_size: 20}"]}  # fmt: skip
    took = []
    for name, rule in rules.items():
        done = run(Scenario.parse(PER_SAMPLE, "s", [*personal, "selection.k=24", *rule]), tmp_path / name)
        took.append({client: round(seconds / 0.02) for client, version, seconds in computed(done.path) if not version})
    assert took[0] == took[1] and len(took[0]) == 24
    assert 0 < sum(samples > 50 for samples in took[0].values()) < 24, "some have pruned"


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("overrides", [[], DRAWN, ["training.partial=true", "training.lookahead=12"], GROWING],
                         ids=["clock", "drawn", "partial", "growing"])  # fmt: skip
def test_interrupted_anywhere_and_resumed_gives_the_same_bytes(tmp_path, overrides):
    scenario = Scenario.parse(DIGITS, "s", [*overrides, "trace=events"])
    whole = tables(run(scenario, tmp_path / "whole").path)
    assert "jobs.csv" in whole
    rng, interrupted = np.random.default_rng(0), 0
    while True:
        left = int(rng.integers(1, 9))

        def stop(done, rounds, time_s, left=left, seen=Counter()):  # noqa: B006
            seen[left] += 1
            if seen[left] == left:
                raise Interrupted

        try:
            again = run(scenario, tmp_path / "again", resume=True, progress=stop)
            break
        except Interrupted:
            interrupted += 1
            if interrupted > 60:
                pytest.fail("no progress")
    assert interrupted >= 4 and tables(again.path) == whole
    assert not list(again.path.glob("*.part"))


def _resume(text, overrides, out):
    run(Scenario.parse(text, "s", overrides), out, resume=True)


def test_sigkills_at_random_moments_change_no_byte(tmp_path):
    """With training, in processes that a server forks with torch already loaded, so that a kill can come early."""
    overrides = ["training.rounds=600", "trace=events", "learning.evaluate.every=50"]
    scenario = Scenario.parse(DIGITS, "s", overrides)
    whole = run(scenario, tmp_path / "whole")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["simfl.runs.run", "simfl.learning.learner", "pandas", "scipy.sparse", __name__])
    rng, kills = np.random.default_rng(2), 0
    while True:
        process = context.Process(target=_resume, args=(DIGITS, overrides, tmp_path / "killed"))
        process.start()
        process.join(0.1 + 0.2 * rng.random() if kills < 20 else None)
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
    assert process.exitcode == 0 and kills >= 5  # a fast machine is done before the twentieth
    assert tables(tmp_path / "killed" / "asynchronous" / scenario.digest) == tables(whole.path)


def test_one_more_server_update_changes_no_earlier_row(tmp_path):
    short, long = (run(Scenario.parse(DIGITS, "s", [f"training.rounds={n}"]), tmp_path) for n in (20, 30))
    one, other = (pandas.read_csv(done.path / "rounds.csv") for done in (short, long))
    pandas.testing.assert_frame_equal(one, other.head(20))


def test_the_curve_of_clients_at_work_has_the_mean_concurrency_below_it(tmp_path):
    from simfl.report.figures import FIGURES
    from simfl.report.study_reader import read_study

    done = run(Scenario.parse(DIGITS, "s", ["learning=none"]), tmp_path)
    _, table = FIGURES["concurrency"](read_study([done.path]))
    assert table.at_work.max() <= 9 + 1e-9
    assert table.at_work.mean() == pytest.approx(done.summary["mean_concurrency"], rel=1e-9)


@pytest.mark.parametrize("arrivals", ["clock", "uniform_staleness:max=5"])
def test_clients_without_samples_have_no_staleness(tmp_path, arrivals):
    """Their jobs end as all others do, but they are in no sum: no number speaks of their age."""
    text = """
    clients: 12
    network: {name: star, latency_s: {name: log_normal, median: 0.2, sigma: 1}}
    selection: {name: random, k: 4}
    training: {name: fedbuff, rounds: 20, buffer: 3, concurrency: 8}
    learning:
      data: {name: synthetic, samples: 40, test_samples: 10, shape: [3], classes: 2}
      partition: {name: dirichlet, beta: 0.1, over: clients}
      model: logistic
    privacy: none
    """
    done = run(Scenario.parse(text, "s", [f"training.arrivals={arrivals}"]), tmp_path)
    jobs, clients = (pandas.read_csv(done.path / name) for name in ("jobs.csv", "clients.csv"))
    used = jobs[jobs.outcome == "aggregated"]
    held = used[used.client.isin(clients.client[clients.samples > 0])]
    assert 0 < len(held) < len(used) and held.staleness.sum() != used.staleness.sum()
    rounds = Result.open(done.path).rounds
    ages = held.groupby("round").staleness
    assert rounds.staleness_mean.dropna().tolist() == ages.mean().tolist()
    assert rounds.staleness_max.dropna().tolist() == ages.max().tolist()
    assert done.summary["client_updates"] == len(held) == rounds.cardinality.sum()
    assert done.summary["staleness_histogram"] == np.bincount(held.staleness.astype(int)).tolist()
