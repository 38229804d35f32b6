"""Rounds that go on with a quorum: in whole units, by brute force; with all clients, byte for byte without one."""

import csv

import numpy as np
import pytest

from simfl.agents.aggregation.exchange import Delays, exchange
from simfl.api.result_objects import Result
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.secagg.sessions import PhaseRequest
from simfl.selection.theory.expected_cardinality import theory
from tests.agents.test_synchronous import BYTES, Fixed, play

SCENARIO = """
clients: 24
network: {name: star, latency_s: {name: exponential, mean: 0.3}}
devices:
  computation: {name: random, distribution: {name: log_normal, median: 0.2, sigma: 0.7}}
  availability: {name: bernoulli, dropout: 0.1}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: batch_partition, k: 12, T: 3}
training: {name: fedavg, rounds: 8}
learning: {name: none, parameters: 10}
trace: events
"""


def written(text, folder):
    """The tables of a run, without the column ``late``."""
    done = run(Scenario.parse(text, "late"), folder).path
    files = {name: (done / name).read_text() for name in ("participation.csv", "events.jsonl")}
    with open(done / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return files, [{k: v for k, v in row.items() if k != "late"} for row in rows], rows


def with_quorum(quorum, text=SCENARIO):
    return text.replace("rounds: 8}", f"rounds: 8, quorum: {quorum}}}")


# -- one exchange ----------------------------------------------------------------------------------


def by_steps(arrives_s, lives, unit, quorum, deadline_s):
    """One arrival after another: when the server goes on, whose answers it has, and who is no longer waited for."""
    groups = [range(i, i + unit) for i in range(0, len(arrives_s), unit)]
    heard = set()
    for now in sorted({*arrives_s, *([] if deadline_s is None else [deadline_s])}):
        heard |= {i for i, when in enumerate(arrives_s) if when == now}
        answered = {i for i in heard if lives[i]}
        if sum(unit for group in groups if answered.issuperset(group)) >= quorum:
            return now, answered, set(range(len(arrives_s))) - heard
        if len(heard) == len(arrives_s) or now == deadline_s:
            return now, answered, set()
    raise AssertionError


@pytest.mark.parametrize("seed", range(300))
def test_an_exchange_is_what_single_arrivals_say(seed):
    rng = np.random.default_rng(seed)
    unit = int(rng.integers(1, 4))
    n = unit * int(rng.integers(1, 6))
    arrives = rng.integers(1, 9, n).astype(float) if seed % 2 else rng.uniform(1, 9, n)
    lives, quorum = rng.random(n) < 0.8, int(rng.integers(1, n + 2))
    deadline = [None, 3.0, 6.0][seed % 3]
    zero = np.zeros(n)
    delays = Delays(zero, zero, arrives, lives, zero.astype(int), np.where(lives, BYTES, 0), zero.astype(int))
    request = PhaseRequest("work", np.arange(n, dtype=np.int32), quorum=quorum, deadline_s=deadline, unit=unit)
    one = exchange(request, delays, 0.0)
    ends, answered, late = by_steps(arrives.tolist(), lives.tolist(), unit, quorum, deadline)
    assert one.ends_s == ends
    assert set(np.flatnonzero(one.responded).tolist()) == answered
    assert set(np.flatnonzero(one.late).tolist()) == late
    assert one.bytes_up == BYTES * len(answered)


# -- one round -------------------------------------------------------------------------------------

PAIRS = [[0, 1], [2, 3], [4, 5]]


def test_a_round_goes_on_with_the_whole_units_that_have_arrived():
    fixed = Fixed([1.0, 4.0, 2.0, 3.0, 0.5, 9.0], units=PAIRS)
    server, (only,), events = play(fixed, quorum=1)
    assert only.row["time_s"] == 6.0 and only.clients.tolist() == [2, 3], "client 4 was faster, its fellow was not"
    assert (only.row["late"], only.row["failed"]) == (2, 0)
    assert (only.row["bytes_down"], only.row["bytes_up"]) == (6 * BYTES, 4 * BYTES)
    assert server.parts.learner.trained == [[2, 3]]
    assert [e["client"] for e in events if e["event"] == "cancel"] == [1, 5]


def test_a_quorum_between_two_units_waits_for_the_second():
    _, (only,), _ = play(Fixed([1.0, 4.0, 2.0, 3.0, 0.5, 9.0], units=PAIRS), quorum=3)
    assert only.row["time_s"] == 8.0 and only.clients.tolist() == [0, 1, 2, 3] and only.row["late"] == 1


def test_partial_counts_single_clients():
    _, (only,), _ = play(Fixed([1.0, 4.0, 2.0, 3.0, 0.5, 9.0], units=PAIRS), quorum=3, on_failure="partial")
    assert only.row["time_s"] == 4.0 and only.clients.tolist() == [0, 2, 4] and only.row["late"] == 3


def test_a_quorum_that_cannot_be_reached_waits_for_all():
    fixed = Fixed([1.0, 4.0, 2.0, 3.0], units=PAIRS[:2], deaths={(0, 0): 0.5})
    _, (only,), _ = play(fixed, quorum=3)
    assert only.row["time_s"] == 8.0 and only.clients.tolist() == [2, 3]
    assert (only.row["late"], only.row["failed"]) == (0, 1)


def test_who_misses_the_deadline_before_the_quorum_has_failed():
    _, (only,), _ = play(Fixed([1.0, 2.0, 3.0]), quorum=3, deadline_s=4.0)
    assert only.row["time_s"] == 4.0 and (only.row["late"], only.row["failed"]) == (0, 1)


@pytest.mark.parametrize(("quorum", "summed", "row"), [(1, [1], (2, 0)), (2, [], (1, 1))])
def test_abort_is_for_failures_before_the_quorum(quorum, summed, row):
    fixed = Fixed([2.0, 1.0, 3.0], deaths={(0, 0): 0.5})
    _, (only,), _ = play(fixed, quorum=quorum, on_failure="abort")
    assert only.clients.tolist() == summed
    assert (only.row["late"], only.row["failed"]) == (row if summed else (0, 2))


# -- whole runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("quorum", ["12", "1.0"])
@pytest.mark.parametrize("on_failure", ["drop_unit", "partial", "abort"])
@pytest.mark.parametrize("secagg", ["plain", "secagg", "lightsecagg"])
def test_a_quorum_of_all_changes_no_byte(tmp_path, quorum, on_failure, secagg):
    text = SCENARIO.replace("rounds: 8}", f"rounds: 8, on_failure: {on_failure}}}") + f"secagg: {secagg}\n"
    text = text.replace("rounds: 8,", "rounds: 8, weighting: equal,")
    files, rows, _ = written(text, tmp_path)
    same, same_rows, all_rows = written(text.replace("rounds: 8,", f"rounds: 8, quorum: {quorum},"), tmp_path)
    assert same == files and same_rows == rows
    assert {row["late"] for row in all_rows} == {"0"}


@pytest.mark.parametrize("secagg", ["ideal", "secagg", "secagg_plus", "lightsecagg"])
def test_units_stay_whole_under_every_protocol_and_rounds_are_shorter(tmp_path, secagg):
    text = SCENARIO.replace("rounds: 8}", "rounds: 8, weighting: equal}") + f"secagg: {secagg}\n"
    _, slow, _ = written(text, tmp_path)
    _, _, rows = written(text.replace("rounds: 8,", "rounds: 8, quorum: 0.5,"), tmp_path)
    done = run(Scenario.parse(text.replace("rounds: 8,", "rounds: 8, quorum: 0.5,"), "late"), tmp_path).path
    result = Result.open(done)
    sums = [set(np.flatnonzero(row).tolist()) for row in result.participation.toarray() if row.any()]
    assert all(members >= set(range(3 * (c // 3), 3 * (c // 3) + 3)) for members in sums for c in members)
    assert sum(int(row["late"]) for row in rows) > 0
    assert all(int(row["cardinality"]) in (0, 6) for row in rows if int(row["late"])), (
        "the quorum, if all phases went well"
    )
    assert float(rows[-1]["time_s"]) < float(slow[-1]["time_s"])
    assert result.rounds.privacy_semi_strong.min() >= 3


def test_a_share_is_rounded_up_to_whole_clients():
    rule = Scenario.parse(with_quorum(0.1), "quorum").training
    assert [rule.quorum_clients(n) for n in (1, 10, 11, 30)] == [1, 1, 2, 3]


# -- digests, messages, certificates ---------------------------------------------------------------


def test_scenarios_without_a_quorum_keep_their_form_and_digest():
    without, null, some = (Scenario.parse(text, "late") for text in (SCENARIO, with_quorum("null"), with_quorum(6)))
    assert without.digest == null.digest != some.digest
    assert "quorum" not in without.to_yaml() == null.to_yaml()
    assert Scenario.parse(some.to_yaml(), "late").digest == some.digest


@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        ("13", "training.quorum: is 13, but selection selects 12 clients; use at most 12"),
        ("0", "training.quorum"),
        ("1.5", "training.quorum"),
        ("most", "training.quorum"),
    ],
)
def test_an_impossible_quorum_is_named(quorum, said):
    with pytest.raises(InvalidScenario) as refusal:
        Scenario.parse(with_quorum(quorum), "quorum")
    assert said in str(refusal.value)


def test_theory_says_what_it_no_longer_knows():
    known, unknown = (theory(Scenario.parse(text, "quorum")) for text in (SCENARIO, with_quorum(6)))
    assert known["expected_cardinality"] > 0 and unknown["expected_cardinality"] is None
    assert unknown["left_out"] == ["training.quorum"]
    assert unknown["guarantee"] == known["guarantee"] == {"strong": 3, "semi_strong": 3, "weak": 3}


@pytest.mark.parametrize(("selection", "sampling"), [("{name: random, k: 6}", "fixed_size"),
                                                     ("{name: bernoulli, k: 6}", "poisson")])  # fmt: skip
def test_no_amplification_where_the_fastest_are_summed(selection, sampling):
    text = f"""
clients: 24
selection: {selection}
training: {{name: fedavg, rounds: 3, weighting: equal, denominator: 6.0}}
learning: {{name: none, parameters: 10}}
privacy: {{stages: [{{name: central_gaussian, clip_norm: 1.0, noise_multiplier: 1.0}}],
           accountants: [{{name: rdp, amplification: {sampling}}}]}}
"""
    Scenario.parse(text, "quorum")
    with pytest.raises(InvalidScenario, match=r"set training\.quorum to null"):
        Scenario.parse(text.replace("rounds: 3,", "rounds: 3, quorum: 0.5,"), "quorum")


def test_an_expected_number_of_clients_is_not_known():
    text = with_quorum(6).replace("quorum: 6", "quorum: 6, denominator: expected")
    with pytest.raises(InvalidScenario, match="the fastest decide"):
        Scenario.parse(text, "quorum")
