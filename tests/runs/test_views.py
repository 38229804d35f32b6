"""What a run says that its observers received is what its messages, seen one by one in the trace, and linear algebra
over all masks say.
"""

import csv
import itertools
import json
import re
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.core.rng import Streams
from simfl.runs.accounting import view_of_run
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.neighbours import circle
from tests.secagg.test_views import pairwise_view, within
from tests.support.search import after_kills, impatient, whole
from tests.support.sizes import repeats

COLUMN = {"name": "random", "distribution": {"name": "uniform", "low": 0.5, "high": 30.0}}
BASE = {
    "name": "seen", "clients": 9, "seed": 3, "selection": {"name": "random", "k": 7},
    "learning": {"name": "none", "parameters": 10}, "network": {"name": "star", "latency_s": 0.5}, "trace": "events",
    "training": {"name": "fedavg", "rounds": 6, "weighting": "equal", "on_failure": "partial"},
    "devices": {"computation": COLUMN,
                "failure": {"name": "bernoulli", "probability": 0.1, "phases": {"unmask": 0.25}}},
}  # fmt: skip
PLUS = {"name": "secagg_plus", "neighbours": 4, "threshold": 2}


def scenario(**more):
    return Scenario.parse(json.dumps(BASE | more))


def table(path):
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def rounds_of(folder):
    """Of each round what the trace says: who was selected, and of each kind of message from clients who sent it."""
    found, now = [], None
    for event in map(json.loads, (folder / "events.jsonl").read_text().splitlines()):
        if event["event"] == "round_start":
            found.append(now := {})
        elif event["event"] == "message" and event["from"] != -1:
            now.setdefault(event["kind"], []).append(event["from"])
    return found


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("protocol", ["secagg", PLUS], ids=["secagg", "secagg_plus"])
def test_rows_of_known_colluders_are_those_of_linear_algebra(protocol, part, tmp_path):
    """From the trace alone: who shared, uploaded and answered; all masks; every combination without any."""
    kinds = Counter()
    for seed in range(part, repeats(8, 60), 2):
        made = scenario(seed=seed, secagg=protocol)
        folder, rng = run(made, tmp_path).path, np.random.default_rng(seed)
        summed = [{int(row["client"]) for row in table(folder / "participation.csv") if int(row["round"]) == t}
                  for t in range(6)]  # fmt: skip
        for size in (0, 1, 2, 4):
            coalition = sorted(rng.permutation(9)[:size].tolist())
            view = view_of_run(folder, "server", coalition)
            for t, heard in enumerate(rounds_of(folder)):
                if "update" not in heard:
                    continue
                cohort = cohort_of(folder, t, heard)
                n = len(cohort)
                sent, shared, answers = (np.isin(cohort, heard.get(kind, [])) for kind in ("update", "share", "unmask"))
                plan = type("Plan", (), {
                    "circle": circle(n, made.secagg.sizes(n)[0], Streams(seed)("secagg/circle", t)),
                    "threshold": made.secagg.sizes(n)[1],
                })  # fmt: skip
                inside = np.isin(cohort, list(summed[t])) if summed[t] else sent
                right = pairwise_view(
                    plan, shared, sent, answers, inside, set(np.flatnonzero(np.isin(cohort, coalition)))
                )
                rows = view.rows[view.round == t].toarray()[:, cohort].astype(np.int64)
                assert within(rows, right) and within(right, rows), (seed, t, coalition)
                kinds[bool(summed[t]), len(rows) > 0] += 1
    assert kinds[False, True] and kinds[True, True] and (kinds[False, False] or protocol == "secagg"), kinds


def cohort_of(folder, t, heard):
    """In the protocol's order: as messages.csv has it, or ascending where it leaves the round out."""
    for row in table(folder / "messages.csv"):
        if int(row["round"]) == t:
            found = np.array(row["clients"].split(), dtype=int)
            assert set(heard["update"]) <= set(found.tolist())
            return found
    return np.array(sorted(heard["share"]))


OTHERS = {
    "deadline": {"training": BASE["training"] | {"deadline_s": 20.0}},
    "aborted": {"training": BASE["training"] | {"on_failure": "abort"}},
    "buffered": {"training": {"name": "fedbuff", "rounds": 6, "weighting": "equal", "concurrency": 6, "buffer": 4,
                              "max_staleness": 1, "too_stale": "discard"}},
    "drawn": {"training": {"name": "fedbuff", "rounds": 6, "weighting": "equal", "concurrency": 6, "buffer": 4,
                           "arrivals": {"name": "uniform_staleness", "max": 4}, "max_staleness": 2}},
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_under_plain_every_upload_is_a_row_of_its_own(case, tmp_path):
    folder = run(scenario(secagg="plain", **OTHERS[case]), tmp_path).path
    view = view_of_run(folder, "server")
    sent = Counter(who for each in rounds_of(folder) for who in each.get("update", ()))
    assert set(np.diff(view.rows.indptr)) == {1}
    assert Counter(view.rows.indices.tolist()) == sent
    assert view_of_run(folder, "server", [3]).rows.shape[0] == sent.total() - sent[3]


@pytest.mark.parametrize("case", OTHERS)
def test_under_ideal_there_is_a_row_a_sum(case, tmp_path):
    folder = run(scenario(**OTHERS[case]), tmp_path).path
    view, P = view_of_run(folder, "server"), Counter(int(row["round"]) for row in table(folder / "participation.csv"))
    assert view.round.tolist() == sorted(P) and np.diff(view.rows.indptr).tolist() == [P[t] for t in sorted(P)]
    summed, sent = P.total(), sum(len(each.get("update", ())) for each in rounds_of(folder))
    alone = sum(len(event.clients) for event in view.events if not event.ended)
    assert summed + alone + sum((~event.summed).sum() for event in view.events if event.ended) == sent


ONE_SUM = [name for name, cls in PROTOCOLS.items() if cls.__module__.startswith("simfl.") and not cls.sums_units]


@pytest.mark.parametrize("protocol", ONE_SUM)
def test_nothing_is_stored_where_each_update_is_in_its_sum(protocol, tmp_path):
    fields = {"name": protocol} | {"secagg_plus": PLUS, "oblivious": {"epsilon": 1.0, "samples": 5}}.get(protocol, {})
    training = OTHERS["buffered"]["training"] | {"max_staleness": None} if protocol == "basecagg" else BASE["training"]
    made = scenario(secagg=fields, devices={"computation": 1.0}, training=training, selection={"name": "all"}
                    if protocol != "basecagg" else BASE["selection"])  # fmt: skip
    folder = run(made, tmp_path).path
    stored = table(folder / "messages.csv")
    assert not stored or protocol == "basecagg" and {row["round"] for row in stored} == {"5"}  # who was still at work
    view = view_of_run(folder, "server")
    assert view.rows.shape[0] == (6 * 9 if protocol == "plain" else 6)


@pytest.mark.parametrize("training", ["synchronous", *OTHERS])
def test_messages_take_no_more_than_participation(training, tmp_path):
    """Where most updates are in a sum; and they are the same bytes after a kill."""
    more = OTHERS.get(training, {})
    later = {"deadline_s": 29.8} if training == "deadline" else {}
    more = more | {"training": more.get("training", BASE["training"]) | {"rounds": 30} | later, "clients": 60}
    protocol = {} if more["training"]["name"] == "fedbuff" else {"secagg": PLUS}
    devices = {"computation": COLUMN, "failure": 0.02}
    made = scenario(selection={"name": "random", "k": 20}, devices=devices, privacy="none", **protocol, **more)
    folder = run(made, tmp_path / "once").path
    messages, participation = folder / "messages.csv", folder / "participation.csv"
    assert training == "aborted" or messages.stat().st_size <= 1.2 * participation.stat().st_size
    with impatient():
        expected, steps = whole(made, tmp_path / "whole")
        assert after_kills(made, tmp_path / "killed", [steps // 2]) == (expected, 1)


FAILED = BASE | {"secagg": PLUS, "seed": 18, "trace": "rounds"}


def call(*arguments, exit_code=0):
    done = CliRunner().invoke(simfl, [str(each) for each in arguments])
    assert done.exit_code == exit_code, done.output
    return done


def test_show_prints_what_was_received(tmp_path):
    folder = run(Scenario.parse(json.dumps(FAILED)), tmp_path).path
    said = json.loads(call("show", folder, "--view", "server", "--json").stdout)
    text, view = call("show", folder, "--view", "server").stdout, view_of_run(folder, "server")
    assert len(said["rounds"]) == 6 and said["observer"] == "server"
    for t, each in enumerate(said["rounds"]):
        assert each["rows"] == [
            {"clients": np.flatnonzero(row).tolist(), "coefficients": row[row != 0].tolist()}
            for row in view.rows[view.round == t].toarray()
        ]
        failed = [session["sent"] for session in each["sessions"] if not session["ended"]]
        (block,) = re.findall(rf"round {t} .*?(?=\nround|\Z)", text, re.DOTALL)
        assert ("messages in no sum" in block) == bool(failed)
        assert ("the sum of" in block) == any(len(row["clients"]) > 1 for row in each["rows"])
    client = json.loads(call("show", folder, "--view", "client/3", "--json").stdout)
    assert all(3 not in row["clients"] and not each["sessions"] for each in client["rounds"] for row in each["rows"])


@pytest.mark.parametrize(
    ("observer", "valid"), [("sever", "client/8"), ("client/9", "client/8"), ("client/-1", "server")]
)
def test_an_observer_that_is_none_is_named(observer, valid, tmp_path):
    folder = run(Scenario.parse(json.dumps(FAILED)), tmp_path).path
    (line,) = call("show", folder, "--view", observer, exit_code=2).stderr.splitlines()
    assert observer in line and valid in line


def test_noise_and_whoever_aggregates_are_in_the_view(tmp_path):
    stages = [{"name": "central_gaussian", "clip_norm": 2.0, "noise_multiplier": 1.5}]
    folder = run(scenario(privacy={"stages": stages}), tmp_path).path
    (term,) = view_of_run(folder, "client/2").noise
    assert (term.stage, term.where, term.address) == ("central_gaussian", "server", "aggregation")
    assert set(term.std[~np.isnan(term.std)]) == {3.0}
    folder = run(scenario(training={"name": "serverless", "rounds": 2}, selection="all", trace="rounds"), tmp_path).path
    view = view_of_run(folder, "client/1")
    assert view.rows.shape[0] and not view.rows[:, [1]].nnz
    assert "client/0" in call("show", folder, "--view", "server", exit_code=2).stderr


def test_audit_of_known_colluders_is_exact(tmp_path):
    """Two of them who hold no seats around anybody learn nothing of a failed round, which two others would open."""
    folder = run(Scenario.parse(json.dumps(FAILED | {"secagg": PLUS | {"threshold": 3}})), tmp_path).path
    found = set()
    for pair in itertools.combinations(range(9), 2):
        view = view_of_run(folder, "server", pair)
        names = [f"--colluder={name}" for name in pair]
        said = json.loads(call("audit", folder, "--json", *names).stdout)
        ranks = np.linalg.matrix_rank(view.rows.toarray()) if view.rows.shape[0] else 0
        assert said["rank"] == ranks and said["colluding"] == list(pair)
        found.add(said["rank"])
    assert len(found) > 1
