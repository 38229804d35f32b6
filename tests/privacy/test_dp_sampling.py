"""Sampling that is claimed: the sums are those of the theorem, and no epsilon is below the truth."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm

from simfl.core.rng import Streams
from simfl.core.types import SERVER
from simfl.network.base import NETWORKS, Network
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import Clear, ObserverView
from simfl.privacy.dp.accountants.pld_and_rdp import Pld, Rdp
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import STAGES, Members
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.plugins.test_public_interface import FEDAVG, rows
from tests.privacy.test_dp_accounting import COINS, FIXED, HERE, claimed
from tests.privacy.test_dp_stages import scenario
from tests.support.privacy_losses import epsilon, known_size, losses_down, sampled_losses

GRID, DELTA = 2e-4, 1e-5
ROUNDS = 7
FOUR = [(100, 0.1, 2.0, 100), (100, 0.1, 1.0, 100), (100, 0.1, 2.0, 20), (1000, 0.01, 1.0, 500)]
EXPECTED = "training.denominator=expected"


def printed(kind, q, z, rounds, delta=DELTA):
    """What the accountant says at the end of a run of so many rounds."""
    stage = STAGES.of({"name": "central_gaussian", "noise_multiplier": z})
    facts = {name: np.full(rounds, value) for name, value in (("rounding", 0.0), ("std", z))}
    seen = History({SERVER: ObserverView.of_sums(csr_array((rounds, 10)))}, (facts,), stages=(stage,))
    (*_, last) = kind(delta=delta, amplification="poisson", rate=q).epsilons(seen)
    return last


def truth(q, z, rounds, delta=DELTA, up=False, grid=GRID):
    """A bound of epsilon with a fixed denominator; the pairs of zero-out and of removal are the same, either way."""
    return max(epsilon(sampled_losses(q, z, grid, add, up), rounds, delta, grid) for add in (False, True))


def random_rows(count):
    rng = np.random.Generator(np.random.Philox(5))
    for _ in range(count):
        q, z = float(np.exp(rng.uniform(np.log(0.005), np.log(0.5)))), float(rng.uniform(0.7, 4.0))
        yield q, z, int(rng.integers(1, 100)), float(10 ** rng.uniform(-7, -4))


def test_the_own_bounds_are_those_of_the_exact_gaussian():
    """With q = 1 the sum's loss is normal: epsilon is known in closed form."""
    from simfl.privacy.dp.mechanisms import gaussian

    for z, rounds in ((1.0, 1), (4.0, 100)):
        exact = float(gaussian.epsilon(rounds**0.5 / z, DELTA))
        low, high = (truth(1 - 1e-12, z, rounds, up=up) for up in (False, True))
        assert exact - 2 * GRID * rounds < low <= exact <= high < exact + 2 * GRID * rounds


@pytest.mark.parametrize("q, z, rounds", [row[1:] for row in FOUR])
def test_what_is_printed_is_never_below_the_truth(q, z, rounds):
    pytest.importorskip("dp_accounting")
    low, high = truth(q, z, rounds), truth(q, z, rounds, up=True)
    assert low <= high < low + 3 * GRID * rounds
    tight, loose = printed(Pld, q, z, rounds), printed(Rdp, q, z, rounds)
    assert low <= tight <= high + 0.01 and tight <= loose < 1.3 * tight + 0.1


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_nor_is_it_for_random_rows(count):
    pytest.importorskip("dp_accounting")
    for q, z, rounds, delta in random_rows(count):
        about = (q, z, rounds, delta)
        low, high = (truth(*about, up=up, grid=max(GRID, 0.02 / rounds)) for up in (False, True))
        tight, loose = printed(Pld, *about), printed(Rdp, *about)
        assert low <= min(tight, loose) and tight <= high + 0.02, about


@pytest.mark.parametrize("row, zero_out, removal", list(zip(FOUR, (4.25, 17.5, 2.33, 8.17), (7.74, 32.4, 3.96, 10.6))))
def test_a_sum_over_its_known_size_costs_more_than_the_claim(row, zero_out, removal):
    """What was claimed until now: the mean over those who came. Its size is known; the epsilon that is printed for a
    fixed denominator is far below the truth by both adjacencies, so that the claim must be refused."""
    pytest.importorskip("dp_accounting")
    n, q, z, rounds = row
    said = printed(Pld, q, z, rounds)
    for gone, least in ((False, zero_out), (True, removal)):
        masses = known_size(n, q, z, gone)
        found = max(epsilon(losses_down(*pair, GRID), rounds, DELTA, GRID) for pair in (masses, masses[::-1]))
        assert found > 1.8 * said and found >= least * 0.99, (row, gone, found)
    with pytest.raises(InvalidScenario, match="set training.denominator to expected"):
        Scenario.parse(text(n, q, z, rounds), "claim")
    fixed = Scenario.parse(text(n, q, z, rounds), "claim", [EXPECTED])
    assert fixed.training.fixed_denominator == pytest.approx(q * n)
    assert fixed.privacy.accountants[0].rate == pytest.approx(q)


def text(n, q, z, rounds):
    return f"""
clients: {n}
selection: {{name: bernoulli, k: {round(q * n)}}}
training: {{name: fedavg, rounds: {rounds}, weighting: equal}}
learning: none
privacy:
  stages: [{{name: central_gaussian, noise_multiplier: {z}}}]
  accountants: [{{name: pld, amplification: poisson}}, {{name: rdp, amplification: poisson}}]
"""


def test_the_expected_number_is_that_of_the_selection():
    for more, expected in (
        ([COINS], 4.0), ([FIXED], 4.0), (["selection={name: bernoulli, k: 4, probability: 0.5}"], 0.5 * 12 * 0.9),
        (["selection={name: bernoulli, k: 4}", "training.denominator=7"], 7.0),
    ):  # fmt: skip
        overrides = [*more] if any("denominator" in one for one in more) else [*more, EXPECTED]
        assert scenario("clipping", FEDAVG, *overrides).training.fixed_denominator == pytest.approx(expected)
    trace = "devices.availability={name: trace, unit: rounds, inline: [['1', 0, 99]]}"
    with pytest.raises(InvalidScenario, match="give the number of clients"):
        scenario("clipping", FEDAVG, "selection={name: bernoulli, k: 4, probability: 0.5}", trace, EXPECTED)
    with pytest.raises(InvalidScenario, match="divides no sum"):
        scenario("clipping", FEDAVG, "training.aggregate=median", EXPECTED)
    again = scenario("clipping", FEDAVG, EXPECTED)
    assert Scenario.parse(again.to_yaml(), "again").digest == again.digest


# -- the sums -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["central_gaussian", "adaptive_gaussian"])
def test_rounds_without_anybody_are_as_noisy_as_others(tmp_path, stage):
    """All updates are 0 (the rate is nearly 0), so that each round's step is its noise: z C / (q N), whoever came."""
    fields = {"clip_norm": 2.0} if stage == "central_gaussian" else {"initial_norm": 2.0, "rate": 1e-9, "bit_std": 2.0}
    keys = ", ".join(f"{key}: {value}" for key, value in fields.items())
    made = scenario(
        "clipping", FEDAVG, "selection={name: bernoulli, k: 1, probability: 0.05}", EXPECTED, *HERE,
        "training.learning_rate=1e-12", f"training.rounds={ROUNDS}",
        f"privacy.stages=[{{name: {stage}, noise_multiplier: 3, {keys}}}]", "trace=aggregates",
        "privacy.accountants=[zero_out]",
    )  # fmt: skip
    models = steps(made, tmp_path)
    assert len(models) == ROUNDS - 1
    table = rows(run(made, tmp_path).path, "rounds.csv")
    empty = [row["cardinality"] == "0" for row in table]
    assert 0 < sum(empty[1:]) < ROUNDS - 1 and [row["skipped"] == "1" for row in table] == empty
    std = {"central_gaussian": 6.0, "adaptive_gaussian": 6.0 / np.sqrt(1 - (3 / 4) ** 2)}[stage] / (0.05 * 12)
    for step in models:
        assert step.std() == pytest.approx(std, rel=0.15)
    assert [float(row["noise_std"]) for row in table] == pytest.approx([std] * ROUNDS)


def steps(made, out):
    """How far each round has moved the model, by runs of one round more each."""
    from dataclasses import replace

    models = []
    for rounds in range(1, ROUNDS + 1):
        shorter = replace(made, training=replace(made.training, rounds=rounds))
        models.append(np.load(run(shorter, out / str(rounds)).path / "model.npy"))
    return np.diff(models, axis=0)


@pytest.mark.parametrize("came", [0, 1, 5])
def test_neither_the_mean_nor_the_clip_norm_tells_how_many_came(came):
    """What m clients with the update v make of it: m v / (q N) and noise of one size; C moves by the bits' sum."""
    from simfl.core.types import Job

    jobs = tuple(Job(c, c, 0, 0.0) for c in range(came))
    members = Members(0, jobs, np.ones(came), 4.0, fixed=4.0)
    for name in ("central_gaussian", "adaptive_gaussian", "tree_gaussian"):
        stage = STAGES.of({"name": name, **({"bit_std": 2.0} if "adaptive" in name else {})})
        state = stage.start(5)
        added = [
            stage.server(np.full(stage.length(5), value, np.float32), members, state, Streams(1)) for value in (0, 1)
        ]
        np.testing.assert_allclose(added[1][0] - added[0][0], 1.0, atol=1e-5)
        alone = stage.server(np.zeros(stage.length(5), np.float32), members._replace(jobs=(), weights=np.zeros(0)),
                             state, Streams(1))  # fmt: skip
        for name, value in alone[1].items():
            np.testing.assert_array_equal(value, added[0][1][name])
        np.testing.assert_array_equal(alone[0], added[0][0])
        quiet = {name: value for name, value in stage.facts(members, state).items()}
        assert quiet == stage.facts(members._replace(jobs=(), weights=np.zeros(0)), state)


@pytest.mark.parametrize("name, secagg", [("skellam", "secagg"), ("local_gaussian", "plain"), ("xnoise", "secagg")])
def test_noise_of_clients_who_are_not_there_is_not_there(tmp_path, name, secagg):
    """An empty sum of clients' own noise is 0, and nobody is charged for it."""
    made = scenario(name, FEDAVG, EXPECTED, "devices.availability={name: bernoulli, dropout: 0.75}")
    done = run(made, tmp_path)
    table = rows(done.path, "rounds.csv")
    assert any(row["cardinality"] == "0" for row in table) and done.summary["rounds"] == len(table)


# -- what is refused ----------------------------------------------------------------------------------------------

WRONG = [
    ([], "set training.denominator to expected"),
    ([EXPECTED, "training.on_failure=abort"], "set training.on_failure to drop_unit"),
    ([EXPECTED, "secagg=secagg"], "set secagg to plain"),
    ([EXPECTED, "training.stop.time_s=9"], "decides when the run ends"),
    ([EXPECTED, "training.stop.client_updates=9"], "decides when the run ends"),
    ([EXPECTED, "training.stop.traffic_bytes=9"], "decides when the run ends"),
    ([EXPECTED, "training.weighting=samples", "privacy.stages.0.max_weight=99"], "weighting: equal"),
    ([EXPECTED, "training.client={name: privacyfl, tolerance: 1}"], "not by chance"),
    ([EXPECTED, "devices.availability={name: trace, inline: [['1', 0, 99]]}", "training.denominator=4",
      "selection.probability=0.5"], "simulated time"),
]  # fmt: skip


@pytest.mark.parametrize("overrides, why", WRONG)
def test_what_is_no_poisson_sample_is_refused_in_one_line(overrides, why):
    pytest.importorskip("dp_accounting")
    for accountant in ("pld", "rdp"):
        with pytest.raises(InvalidScenario, match=why) as refused:
            claimed(accountant, "poisson", COINS, *overrides)
        assert len(refused.value.problems) == 1 and refused.value.problems[0].key.endswith("amplification")


RING = "network={name: ring, latency_s: 0.1, shared: {one: {edges: [['0', '1']], bytes_per_s: 9000}}}"
LATE = "training.deadline_s=5"
LATE_TOGETHER = """
clients: 20
selection: {name: random, k: 9}
network: {name: star, server: {up_bytes_per_s: 26000}}
training: {name: fedavg, rounds: 1, weighting: equal, denominator: expected, on_failure: partial, deadline_s: 1}
learning: {data: digits, model: logistic, partition: iid}
privacy: {stages: [central_gaussian]}
"""


@pytest.mark.parametrize("network", [
    "network={name: star, server: {up_bytes_per_s: 9000}}", "network={name: star, server: {down_bytes_per_s: 9000}}",
    "network={name: ring, latency_s: 0.1, server: {up_bytes_per_s: 9000}}", RING,
])  # fmt: skip
def test_who_is_late_over_shared_links_depends_on_who_else_came(network):
    """One more upload on a link that was just wide enough makes all others late: the coin of one decides for all."""
    pytest.importorskip("dp_accounting")
    for accountant in ("pld", "rdp"):
        with pytest.raises(InvalidScenario, match="share links.*set training.deadline_s to null") as refused:
            claimed(accountant, "poisson", COINS, EXPECTED, LATE, network)
        assert len(refused.value.problems) == 1
    assert claimed("pld", "poisson", COINS, EXPECTED, network).privacy.accountants[0].rate > 0, (
        "everybody is waited for"
    )


def test_one_more_client_takes_the_others_out_of_the_sum_where_a_link_is_shared(tmp_path):
    """Why the claim is refused there: nine of these clients are in time; of twelve nobody is."""
    came = []
    for k in (9, 12):
        made = Scenario.parse(LATE_TOGETHER, "late", [f"selection.k={k}"])
        came += [int(row["cardinality"]) for row in rows(run(made, tmp_path).path, "rounds.csv")]
    assert came == [9, 0]


@pytest.mark.parametrize("network, independent", [
    ({"name": "star"}, True), ({"name": "star", "server": {"up_bytes_per_s": 9}}, False),
    ({"name": "complete", "latency_s": 1}, True),
    ({"name": "graph", "edges": [["server", "a", 1]]}, True),
    ({"name": "graph", "edges": [["server", "a", 1]], "server": {"name": "server", "down_bytes_per_s": 9}}, False),
    ({"name": "graph", "edges": [["server", "a", 1]], "server": {"name": "server"}}, True),
    ({"name": "graph", "edges": [["server", "a", 1]],
      "shared": {"one": {"edges": [["server", "a"]], "bytes_per_s": 9}}}, False),
    ({"name": "file", "path": "n.csv", "server": "s"}, True),
    ({"name": "file", "path": "n.csv", "server": {"name": "s", "up_bytes_per_s": 9}}, False),
    ({"name": "cities", "server": "Oslo"}, True),
    ({"name": "cities", "server": {"name": "Oslo", "up_bytes_per_s": 9}}, False),
])  # fmt: skip
def test_networks_say_whether_messages_wait_for_one_another(network, independent):
    assert NETWORKS.of(network).independent is independent


def test_a_network_that_says_nothing_of_it_may_have_messages_wait():
    assert not Network.independent


@pytest.mark.parametrize("overrides", [
    ["training.on_failure=partial"], [LATE], [LATE, "network={name: ring, latency_s: 0.1}"],
    ["privacy.stages=[{name: adaptive_gaussian, bit_std: 2}]"],
    ["devices.availability={name: correlated, groups: 3, group_dropout: 0.2}"],
    ["devices.availability={name: trace, unit: rounds, inline: [['1', 0, 99]]}", "training.denominator=4",
     "selection.probability=0.5"], ["training.client=privacyfl"], ["training.denominator=9"],
])  # fmt: skip
def test_what_keeps_clients_away_by_chance_only_lowers_the_rate(overrides):
    pytest.importorskip("dp_accounting")
    both = overrides if any("denominator" in one for one in overrides) else [EXPECTED, *overrides]
    assert claimed("pld", "poisson", COINS, *both).privacy.accountants[0].rate > 0


@pytest.mark.parametrize("overrides, why", [
    ([LATE], "set training.deadline_s to null"),
    (["secagg={name: secagg, deadline_s: 5}"], "set secagg.deadline_s to null"),
    (["secagg=secagg", "devices.failure={name: bernoulli, probability: 0, phases: {share: 0.3}}"], "set devices"),
    (["learning.holdout={validation: 0.2}"], "clients without samples"),
    (["training.client={name: privacyfl, tolerance: 1}"], "not by chance"),
])  # fmt: skip
def test_what_is_no_sample_of_a_fixed_size_is_refused(overrides, why):
    pytest.importorskip("dp_accounting")
    with pytest.raises(InvalidScenario, match=why):
        claimed("rdp", "fixed_size", FIXED, *HERE, *overrides)


def test_a_log_claims_no_sampling(tmp_path):
    """A log knows how many were in each sum: what is said of it is of known participation, and by zero-out."""
    from click.testing import CliRunner

    from simfl.cli import simfl as command

    (tmp_path / "log.csv").write_text("round,client,weight\n0,a,1\n0,b,1\n1,a,1\n")
    for extra in ("amplification=poisson", "rate=0.1"):
        noise = f"central_gaussian:noise_multiplier=2,{extra}"
        said = CliRunner().invoke(command, ["audit", str(tmp_path / "log.csv"), "--noise", noise])
        assert said.exit_code == 2 and "unknown" in said.output


# -- participation that depends on data ---------------------------------------------------------------------------


def test_departures_that_data_decide_leave_no_epsilon(tmp_path):
    from click.testing import CliRunner

    from simfl.cli import simfl as command

    kept, gone = (scenario("local_gaussian", FEDAVG, f"training.client={{name: privacyfl, tolerance: {tolerance}}}")
                  for tolerance in ("null", "1e-9"))  # fmt: skip
    assert float(run(kept, tmp_path).summary["epsilon_max"]) > 0
    done = run(gone, tmp_path)
    assert all(row["epsilon_max"] == row["epsilon_median"] == "" for row in rows(done.path, "rounds.csv"))
    assert all(row["epsilon"] in ("", "inf") for row in rows(done.path, "privacy.csv"))
    assert not kept.cautions() and any("epsilon is infinite" in text for text in gone.cautions())
    file = tmp_path / "s.yaml"
    file.write_text(gone.to_yaml())
    for words in (["validate", str(file)], ["run", str(file), "--out", str(tmp_path / "out")]):
        assert "epsilon is infinite" in CliRunner().invoke(command, words).output, words


def test_whoever_may_leave_is_taken_to_follow_data():
    """A client algorithm that says nothing of it, but concludes, counts as one that does."""
    from simfl.clients.base import CLIENTS, ClientAlgorithm

    for _, cls in CLIENTS.items():
        made = cls(**cls.example) if cls.example else cls()
        assert made.follows_data <= made.uses_outcomes

    class Leaving(ClientAlgorithm):
        uses_outcomes = True

    assert Leaving().follows_data


def test_all_pairs_of_claims_and_departures_are_covered():
    pytest.importorskip("dp_accounting")
    view = replace(ObserverView.of_sums(csr_array((2, 3))), clear=(Clear("its departure", False),))
    facts = ({"rounding": np.zeros(2), "std": np.ones(2)},)
    seen = History({SERVER: view}, facts, stages=(STAGES.of("central_gaussian"),))
    for kind, claim in product((Pld, Rdp), ("none", "poisson")):
        assert list(kind(amplification=claim, rate=0.1).epsilons(seen)) == [None, None]


@pytest.mark.parametrize(("delta", "rate", "mu"), [(1e-10, 1e-3, 1e-6), (1e-14, 1e-9, 1e-3)])
def test_no_epsilon_is_zero_where_the_total_variation_is_above_delta(delta, rate, mu):
    """Of one round: rate (2 Phi(mu / 2) - 1), the probability of telling the two cases apart beyond guessing."""
    apart = rate * (2 * norm.cdf(mu / 2) - 1)
    epsilon = Rdp(delta=delta, amplification="poisson", rate=rate).of_sample(mu, 1, 1000)
    assert apart > delta and epsilon > 0
    assert epsilon <= float(gaussian.epsilon(mu, delta))
    fixed = Rdp(delta=delta, amplification="fixed_size", rate=rate).of_sample(mu, 1, 10**9)
    assert fixed > 0
    assert Rdp(delta=0.01, amplification="poisson", rate=rate).of_sample(mu, 1, 1000) == 0.0
