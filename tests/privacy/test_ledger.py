"""The ledger: both ends against the columns that existed before, the middle against every coalition, directly."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas
import pytest
from click.testing import CliRunner
from scipy.linalg import null_space
from scipy.sparse import csr_array

from simfl.cli import simfl
from simfl.core.types import SERVER
from simfl.deployment.audit import audit
from simfl.deployment.audit.log_ledger import ledger_of_log
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.ledger.coalitions import Errors, greedy
from simfl.privacy.ledger.ledger_columns import ledgers, of_clients, of_rounds
from simfl.privacy.ledger.noise_ledger import ledger, with_later_rounds
from simfl.privacy.multiround.matrix_metrics import trace
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario

BUDGET = 10**9


def direct(noised, exact, i, coalition):
    """|A x| at its least over x with x_i = 1, x = 0 in the coalition and E x = 0: written for this test."""
    others = [j for j in range(noised.shape[1]) if j != i and j not in coalition]
    free, start = np.eye(len(others)), np.zeros(len(others))
    if len(exact):
        start, *_ = np.linalg.lstsq(exact[:, others], -exact[:, i], rcond=1e-11)
        if np.abs(exact[:, others] @ start + exact[:, i]).max() > 1e-8:
            return np.inf
        free = null_space(exact[:, others], rcond=1e-11) if others else np.zeros((0, 0))
    left = noised[:, i] + noised[:, others] @ start
    ways = noised[:, others] @ free
    ways[np.abs(ways) < 1e-12] = 0
    best = np.linalg.lstsq(ways, -left, rcond=1e-11)[0] if free.size else np.zeros(free.shape[1])
    distance = np.linalg.norm(left + ways @ best)
    return 0.0 if distance < 1e-7 else distance


def worst(noised, exact, i, most):
    """What the worst coalitions of 0, 1, ... clients learn."""
    others = [j for j in range(noised.shape[1]) if j != i]
    found = [max(direct(noised, exact, i, c) for c in combinations(others, size)) for size in range(most + 1)]
    return np.maximum.accumulate(found)


def matrices(count, seed):
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, rounds = int(rng.integers(2, 7)), int(rng.integers(1, 8))
        P = (rng.random((rounds, n)) < rng.uniform(0.3, 0.9)).astype(float)
        if number % 3 == 1:
            P *= rng.choice([1.0, 0.5, 2.0, 3.0], P.shape)
        if number % 3 == 2:  # classes of some size
            P = np.repeat(P, rng.integers(1, 4, n), axis=1)[:, :6]
        yield P, rng.uniform(0.2, 2.0, rounds), rng


@pytest.mark.parametrize("noise", ["all", "none", "some"])
def test_every_coalition_of_small_matrices(noise):
    loose = finite = 0
    for P, mu, rng in matrices(36, {"all": 0, "none": 1, "some": 2}[noise]):
        if noise != "all":
            mu[rng.random(len(mu)) < (1.0 if noise == "none" else 0.4)] = np.inf
        n = P.shape[1]
        found = ledger(csr_array(P), mu, BUDGET, colluders=range(1, n))
        covered = np.isfinite(mu)
        for i in range(n):
            truth = worst(P[covered] * mu[covered, None], P[~covered], i, n - 1)
            assert found.last.alone[i] == pytest.approx(truth[0], abs=1e-6)
            assert found.last.everybody[i] == pytest.approx(truth[-1], abs=1e-6)
            for c in range(1, n):
                low, high = found.last.lower[c - 1, i], found.last.upper[c - 1, i]
                assert low <= truth[c] + 1e-6 and truth[c] <= high + 1e-6, (P.tolist(), mu.tolist(), i, c)
                loose += high > low + 1e-6
                finite += 0 < truth[c] < np.inf
                if c in (1, 2, n - 1):  # computed exactly
                    assert low == high
    assert loose < finite / 2 or noise == "none"
    assert finite or noise == "none"


def test_what_is_kept_from_round_to_round_is_what_the_rounds_say():
    """The factor that every sum updates gives, after each round, what the rounds so far give from scratch."""
    for P, mu, _ in matrices(12, 5):
        found = ledger(csr_array(P), mu, BUDGET)
        for t in range(len(P)):
            again = ledger(csr_array(P[: t + 1]), mu[: t + 1], BUDGET, every=0)
            assert found.worst.alone[t] == pytest.approx(again.last.alone.max(), abs=1e-6)
            assert found.worst.lower[0, t] == pytest.approx(again.last.lower[0].max(), abs=1e-6)
            assert found.worst.everybody[t] == pytest.approx(again.last.everybody.max())


def test_greedy_coalitions_learn_what_they_are_said_to_learn():
    """Against the same elimination carried out on whole matrices, one coalition after the other."""
    for P, mu, _ in matrices(30, 9):
        A = P * mu[:, None]
        gram, n = A.T @ A, P.shape[1]
        hidden = np.eye(n) - np.linalg.pinv(A, rcond=1e-10) @ A
        errors = Errors(hidden, np.linalg.pinv(gram, rcond=1e-10), np.zeros(n))
        learned = greedy(errors, n - 1)
        for i in range(n):
            assert learned[-1, i] == pytest.approx(np.sqrt(gram[i, i]), abs=1e-6)
            single = max([direct(A, A[:0], i, (j,)) for j in range(n) if j != i], default=0)
            assert learned[1, i] <= single + 1e-6


def test_without_noise_it_is_infinite_for_who_is_exposed_and_0_for_others():
    rng = np.random.default_rng(3)
    for _ in range(20):
        P = (rng.random((9, 10)) < 0.3).astype(float)
        found = ledger(csr_array(P), np.full(9, np.inf), BUDGET)
        exposed = {exposure.client for exposure in audit(P).exposed}
        assert {i for i in range(10) if np.isinf(found.last.alone[i])} == exposed
        assert set(np.unique(found.last.alone)) <= {0.0, np.inf}


def test_who_always_take_part_together_are_hidden_from_fewer_colluders():
    P = np.repeat(np.random.default_rng(0).random((40, 3)) < 0.7, 4, axis=1).astype(float)
    found = ledger(csr_array(P), np.ones(40), BUDGET, colluders=(1, 2, 3))
    assert (found.last.upper[:2] == 0).all() and (found.last.lower[2] > 0).all()


# -- runs ------------------------------------------------------------------------------------------

TEXT = """
clients: 20
selection: {name: random, k: 5}
training: {name: TRAINING, weighting: equal}
learning: {name: none, parameters: 4}
devices:
  availability: {name: bernoulli, dropout: 0.1}
  computation: {name: random, distribution: {name: half_normal, sigma: 1}}
"""
FEDAVG = TEXT.replace("TRAINING", "fedavg, rounds: 40")


def tables(text, out):
    folder = run(Scenario.parse(text, "ledger"), out).path
    return pandas.read_csv(folder / "rounds.csv"), pandas.read_csv(folder / "privacy.csv")


@pytest.mark.parametrize("stage", ["central_gaussian, noise_multiplier: 2", "tree_gaussian, noise_multiplier: 3"])
@pytest.mark.parametrize("training", ["fedavg, rounds: 40", "fedbuff, rounds: 40, concurrency: 10, buffer: 5"])
def test_with_all_others_it_is_what_the_accountant_composes(tmp_path, stage, training):
    text = TEXT.replace("TRAINING", training) + f"privacy: {{ledger: true, every: 10, stages: [{{name: {stage}}}]}}\n"
    rounds, clients = tables(text, tmp_path)
    assert np.allclose(gaussian.epsilon(clients["mu_all"].to_numpy(), 1e-5), clients["epsilon"], rtol=1e-6)
    assert (clients["mu_alone"] <= clients["mu_1_lower"]).all() and (clients["mu_8_upper"] <= clients["mu_all"]).all()
    assert clients["mu_alone"].max() == rounds["mu_alone"].iloc[-1] > 0
    assert rounds["mu_all"].notna().sum() == 4, "every tenth round"


SMALL = """
clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 7, weighting: WEIGHT}
learning: {data: digits, model: logistic}
devices: {availability: {name: bernoulli, dropout: 0.2}}
privacy: {ledger: true, stages: [{STAGE}]}
"""


def prefixes(P, z):
    """What is seen under tree noise: sums over all rounds so far, each with the noise of its blocks, whitened."""
    rounds = len(P)
    blocks = []
    for t in range(1, rounds + 1):
        end, parts = 0, set()
        for k in reversed(range(t.bit_length())):
            if t >> k & 1:
                parts.add((end, end + (1 << k)))
                end += 1 << k
        blocks.append(parts)
    every = sorted(set.union(*blocks))
    B = np.array([[float(block in parts) for block in every] for parts in blocks])
    return np.linalg.solve(np.linalg.cholesky(z * z * B @ B.T), np.tril(np.ones((rounds, rounds))) @ P)


@pytest.mark.parametrize(
    ("weight", "stage"),
    [
        ("equal", "central_gaussian, noise_multiplier: 2"),
        ("samples", "central_gaussian, noise_multiplier: 2, max_weight: 500"),
        ("equal", "tree_gaussian, noise_multiplier: 2"),
        ("samples", "tree_gaussian, noise_multiplier: 2, max_weight: 500"),
    ],
)
def test_runs_have_what_the_covariance_of_all_that_is_seen_says(tmp_path, weight, stage):
    """Every client against every coalition, from who took part and the samples alone."""
    text = SMALL.replace("WEIGHT", weight).replace("STAGE", f"name: {stage}")
    folder = run(Scenario.parse(text, "small"), tmp_path).path
    took_part, clients = pandas.read_csv(folder / "participation.csv"), pandas.read_csv(folder / "privacy.csv")
    P, z = np.zeros((7, 6)), 2.0
    P[took_part["round"], took_part["client"]] = 1
    if weight == "samples":
        P, z = P * pandas.read_csv(folder / "clients.csv")["samples"].to_numpy(), 1000.0
    seen = prefixes(P, z) if "tree" in stage else P / z
    for i, row in clients.iterrows():
        least = worst(seen, np.zeros((0, 6)), i, 5)
        exact = [row[name] for name in ("mu_alone", "mu_1_lower", "mu_1_upper", "mu_2_lower", "mu_2_upper", "mu_all")]
        assert exact == pytest.approx(least[[0, 1, 1, 2, 2, 5]], abs=1e-6)
        assert row["mu_4_lower"] - 1e-6 <= least[4] <= row["mu_4_upper"] + 1e-6


def test_without_noise_the_columns_say_who_is_exposed(tmp_path):
    rounds, clients = tables(FEDAVG + "privacy: {ledger: true}\n", tmp_path)
    assert rounds["mu_all"].iloc[0] != rounds["mu_all"].iloc[0] or rounds["cardinality"].iloc[0] == 0  # infinite: empty
    exposed = rounds["privacy_weak_upper"] == 1
    assert exposed.any() and rounds["mu_alone"].isna().equals(exposed)
    assert np.isinf(clients["mu_all"]).all()


@pytest.mark.parametrize("change", [("weighting: equal", "weighting: equal, aggregate: median"),
                                    ("fedavg, rounds: 40", "serverless, rounds: 6"),
                                    ("fedavg, rounds: 40", "fedavg, rounds: 8, quorum: 3")])  # fmt: skip
def test_beside_others(tmp_path, change):
    text = FEDAVG.replace(*change)
    text = text.replace("{name: random, k: 5}", "all") if "serverless" in text else text
    _, clients = tables(text + "privacy: {ledger: true}\n", tmp_path)
    assert (clients["mu_alone"] <= clients["mu_all"]).all()
    if "median" in text:
        assert np.isinf(clients["mu_alone"]).all()


def test_what_compressed_updates_tell_one_by_one_is_covered_by_noise_only(tmp_path):
    bare = FEDAVG + "compression: quantise\nprivacy: {ledger: true}\n"
    rounds, clients = tables(bare, tmp_path / "bare")
    assert rounds["mu_alone"].isna().all() and np.isinf(clients["mu_alone"]).all()


@pytest.mark.parametrize("compression", ["{name: top_k, share: 0.5}", "sign", "{name: quantise, bits: 4}",
                                         "{name: random_k, share: 0.5}"])  # fmt: skip
@pytest.mark.parametrize("training", ["fedavg, rounds: 4", "fedbuff, rounds: 4, concurrency: 10, buffer: 5"])
def test_noise_on_compressed_updates_is_refused(compression, training):
    """Whether codes do not add up, or are clipped in another way in each round."""
    text = TEXT.replace("TRAINING", training) + f"compression: {compression}\n"
    name = compression.strip("{}").replace("name: ", "").split(",")[0]
    for stage in ("central_gaussian", "tree_gaussian"):
        noised = f"privacy: {{ledger: true, stages: [{stage}]}}\n"
        with pytest.raises(InvalidScenario, match=f"privacy.ledger: .* but compression: {name} changes"):
            Scenario.parse(text + noised, "x")
    Scenario.parse(text + "privacy: {ledger: true}\n", "x")
    whole = text.replace(compression, "{name: random_k, share: 1}") + noised
    assert Scenario.parse(whole, "x"), "nothing is left out"


def test_one_coordinate_of_each_update_in_a_sum_tells_as_much_as_if_the_other_were_known():
    """No other update of one coordinate, of three, explains any of a change that a linear model hides altogether."""
    sent = [factor * unit for factor in np.linspace(-2, 2, 81) for unit in np.eye(3)]
    seen = np.array([1.0, 1, 0])
    here, there = (min(np.linalg.norm(seen - first - other) for other in sent) for first in ([1, 0, 0], [0.5, 0, 0]))
    assert here == pytest.approx(0) and there == pytest.approx(0.5), "as if the other update were known"
    assert ledger(csr_array(np.ones((1, 2))), np.ones(1), BUDGET).last.alone.tolist() == [0, 0]


HIDDEN = """
clients: 24
selection: {name: batch_partition, k: 12, T: 12}
training: {name: fedavg, rounds: 6, weighting: equal}
learning: {name: none, parameters: 4}
secagg: {name: secagg_plus, neighbours: 4, threshold: 3}
privacy: {ledger: true, stages: [STAGE]}
"""


@pytest.mark.parametrize("stage", ["", "central_gaussian"])
def test_more_colluders_than_the_protocol_tolerates_see_single_updates_unless_others_see_noise_only(tmp_path, stage):
    """Three neighbours of a client have shares enough to open its masks, two have not."""
    scenario = Scenario.parse(HIDDEN.replace("STAGE", stage), "hidden")
    folder = run(scenario, tmp_path).path
    rounds, clients = (pandas.read_csv(folder / name) for name in ("rounds.csv", "privacy.csv"))
    took_part = np.isin(np.arange(24), pandas.read_csv(folder / "participation.csv")["client"])
    for c in (1, 2, 4, 8):
        for end in ("lower", "upper"):
            opened = not stage and c > 2
            assert (np.isinf(clients[f"mu_{c}_{end}"]) == (took_part & opened)).all()
            assert (rounds[f"mu_{c}_{end}"].isna() == opened).all()
            assert not clients[f"mu_{c}_{end}"][~took_part].any() and (opened or not clients[f"mu_{c}_{end}"].any())
    said = ["audit", str(folder), "--ledger", *(["--noise", stage] if stage else [])]
    shown = CliRunner().invoke(simfl, said).stdout
    assert "and any 2" in shown and ("and any 4" in shown) == ("and any 8" in shown) == bool(stage)
    assert ("With more than 2 colluders of a sum, single updates are open" in shown) == (not stage)
    assert json.loads(CliRunner().invoke(simfl, [*said, "--json"]).stdout)["ledger"]["colluders"] == (
        [1, 2, 4, 8] if stage else [1, 2])  # fmt: skip


def test_who_is_opened_was_in_a_sum_that_tolerates_fewer():
    """A protocol that tolerates all but three members: one colluder in the sum of 0 to 3, three in that of 4 to 9."""
    P = np.zeros((2, 12))
    P[0, :4] = P[1, 4:10] = 1
    view, members = ObserverView.of_sums(csr_array(P)), np.diff(csr_array(P).indptr)
    tolerated = np.where(members > 0, members - 3.0, np.inf)
    history = History({SERVER: replace(view, tolerated=tolerated)})
    found = list(ledgers(history, lambda rows, who: rows, 1, BUDGET))
    clients, rounds = of_clients(history, found), of_rounds(history, found)
    for c, opened in ((1, []), (2, range(4)), (4, range(10)), (8, range(10))):
        assert np.flatnonzero(np.isinf(clients[f"mu_{c}_upper"])).tolist() == list(opened)
        first = [None if c > 1 else 0, None if c > 1 else 0]
        assert rounds[f"mu_{c}_lower"] == first


@pytest.mark.parametrize("noise", ["all", "none", "some"])
def test_bounds_after_the_budget_contain_what_an_unlimited_one_says(noise):
    partly = 0
    for number, (P, mu, rng) in enumerate(matrices(60, 5)):
        P = np.vstack([P] * 3) * rng.choice([1.0, 2.0], (3 * len(P), 1))
        mu = np.tile(mu, 3)
        if noise != "all":
            mu[rng.random(len(mu)) < (1.0 if noise == "none" else 0.3)] = np.inf
        rows = csr_array(P)
        every = int(rng.integers(1, 4))
        weak = trace(rows, every).weak_lower if number % 2 else None
        exact = ledger(rows, mu, BUDGET, every, weak=weak)
        found = ledger(rows, mu, int(rng.integers(0, 4 * P.size)), every, weak=weak)
        bounded = with_later_rounds(found, rows, mu, every, weak)
        partly += 0 < found.known < len(P)
        assert bounded.known == len(P) == exact.known
        due = ~np.isnan(exact.worst.alone)
        for each, truth, at in ((bounded.worst, exact.worst, due), (bounded.last, exact.last, slice(None))):
            assert each.everybody[at] == pytest.approx(truth.everybody[at], rel=1e-6)
            assert (each.alone[at] >= truth.alone[at] * (1 - 1e-6)).all()
            assert (each.upper[:, at] >= truth.lower[:, at] * (1 - 1e-6)).all()
            assert (each.lower[:, at] <= truth.upper[:, at] * (1 + 1e-6)).all()
            assert (each.lower[:, at] <= each.upper[:, at]).all()
    assert partly > 20


def test_after_the_budget_who_is_hidden_stays_so():
    P = np.repeat((np.random.default_rng(1).random((12, 6)) < 0.5).astype(float), 3, axis=1)  # classes of three
    rows, mu = csr_array(P), np.full(12, 0.5)
    none = ledger(rows, mu, 0)
    bounded = with_later_rounds(none, rows, mu, 1)
    assert none.known == 0 and not bounded.worst.alone.any() and not bounded.last.alone.any()
    assert not bounded.worst.upper[0].any(), "one colluder of three"
    assert (bounded.worst.upper[1] == bounded.worst.everybody).all(), "two of them"
    apart = csr_array(np.vstack([P, np.eye(18)[:1]]))
    weak = trace(apart, 1).weak_lower
    assert weak[-1] == 1 and (weak[:-1] >= 3).all()
    bounded = with_later_rounds(ledger(apart, np.full(13, 0.5), 0), apart, np.full(13, 0.5), 1, weak)
    assert not bounded.worst.alone[:-1].any() and not bounded.worst.upper[0, :-1].any()
    assert bounded.last.alone[0] == bounded.last.everybody[0] > 0 and not bounded.last.alone[3:].any()


def test_after_the_budget_a_run_has_bounds(tmp_path):
    noise = "stages: [{name: central_gaussian, noise_multiplier: 2}]"
    found = [tables(FEDAVG + f"privacy: {{ledger: true, {budget}{noise}}}\n", tmp_path / (budget[:3] or "all"))
             for budget in ("", "budget: 5000, ")]  # fmt: skip
    (rounds, clients), (bounded, of_clients) = found
    assert bounded["mu_alone"].notna().all() and not bounded.equals(rounds)
    for exact, loose in ((rounds, bounded), (clients, of_clients)):
        assert loose["mu_all"].to_numpy() == pytest.approx(exact["mu_all"].to_numpy())
        assert (loose["mu_alone"] >= exact["mu_alone"] - 1e-9).all()
        assert (loose["mu_alone"] > exact["mu_alone"] + 0.1).any()


# -- weights that may be rounded numbers -----------------------------------------------------------


def rounded_logs(count, seed):
    """Logs as they are written, the true weights, and how far apart they are, relatively."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, rounds = int(rng.integers(3, 6)), int(rng.integers(2, 7))
        took_part = rng.random((rounds, n)) < rng.uniform(0.4, 0.9)
        if number % 2:  # clients that always take part together
            took_part[:, 1] = took_part[:, 0]
        took_part[~took_part.any(axis=1), 0] = True
        kind, digits = number % 4, 2
        if kind == 0:  # equal numbers for unequal weights
            weights = rng.choice([0.33, 0.25, 0.57], (rounds, 1)) + rng.uniform(-0.0049, 0.0049, (rounds, n))
        elif kind == 1:
            digits, samples = 3, rng.integers(2, 9, n).astype(float)
            weights = samples / (took_part * samples).sum(axis=1, keepdims=True)
        else:  # equal numbers for equal weights
            digits, some = 6, rng.uniform(0.1, 0.9, 3)
            weights = rng.choice(some, (rounds, n))
            weights[:, 1] = np.where(rng.random(rounds) < 0.9, weights[:, 0], weights[:, 1])
        if kind > 1:
            plain = rng.random(rounds) < 0.5
            plain[0] |= kind == 3
            weights[plain] = 1.0
        truth = weights * took_part
        written = np.round(truth, digits)
        apart = np.abs(truth - written)[took_part] / truth[took_part]
        yield written, truth, float(apart.max()) + 1e-6


@pytest.mark.parametrize("noise", [None, "central_gaussian", "tree_gaussian"])
def test_bounds_contain_what_true_weights_say_that_round_to_the_log(noise):
    above, hidden, open_ = 0, 0, 0
    for written, truth, apart in rounded_logs(48, 11):
        n = truth.shape[1]
        report = audit(written, doubles=False)
        of = ledger_of_log(csr_array(written), noise and f"{noise}:noise_multiplier=2", colluders=range(1, n),
                           weak=report.trace.weak_lower).to_json()  # fmt: skip
        seen = np.zeros((0, n)) if noise is None else prefixes(truth, 2.0) if "tree" in noise else truth / 2
        exact, more, less = truth if noise is None else truth[:0], 1 / (1 - apart), 1 / (1 + apart)
        curve = {key: np.array(values, dtype=float) for key, values in of["clients"].items()}
        upper = [np.where(np.isnan(curve[key]), np.inf, curve[key]) for key in ("alone", "all")]
        lowest = np.where(of["infinite_alone"], np.inf, np.nan_to_num(curve["alone_lower"], nan=0.0))
        for i in range(n):
            right = worst(seen, exact, i, n - 1)
            assert lowest[i] * less - 1e-6 <= right[0] <= upper[0][i] * more + 1e-6, (written.tolist(), i)
            if np.isfinite(right[-1]) or np.isfinite(upper[1][i]):
                assert right[-1] == pytest.approx(upper[1][i], rel=1.1 * apart)
            for c in range(1, n):
                low, high = (curve[key][c - 1, i] for key in ("lower", "upper"))
                assert np.isnan(low) or low * less - 1e-6 <= right[c]
                assert np.isnan(high) or right[c] <= high * more + 1e-6, (written.tolist(), i, c)
            above += lowest[i] > 0
            hidden += upper[0][i] == 0
            open_ += lowest[i] < upper[0][i]
        if not noise:
            assert {e.client for e in report.exposed} <= set(np.flatnonzero(np.isinf(lowest)))
        assert report.doubtful == 0 or of["doubtful_weights"] and of["known_rounds"] == report.first_doubtful
    assert above > 5 and hidden > 5 and open_ > 20


def test_after_every_round_bounds_contain_what_true_weights_say():
    for written, truth, apart in rounded_logs(24, 12):
        rows = csr_array(written)
        of = ledger_of_log(rows, "central_gaussian:noise_multiplier=2", weak=audit(written).trace.weak_lower)
        more, less = 1 / (1 - apart), 1 / (1 + apart)
        true = ledger(csr_array(truth), np.full(len(truth), 0.5), BUDGET).worst
        lowest, whole = of.bounded.alone_lower[1], of.ledger.worst
        assert (lowest * less - 1e-6 <= true.alone).all() and (lowest <= whole.alone).all()
        assert (whole.lower <= whole.upper).all() and (whole.alone <= whole.everybody).all()
        assert (true.alone <= whole.alone * more + 1e-6).all()
        assert (whole.lower * less - 1e-6 <= true.upper).all()
        assert (true.lower <= whole.upper * more + 1e-6).all()
        assert whole.everybody == pytest.approx(true.everybody, rel=1.1 * apart)


def audited(tmp_path, rounds, *words):
    rows = [f"{t},{client},{weight}\n" for t, row in enumerate(rounds) for client, weight in row.items()]
    (tmp_path / "log.csv").write_text("round,client,weight\n" + "".join(rows))
    shown = CliRunner().invoke(simfl, ["audit", str(tmp_path / "log.csv"), "--ledger", *words])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_weights_of_two_digits_hide_nobody_and_expose_nobody(tmp_path):
    """True weights .334, .331, .326 in three orders are 0.33 each, and expose everybody."""
    rounds = [dict.fromkeys("abc", 0.33)] * 3
    shown = audited(tmp_path, rounds)
    assert "No client is exposed to the server for certain" in shown and "Some weights may be rounded numbers." in shown
    assert [line.split()[-2:] for line in shown.splitlines() if "the server alone" in line] == [["0..inf"] * 2]
    data = json.loads(audited(tmp_path, rounds, "--json"))["ledger"]
    assert data["known_rounds"] == 0 and data["doubtful_weights"]
    assert data["infinite_alone"] == [False] * 3 and data["may_be_infinite_alone"] == [True] * 3
    assert data["clients"]["alone_lower"] == [0, 0, 0] and data["clients"]["alone"] == [None] * 3
    assert data["trace"]["alone_lower"] == [0, 0, 0] and data["trace"]["alone"] == [None] * 3


def test_shares_of_three_digits_do_not_expose_who_is_always_together(tmp_path):
    samples = {"a": 2, "b": 3, "c": 4, "d": 6, "e": 7}
    rounds = [{i: round(samples[i] / sum(samples[j] for j in row), 3) for i in row}
              for row in ("abc", "abd", "abe", "abcd", "abce", "cde", "cd", "abde")]  # fmt: skip
    data = json.loads(audited(tmp_path, rounds, "--json"))["ledger"]
    assert not any(data["infinite_alone"]), "a and b never are"
    assert {"a", "b"} <= set("abcde"[i] for i in range(5) if data["may_be_infinite_alone"][i])


def test_certain_sums_expose_before_and_after_those_that_are_not_certain(tmp_path):
    rounds = [{"a": 1, "b": 1}, {"b": 1}, {"a": 0.331719, "c": 0.620433}, {"c": 1, "d": 1}, {"c": 1}]
    data = json.loads(audited(tmp_path, rounds, "--json"))
    exposed = [row["client"] for row in data["exposed"]]
    assert exposed and [i for i, open_ in zip("abcd", data["ledger"]["infinite_alone"], strict=True) if open_] == [
        *sorted(exposed)]  # fmt: skip
    assert data["ledger"]["known_rounds"] == 2


@pytest.mark.parametrize("noise", ["", ", stages: [{name: tree_gaussian, noise_multiplier: 2}]"])
def test_a_run_has_bounds_where_its_guarantees_do_not_trust_its_weights(tmp_path, noise):
    """(1 + staleness)^-0.37 is the root of no fraction."""
    text = TEXT.replace("TRAINING", "fedbuff, rounds: 30, concurrency: 10, buffer: 3, staleness: STALENESS")
    for staleness, certain in (("{name: polynomial, alpha: 0.5}", True), ("{name: polynomial, alpha: 0.37}", False)):
        scenario = text.replace("STALENESS", staleness) + f"privacy: {{ledger: true{noise}}}\n"
        rounds, clients = tables(scenario, tmp_path / str(certain))
        if not certain:
            assert (clients["mu_alone"] == clients["mu_all"]).all() and clients["mu_all"].any()
            assert (rounds["privacy_weak_lower"] < rounds["privacy_weak_upper"]).any()
        elif noise:
            assert (clients["mu_alone"] < clients["mu_all"]).any()


def test_sums_of_roots_over_several_rounds_are_decided_by_the_roots():
    """(1, √½) and √½ times it: the second noised sum adds both, and no fraction's root is 1 + √½."""
    P = np.array([[1, np.sqrt(0.5)], [np.sqrt(0.5), 0.5]])
    of = ledger_of_log(csr_array(P), "tree_gaussian:noise_multiplier=2", colluders=(1,), doubles=True).bounded
    assert of.exact == 2 and not of.whole.last.alone.any() and of.whole.last.everybody.all()


def test_noise_that_is_not_gaussian_in_the_sum_is_refused():
    for stage in ("local_gaussian", "laplace_shares, epsilon: 1", "adaptive_gaussian, bit_std: 3"):
        with pytest.raises(InvalidScenario, match="speaks of one stage of Gaussian noise that is added to the sum"):
            Scenario.parse(FEDAVG + f"privacy: {{ledger: true, stages: [{{name: {stage}}}]}}\n", "x")
    two = "{name: central_gaussian}, {name: tree_gaussian}"
    with pytest.raises(InvalidScenario, match="not of central_gaussian and tree_gaussian"):
        Scenario.parse(FEDAVG + f"privacy: {{ledger: true, stages: [{two}]}}\n", "x")


PAIRS = """
clients: 4
selection: {name: batch_partition, k: 2, T: 2}
training: {name: fedavg, rounds: 6, weighting: samples}
learning: {data: digits, model: logistic, partition: {name: growing, first: [5, 10, 20, 40], new: NEW, versions: 6}}
privacy: {ledger: true}
"""


def test_samples_that_change_and_weigh_are_refused_as_one_number_a_client_says_other_rows(tmp_path):
    """Of clients 0 and 1 in rounds 0 and 2 the server learns 5 x + 10 y and 25 x + 30 y, so x and y."""
    truth, said = np.array([[5.0, 10], [25, 30]]), np.array([[55.0, 60], [55, 60]])
    assert np.isinf(ledger(csr_array(truth), np.full(2, np.inf), BUDGET).last.alone).all()
    assert not ledger(csr_array(said), np.full(2, np.inf), BUDGET).last.alone.any()
    for stages in ("[]", "[{name: central_gaussian, max_weight: 1000}]"):
        with pytest.raises(InvalidScenario, match=r"privacy\.ledger: needs what every update counted, but .* change"):
            Scenario.parse(PAIRS.replace("NEW", "10"), "x", [f"privacy.stages={stages}"])
    Scenario.parse(PAIRS.replace("NEW", "10"), "x", ["training.weighting=equal"])
    assert not tables(PAIRS.replace("NEW", "0"), tmp_path)[1]["mu_alone"].any(), "the same in all rounds"


def test_without_it_a_scenario_keeps_its_digest():
    plain, said, asked = (Scenario.parse(FEDAVG + f"privacy: {text}\n", "x") for text in
                          ("multi_round", "{ledger: false}", "{ledger: true}"))  # fmt: skip
    assert plain.digest == said.digest != asked.digest and "ledger" not in plain.to_yaml()


# -- audit -----------------------------------------------------------------------------------------


def test_the_audit_has_it_in_words_data_page_and_picture(tmp_path):
    rng = np.random.default_rng(0)
    P = np.zeros((30, 12))
    for row in P:
        row[rng.choice(12, 4, replace=False)] = 1
    np.save(tmp_path / "log.npy", P)
    asked = ["audit", str(tmp_path / "log.npy"), "--ledger", "--colluders", "3", "--every", "10"]
    noisy = [*asked, "--noise", "central_gaussian:noise_multiplier=2"]
    files = ["--html", str(tmp_path / "a.html"), "--figure", str(tmp_path / "a.svg")]
    shown = CliRunner().invoke(simfl, [*noisy, *files])
    assert shown.exit_code == 0 and "and any 3" in shown.output and "and all others" in shown.output
    assert "Signal to noise" in (tmp_path / "a.html").read_text() and (tmp_path / "a.svg").exists()
    data = json.loads(CliRunner().invoke(simfl, [*noisy, "--json"]).stdout)["ledger"]
    assert data["colluders"] == [1, 2, 3, 4, 8]
    assert data["clients"]["all"] == pytest.approx((np.sqrt(P.sum(axis=0)) / 2).tolist(), rel=1e-6)
    assert "those who see the models alone" in shown.output and "the server alone" not in shown.output
    (tmp_path / "pair.csv").write_text("round,client\n0,a\n0,b\n")
    pair = CliRunner().invoke(simfl, ["audit", str(tmp_path / "pair.csv"), "--ledger"]).output
    assert "the server alone" in pair and "known best" not in pair, "nobody is known"
    silent = json.loads(CliRunner().invoke(simfl, [*asked, "--json"]).stdout)
    exposed = {row["client"] for row in silent["exposed"]}
    assert {i for i, open_ in enumerate(silent["ledger"]["infinite_alone"]) if open_} == exposed
    for wrong, message in ((["--colluder", "3"], "leave out --colluder"),
                           (["--noise", "local_gaussian"], "speaks of Gaussian noise")):  # fmt: skip
        refused = CliRunner().invoke(simfl, [*asked[:3], *wrong])
        assert refused.exit_code == 2 and message in refused.output
