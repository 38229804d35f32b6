"""Epsilon: of real rounds, of claimed samples, of logs; refused where nothing is known."""

import json
from math import ceil

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from simfl.cli import simfl as command
from simfl.core.errors import IntegrityError
from simfl.core.types import SERVER
from simfl.privacy.accountant import History, history_of_log
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.accountants.pld_and_rdp import Pld, Rdp
from simfl.privacy.dp.losses import epsilon_timeline, noised_weights
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import STAGES
from simfl.results.folder import ResultsFolder
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.plugins.test_public_interface import BASE, FEDAVG, FEDBUFF, rows
from tests.privacy.test_dp_stages import scenario
from tests.support.privacy_losses import own_loss

pytestmark = pytest.mark.usefixtures("sweeps_here")


def central(z):
    return STAGES.of({"name": "central_gaussian", "noise_multiplier": z})


def epsilons(P, stage, delta=1e-5):
    return epsilon_timeline(history_of_log(stage, csr_array(np.asarray(P, dtype=float)), 10), delta)


# -- zero-out over real rounds --------------------------------------------------------------------------------


def test_known_participations_cost_what_they_cost():
    P = np.zeros((100, 3))
    P[::10, 0] = 1
    P[:, 1] = 1
    found = epsilons(P, central(2.0))
    assert found.last.tolist() == pytest.approx([7.5113, float(gaussian.epsilon(5.0, 1e-5)), 0.0], abs=5e-5)
    assert found.most[-1] == found.last[1] and found.median[-1] == found.last[0]
    assert epsilons(np.ones((60, 1)), central(10.0), 1e-6).last == pytest.approx([3.6624], abs=5e-5)


def test_a_buffers_weights_count():
    found = epsilons([[1.0], [0.5], [1 / 3]], central(10.0))
    assert found.last == pytest.approx([0.40296], abs=5e-6)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_the_course_is_what_each_prefix_comes_to(rounds, clients, seed):
    rng = np.random.Generator(np.random.Philox(seed))
    P = rng.choice([0.0, 0.0, 0.5, 1.0, 1 / 3], size=(rounds, clients))
    found = epsilons(P, central(1.5))
    for t in range(rounds):
        each = gaussian.epsilon(np.sqrt((P[: t + 1] ** 2).sum(axis=0)) / 1.5, 1e-5)
        assert found.most[t] == pytest.approx(each.max()) and found.median[t] == pytest.approx(np.median(each))
    np.testing.assert_allclose(found.last, each)


def test_samples_are_weights():
    stage = STAGES.of({"name": "central_gaussian", "noise_multiplier": 2.0, "max_weight": 50})
    P = csr_array(np.array([[1.0, 1.0], [1.0, 0.0]]))
    facts = history_of_log(stage, P, 3).facts
    seen = History({SERVER: ObserverView.of_sums(P)}, facts, samples=np.array([10, 50]), stages=(stage,))
    mu = np.array([2**0.5 * 10, 50]) / (2.0 * 50)
    np.testing.assert_allclose(epsilon_timeline(seen, 1e-5).last, gaussian.epsilon(mu, 1e-5))


def blocks_by_hand(t):
    """The blocks that the first t aggregates are made of, as ranges: greedily the largest powers of two."""
    found, begin = [], 0
    while t:
        size = 1 << (t.bit_length() - 1)
        found.append((begin, begin + size))
        begin, t = begin + size, t - size
    return found


@given(st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_tree_costs_what_its_blocks_cost(rounds, seed):
    P = np.random.Generator(np.random.Philox(seed)).choice([0.0, 1.0, 0.5], size=(rounds, 4))
    summed = P[P.any(axis=1)]
    used = {block for t in range(1, len(summed) + 1) for block in blocks_by_hand(t)}
    squares = sum((summed[a:b].sum(axis=0) ** 2 for a, b in used), start=np.zeros(4)) / 3.0**2
    stage = STAGES.of({"name": "tree_gaussian", "noise_multiplier": 3.0})
    np.testing.assert_allclose(epsilons(P, stage).last, gaussian.epsilon(np.sqrt(squares), 1e-5), rtol=1e-9)


def test_one_participation_in_a_tree_is_the_published_one():
    """rho = h / 2z², h = floor(log2 T) + 1; dp-accounting says the same of its Renyi divergences."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    P = np.zeros((100, 1))
    P[0] = 1
    stage = STAGES.of({"name": "tree_gaussian", "noise_multiplier": 4.0})
    assert epsilons(np.hstack([P, 1 - P]), stage).last[0] == pytest.approx(float(gaussian.epsilon(7**0.5 / 4, 1e-5)))
    event = dp.SingleEpochTreeAggregationDpEvent(4.0, step_counts=[100])
    theirs = rdp.RdpAccountant([8.0], dp.NeighboringRelation.REPLACE_SPECIAL).compose(event)
    assert theirs._rdp[0] == pytest.approx(8 * 7 / (2 * 4.0**2))


def test_pure_epsilons_add_up_and_weights_do_not_help():
    stage = STAGES.of({"name": "local_laplace", "epsilon": 0.5})
    found = epsilons([[1, 0.1], [1, 0], [1, 0.1]], stage)
    assert found.last.tolist() == [1.5, 1.0] and found.median.tolist() == [0.5, 0.75, 1.25]


def test_a_stale_update_with_local_noise_costs_as_much_as_a_fresh_one():
    stage = STAGES.of({"name": "local_gaussian", "epsilon": 1.0})
    assert epsilons([[0.1]], stage).last == pytest.approx([1.0])


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian", "laplace_shares"])
def test_epsilon_is_of_those_who_survived(name):
    """Of eight sharers eight, six, five take part; and colluders' shares do not count."""
    stage = STAGES.of({"name": name, "sharers": 8, **({} if "laplace" in name else {"bits": 20})})
    P = np.zeros((3, 8))
    P[0], P[1, 2:], P[2, 3:] = 1, 1, 1
    alone = [epsilons(P[[t]], stage).last.max() for t in range(3)]
    assert alone[0] < alone[1] < alone[2] < np.inf
    told = STAGES.of({"name": name, "sharers": 8, "colluders": 2, **({} if "laplace" in name else {"bits": 20})})
    assert epsilons(P[[0]], told).last.max() == pytest.approx(alone[1])
    near = float(gaussian.epsilon(1.0, 1e-5))
    if "laplace" not in name:  # nearly the continuous noise of the same size, by Renyi divergences
        assert near < alone[0] < near * 1.15
    else:
        assert alone[0] == 1.0 and epsilons(P[[2], 4:], stage).last.max() == np.inf


def test_a_run_restates_epsilon_and_seals_it(tmp_path):
    done = run(scenario("skellam", FEDAVG, "training.on_failure=partial", "devices.failure.probability=0.4"), tmp_path)
    facts = [row for row in rows(done.path, "facts.csv") if row["name"] == "honest"]
    cardinality = {int(row["round"]): int(row["cardinality"]) for row in rows(done.path, "rounds.csv")}
    assert all(float(row["value"]) == cardinality[int(row["round"])] for row in facts)
    assert len(set(cardinality.values())) > 1
    assert "privacy.csv" in ResultsFolder.open(done.path).files and all(verify(done.path).values())
    (done.path / "privacy.csv").write_text("client,epsilon\n")
    with pytest.raises(IntegrityError, match=r"privacy\.csv"):
        ResultsFolder.open(done.path).check()


def test_a_buffered_runs_weights_are_those_of_its_rows(tmp_path):
    text = BASE + FEDBUFF + "privacy: {name: none, stages: [{name: central_gaussian, noise_multiplier: 5}]}\n"
    done = run(Scenario.parse(text, "buff", ("training.weighting=equal",)), tmp_path)
    squares = np.zeros(12)
    for row in rows(done.path, "participation.csv"):
        squares[int(row["client"])] += float(row["weight"]) ** 2
    assert len({row["weight"] for row in rows(done.path, "participation.csv")}) > 1, "staleness matters here"
    expected = gaussian.epsilon(np.sqrt(squares) / 5, 1e-5)
    found = [float(row["epsilon"]) for row in rows(done.path, "privacy.csv")]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_nothing_is_accounted_where_nothing_protects():
    assert scenario("clipping").privacy.accountants == () and "accountants: []" in scenario("clipping").to_yaml()
    assert [a.name for a in scenario("central_gaussian").privacy.accountants] == ["zero_out"]
    assert scenario("central_gaussian", FEDAVG, "privacy.accountants=[]").privacy.accountants == ()


def test_epsilon_stands_beside_the_guarantees_in_comparisons_and_reports(tmp_path, no_pictures):
    import simfl
    from simfl.report.html_page import page
    from simfl.report.study_reader import read_study

    file = tmp_path / "dp.yaml"
    file.write_text(BASE + FEDAVG.replace("}", ", weighting: equal}") + "privacy: {stages: [central_gaussian]}\n")
    choices = {"selection": ["random:k=4", "partition:k=4"], "training.rounds": 3}
    compared = simfl.compare(file, choices, replications=2, out=tmp_path / "out", jobs=1)
    assert {"epsilon_max", "epsilon_median", "privacy_semi_strong"} <= set(compared.paired.metric)
    text = page(read_study([next((tmp_path / "out").glob("*/*/summary.json")).parent]))
    assert "Largest ε" in text and "Median ε" in text


# -- claimed samples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("z, q, rounds, delta, renyi, exact", [
    (0.8, 0.01, 1000, 1e-5, 3.6956, 3.1410), (1.1, 0.1, 200, 1e-5, 9.2508, 8.3842),
    (1.0, 0.01, 1000, 1e-5, 2.1014, 1.8282), (2.0, 0.1, 600, 1e-5, 6.6822, 6.1602),
    (1.0, 1.0, 1, 1e-5, 4.7285, 4.3772), (4.0, 1.0, 100, 1e-5, 14.1322, 13.2067), (10.0, 1.0, 60, 1e-6, 3.9201, 3.6624),
])  # fmt: skip
def test_the_library_says_the_published_values(z, q, rounds, delta, renyi, exact):
    pytest.importorskip("dp_accounting")
    keys = {"delta": delta, "amplification": "poisson", "rate": q}
    assert Rdp(**keys).of_sample(1 / z, rounds, 100) == pytest.approx(renyi, abs=5e-5)
    assert Pld(**keys).of_sample(1 / z, rounds, 100) == pytest.approx(exact, abs=5e-5)
    if q == 1:
        assert float(gaussian.epsilon(rounds**0.5 / z, delta)) == pytest.approx(exact, abs=5e-5)


def test_without_a_claim_the_library_agrees_with_the_closed_form():
    pytest.importorskip("dp_accounting")
    P = csr_array(np.array([[1.0, 0], [0.5, 1], [1 / 3, 0]]))
    seen = history_of_log(central(10.0), P, 3)
    (*before, last) = Pld(delta=1e-5).epsilons(seen)
    assert before == [None, None] and last == pytest.approx(0.40296, abs=5e-6)
    assert noised_weights(seen, own_loss(seen.stages[0], seen.facts[0])).toarray().tolist() == P.toarray().tolist()


def test_replacing_one_update_moves_a_sum_twice_as_far():
    """The library's Renyi accountant forgets it: with all clients in every round, half the noise must be said."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    replace = pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE).compose(dp.GaussianDpEvent(1.0)).get_epsilon(1e-5)
    found = Rdp(delta=1e-5, amplification="fixed_size", rate=1.0).of_sample(1.0, 1, 10)
    assert replace == pytest.approx(9.9973, abs=5e-5) and replace < found < 1.1 * replace


EXPECTED = "training.denominator=expected"
COINS = "selection={name: bernoulli, k: 4}"
FIXED = "selection={name: random, k: 4}"
HERE = ("devices.availability=always", "devices.failure=none")


def claimed(accountant, claim, *overrides, stage="central_gaussian", training=FEDAVG):
    accountants = f"privacy.accountants=[{{name: {accountant}, amplification: {claim}}}]"
    return scenario(stage, training, accountants, *overrides)


def test_claims_that_hold_are_taken_with_their_rate():
    pytest.importorskip("dp_accounting")
    (one,) = claimed("pld", "poisson", COINS, EXPECTED).privacy.accountants
    assert one.rate == pytest.approx(4 / (12 * 0.9)), "of an available client"
    (other,) = claimed("rdp", "fixed_size", FIXED, *HERE).privacy.accountants
    assert other.rate == pytest.approx(4 / 12)


@pytest.mark.parametrize("accountant, claim, overrides, more, why", [
    ("pld", "poisson", [FIXED], {}, "selection: bernoulli"),
    ("rdp", "fixed_size", [COINS], {}, "selection: random"),
    ("rdp", "fixed_size", [FIXED], {}, "all clients to be available"),
    ("rdp", "fixed_size", [FIXED, "devices.availability=always"], {}, "none to fail"),
    ("pld", "fixed_size", [FIXED, *HERE], {}, "accountant rdp"),
    ("pld", "poisson", ["selection={name: batch_partition, k: 4, T: 2}"], {}, "does not draw so"),
    ("pld", "poisson", [COINS], {"stage": "local_gaussian"}, "sees who takes part"),
    ("pld", "poisson", [COINS], {"stage": "tree_gaussian"}, "lasts over rounds"),
    ("pld", "none", [FIXED], {"stage": "skellam"}, "use zero_out"),
    ("rdp", "none", [FIXED], {"stage": "local_laplace"}, "use zero_out"),
    ("pld", "poisson", [COINS, "training.weighting=samples", "privacy.stages.0.max_weight=99"], {}, "weighting: equal"),
    ("pld", "poisson", [COINS, "privacy.accountants.0.rate=0.1"], {}, "selected with"),
    ("rdp", "poisson", [FIXED], {"training": FEDBUFF}, "no samples"),
])  # fmt: skip
def test_claims_that_do_not_hold_are_refused_with_the_reason(accountant, claim, overrides, more, why):
    pytest.importorskip("dp_accounting")
    with pytest.raises(InvalidScenario, match=why):
        claimed(accountant, claim, *overrides, **more)


def test_without_the_library_its_extra_is_named(monkeypatch):
    from simfl.core.errors import MissingError

    monkeypatch.setattr("simfl.privacy.dp.accountants.pld_and_rdp.find_spec", lambda name: None)
    with pytest.raises(MissingError, match=r"simfl\[dp\]"):
        claimed("pld", "none", FIXED)


def test_a_run_with_a_claim_says_what_the_claim_hides(tmp_path):
    pytest.importorskip("dp_accounting")
    both = "privacy.accountants=[zero_out, {name: rdp, amplification: poisson, every: 2}, rdp]"
    with pytest.raises(InvalidScenario, match="does not draw so"):
        scenario("central_gaussian", FEDAVG, both)
    both = "privacy.accountants=[zero_out, {name: rdp, amplification: poisson, every: 2}]"
    done = run(scenario("central_gaussian", FEDAVG, COINS, EXPECTED, both), tmp_path)
    found = [row["epsilon_rdp"] for row in rows(done.path, "rounds.csv")]
    assert [value == "" for value in found] == [True, False, False]
    assert float(found[1]) < float(found[2]) == done.summary["epsilon_rdp"] < done.summary["epsilon_max"]


# -- commands ---------------------------------------------------------------------------------------------------

LOG = "round,client,weight\n0,a,1\n0,b,1\n1,a,0.5\n1,c,1\n2,a,0.3333333333333333\n2,b,1\n"


def simfl(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_a_real_log_is_answered_like_a_run(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    said = simfl("audit", tmp_path / "log.csv", "--noise", "central_gaussian:noise_multiplier=10", "--json")
    found = json.loads(said.output)["epsilon"]
    expected = [0.40296, float(gaussian.epsilon(2**0.5 / 10, 1e-5)), float(gaussian.epsilon(0.1, 1e-5))]
    assert found["clients"] == pytest.approx(expected, abs=5e-6)
    assert (found["max"], found["median"]) == (max(found["clients"]), sorted(found["clients"])[1])
    assert (found["observer"], found["adjacency"], found["delta"]) == ("outside", "zero_out", 1e-5)
    text = simfl("audit", tmp_path / "log.csv", "--noise", "central_gaussian:noise_multiplier=10", "--html",
                 tmp_path / "a.html").output  # fmt: skip
    assert "(client b)" in text and "0.403 in the median" in text
    assert "0.403 in the median" in (tmp_path / "a.html").read_text()


def test_a_runs_folder_is_answered_like_the_run(tmp_path):
    done = run(scenario("central_gaussian", FEDAVG), tmp_path)
    found = json.loads(simfl("audit", done.path, "--noise", "central_gaussian", "--json").output)["epsilon"]
    assert found["max"] == pytest.approx(done.summary["epsilon_max"])


@pytest.mark.parametrize("options, why", [
    (["central_gausian"], "did you mean 'central_gaussian'"), (["clipping"], "adds no noise"),
    (["skellam"], "--dimension"), (["central_gaussian", "--delta", "1"], "between 0 and 1"),
    (["central_gaussian:noise_multiplie=1"], "did you mean 'noise_multiplier'"),
    (["skellam", "--dimension", "5"], "count differently"),
    (["central_gaussian:noise_multiplier=-1"], "noise_multiplier"),
])  # fmt: skip
def test_noise_that_there_is_not_gets_one_line(tmp_path, options, why):
    (tmp_path / "log.csv").write_text(LOG)
    said = simfl("audit", tmp_path / "log.csv", "--noise", *options)
    assert said.exit_code == 2 and why in said.output and "Traceback" not in said.output
    assert len(said.output.strip().splitlines()) == 1


def test_a_delta_that_says_little_is_warned_of(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(BASE + FEDAVG + "privacy: {stages: [local_laplace], accountants: [{name: zero_out, delta: 0.1}]}\n")
    said = simfl("validate", file)
    assert said.exit_code == 0 and "privacy.accountants.0: delta is 0.1" in said.output


def test_theory_says_how_much_noise_it_takes(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "clients: 20\nselection: {name: random, k: 5}\ntraining: {name: fedavg, rounds: 60, weighting: equal}\n"
        "learning: none\n"
    )
    known = json.loads(simfl("theory", file, "--epsilon", "3.6624", "--delta", "1e-6", "--json").output)
    assert known["noise_always"] == pytest.approx(10.0, abs=1e-3)
    assert known["participations"] == 15.0
    assert known["noise_expected"] == pytest.approx(5.0, abs=1e-3)
    assert "noise_always" in simfl("theory", file, "--epsilon", "1").output
    for options, why in ((["--epsilon", "0"], "above 0"), (["--epsilon", "1", "--delta", "2"], "below 0.05")):
        said = simfl("theory", file, *options)
        assert said.exit_code == 2 and why in said.output


NOISED = """
clients: 10
selection: all
training: {name: fedavg, rounds: 8, weighting: equal}
learning: {data: digits, model: logistic, partition: {name: dirichlet, beta: 0.3}}
privacy: {stages: [central_gaussian]}
"""
STALE = """{name: fedbuff, rounds: 8, buffer: 10, weighting: equal, reference_staleness: 8, staleness: polynomial}"""


@pytest.mark.parametrize("overrides, exact", [
    ([], True), (["training.weighting=samples", "privacy.stages.0.max_weight=20"], True),
    ([f"training={STALE}"], True),
    ([f"training={STALE}", "training.staleness={name: hinge, b: 0}", "selection={name: random, k: 5}",
      "devices.computation={name: random, distribution: {name: half_normal, sigma: 1}}"], False),
    (["training.weighting=samples", "privacy.stages.0={name: central_gaussian, max_weight: 5000, clip_norm: 3}"], True),
])  # fmt: skip
def test_the_noise_that_theory_says_keeps_every_client_at_the_epsilon(tmp_path, overrides, exact):
    """A client of the largest weight in every round has that epsilon; no client of the run has more."""
    file = tmp_path / "s.yaml"
    file.write_text(NOISED)
    said = simfl("theory", file, "--epsilon", "2", "--json", *overrides)
    assert said.exit_code == 0, said.output
    known = json.loads(said.output)
    assert known["noise_stage"] == "central_gaussian"
    noise = f"privacy.stages.0.noise_multiplier={known['noise_always']!r}"
    most = run(Scenario.load(file, [*overrides, noise]), tmp_path / "out").summary["epsilon_max"]
    assert most <= 2 * (1 + 1e-9)
    assert most > 1.999 or not exact


@pytest.mark.parametrize("steps", [1, 3, 64])
def test_the_noise_that_theory_says_is_for_weights_as_the_protocol_rounds_them(tmp_path, steps):
    """Up to the next of its steps. The grid of coordinates, which theory leaves out, adds less than a thousandth."""
    file = tmp_path / "s.yaml"
    file.write_text(NOISED.replace("clients: 10", "clients: 4"))
    stale = STALE.replace("buffer: 10", "buffer: 4, concurrency: 4").replace("rounds: 8", "rounds: 30")
    overrides = [f"training={stale}", "training.staleness={name: polynomial, alpha: 0.25}",
                 f"secagg={{name: basecagg, staleness_scale: {steps}}}"]  # fmt: skip
    known = json.loads(simfl("theory", file, "--epsilon", "2", "--json", *overrides).output)
    assert known["largest_weight"] == ceil(9**0.25 * steps) / steps
    noise = f"privacy.stages.0.noise_multiplier={known['noise_always']!r}"
    most = run(Scenario.load(file, [*overrides, noise]), tmp_path / "out").summary["epsilon_max"]
    assert 1.5 < most <= 2.002


@pytest.mark.parametrize("overrides, why", [
    (["privacy.stages=[tree_gaussian]"], "tree_gaussian adds noise of its own"),
    (["privacy.stages=[{name: skellam, bits: 10}]", "secagg=secagg"], "skellam adds noise of its own"),
    (["privacy.stages=[local_gaussian]"], "local_gaussian adds noise of its own"),
    (["privacy.stages=[local_gaussian, central_gaussian]"], "local_gaussian adds noise of its own"),
    (["privacy={stages: []}", "selection={name: oort, k: 4}"], "oort reads the loss"),
    (["privacy={stages: []}", "selection={name: oort, k: 4, scalars: clear}"], "oort reads the loss"),
    (["privacy={stages: []}", "training.client=scaffold"], "scaffold sends"),
    (["training.client={name: privacyfl, tolerance: 1}"], "is infinite, as a client tells its departure"),
    (["privacy={stages: []}", "training.client={name: privacyfl, tolerance: 1}"], "is infinite"),
    (["privacy={stages: []}", "training.aggregate=median"], "noises a sum"),
    (["privacy={stages: []}", "training.weighting=samples"], "max_weight: is null"),
    (["privacy={stages: []}", "training={name: serverless, rounds: 4}"], "one server"),
    (["training.weighting=samples", "privacy.stages.0.max_weight=9",
      "learning.partition={name: growing, first: 9, new: 5, versions: 9}"], "is not known"),
])  # fmt: skip
def test_theory_says_no_noise_where_there_is_no_epsilon(tmp_path, overrides, why):
    """Where zero_out would be refused, or infinite, and where the scenario has noise of another kind: one line."""
    file = tmp_path / "s.yaml"
    file.write_text(NOISED)
    assert simfl("validate", file, *overrides).exit_code == 0
    said = simfl("theory", file, "--epsilon", "2", *overrides)
    assert said.exit_code == 2 and why in said.output and len(said.output.strip().splitlines()) == 1, said.output


@pytest.mark.parametrize("accountant", ["zero_out", "rdp"])
def test_an_accountant_without_noise_is_pointed_out(accountant):
    if accountant == "rdp":
        pytest.importorskip("dp_accounting")
    for stages, noted in (("[]", True), ("[clipping]", True), ("[central_gaussian]", False)):
        overrides = [f"privacy.stages={stages}", f"privacy.accountants=[{accountant}]", "training.weighting=equal"]
        cautions = Scenario.load("quickstart", overrides).cautions()
        assert any("no stage adds noise" in caution for caution in cautions) == noted
