"""PrivacyFL: data that grow, models trained anew, own noise taken off, departure on convergence, no server."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.data.base import Dataset
from simfl.learning.models.base import MODELS
from simfl.learning.partitions.base import PARTITIONS
from simfl.papers.privacyfl.output_perturbation import OutputPerturbation
from simfl.privacy.dp.mechanisms import gaussian, staircase
from simfl.privacy.stage import Members
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from tests.plugins.test_public_interface import killed_and_resumed, rows, tables
from tests.support.staircase import density

BASE = """
name: privacyfl
clients: 3
network: {name: star, latency_s: [0.3, 2.0, 0.1]}
devices: {computation: 0.01}
selection: all
training: {name: fedavg, rounds: 4, weighting: equal, batch_size: null, local_steps: 5, learning_rate: 0.5,
           client: {name: privacyfl, from_scratch: true}}
learning: {data: privacyfl_digits, partition: {name: growing, first: 20, new: 10, versions: 4}, model: logistic,
           evaluate: {every: 1, per_client: true}}
"""
NOISE = "privacy.stages=[{name: output_perturbation, epsilon: 1.0, samples: 20, new: 10, alpha: 0.1}]"


def scenario(*overrides):
    return Scenario.parse(BASE, "privacyfl", overrides)


def model(folder):
    return np.load(folder / "model.npy")


# -- data that grow ---------------------------------------------------------------------------------------


def digits(n=600):
    y = np.arange(n) % 10
    return Dataset(np.zeros((n, 1), np.float32), y, np.zeros((0, 1), np.float32), y[:0], tuple("0123456789"))


def split(name, **fields):
    return PARTITIONS.of({"name": name, **fields}).split(digits(), 3, np.random.default_rng(0))


def test_cumulative_data_grow_and_others_are_renewed():
    for cumulative in (True, False):
        parts = split("growing", first=(5, 7, 9), new=4, versions=3, cumulative=cumulative)
        assert parts.sizes.tolist() == [13, 15, 17] and len(np.unique(parts.indices)) == 45
        for client, first in enumerate((5, 7, 9)):
            whole = parts[client]
            expected = [whole[:first], whole[: first + 4], whole[: first + 8], whole[: first + 8]]
            if not cumulative:
                expected = [whole[:first], whole[first : first + 4], whole[first + 4 :], whole[first + 4 :]]
            for version, held in enumerate(expected):
                assert np.array_equal(parts.samples_at(client, version), held)
                counts = parts.counts(np.array([client]), np.array([version]))
                assert counts.tolist() == [len(held)]


def test_more_than_there_is_cannot_be_given():
    with pytest.raises(ScenarioError, match="makes 2,190 samples; there are 600"):
        split("growing", first=700, new=10, versions=4)
    with pytest.raises(ScenarioError, match="is 601; there are 600"):
        split("resampled", samples=601)


def test_resampled_clients_draw_anew_from_one_pool():
    parts = split("resampled", samples=50)
    again = split("resampled", samples=50)
    draws = {(client, version): parts.samples_at(client, version) for client in range(3) for version in range(3)}
    for (client, version), held in draws.items():
        assert len(np.unique(held)) == 50 and np.array_equal(held, again.samples_at(client, version))
    assert len({tuple(sorted(held.tolist())) for held in draws.values()}) == 9
    assert np.array_equal(parts[1], draws[1, 0])
    counts = np.bincount(np.concatenate([parts.samples_at(0, version) for version in range(200)]), minlength=600)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_work_takes_the_time_of_the_samples_that_are_there(tmp_path):
    made = scenario("devices.computation={name: per_sample, seconds: 1}", "network.latency_s=0")
    times = [float(row["time_s"]) for row in rows(run(made, tmp_path).path, "rounds.csv")]
    assert np.diff([0.0, *times]) == pytest.approx([20 * 5, 30 * 5, 40 * 5, 50 * 5])  # five steps on all of them


# -- the client -------------------------------------------------------------------------------------------


def test_from_scratch_forgets_the_federated_model(tmp_path):
    """A client alone has after each round what it would have after one round on the same data."""
    alone = "devices.availability={name: trace, unit: rounds, inline: [['1', 0, 99]]}"
    long = run(scenario(alone, "training.rounds=3"), tmp_path).path
    short = run(scenario(alone, "training.rounds=1", "learning.partition.first=40"), tmp_path).path
    scores = [float(row["test_accuracy"]) for row in rows(long, "rounds.csv")]
    assert len(set(scores)) > 1 and model(long).shape == model(short).shape == (650,)
    on = scenario(alone, "training.rounds=1", "training.client.from_scratch=false")
    assert not np.array_equal(model(run(on, tmp_path).path), model(short))


def test_a_client_with_nothing_new_sends_the_same_model_again(tmp_path):
    made = scenario(NOISE.replace("alpha: 0.1", "alpha: 0.1, rounds: 2"), "learning.partition.versions=2")
    loss = [float(row["test_loss"]) for row in rows(run(made, tmp_path).path, "rounds.csv")]
    assert loss[2:] == pytest.approx([loss[1]] * 2, rel=1e-6) and abs(loss[1] - loss[0]) > 1e-3


def test_own_noise_taken_off_is_what_the_client_has_added(tmp_path):
    """The federated model as client 1 sees it is the mean of all but its own noise."""
    made = scenario(NOISE, "training.rounds=1", "training.client.subtract_own_noise=true")
    done = run(made, tmp_path).path
    quiet = run(scenario("training.rounds=1", "privacy.stages=[]"), tmp_path).path
    stage, streams = made.privacy.stages[0], Streams(made.seed)
    jobs = tuple(Job(client, client, 0, 0.0) for client in range(3))
    noise = stage.client(np.zeros((3, 650), np.float32), jobs, {}, streams)
    np.testing.assert_allclose(model(done) - model(quiet), noise.mean(axis=0), atol=1e-5)
    learner = build(made).learner
    scored = {row["name"]: float(row["value"]) for row in rows(done, "evaluation.csv")}
    for client in range(3):
        mine = (model(done) - noise[client] / 3).astype(np.float32)
        found = learner.evaluator.predictions(mine)
        accuracy = float(np.mean(found.predicted == found.labels))
        assert scored[f"test_accuracy_client_{client}"] == pytest.approx(accuracy, abs=0.0101)


def test_clients_leave_when_every_weight_is_nearer_than_the_tolerance(tmp_path):
    """Strictly nearer; and the run ends when fewer than two are left."""
    first = run(scenario("training.rounds=1"), tmp_path).path
    fed = model(first).astype(np.float64)
    learner = build(scenario()).learner
    learner.put(0, learner.initial())
    own = learner.initial() + learner.train([Job(c, c, 0, 0.0) for c in range(3)]).deltas
    gaps = np.abs(own - model(first)).max(axis=1)
    assert np.isfinite(fed).all() and len(set(gaps.tolist())) == 3
    order = np.argsort(gaps)
    for tolerance, gone in ((gaps[order[0]], 0), (np.nextafter(gaps[order[0]], 9), 1), (gaps[order[2]] * 1.01, 3)):
        made = scenario(f"training.client.tolerance={float(tolerance)!r}", "training.rounds=2")
        table = rows(run(made, tmp_path).path, "rounds.csv")
        assert len(table) == (1 if gone > 1 else 2), tolerance
        if gone <= 1:
            present = {int(row["client"]) for row in rows(run(made, tmp_path).path, "participation.csv")
                       if row["round"] == "1"}  # fmt: skip
            assert present == set(range(3)) - set(order[:gone].tolist())


def test_those_who_stay_are_told_who_has_left(tmp_path):
    stay, leave = (
        rows(run(scenario(f"training.client.tolerance={tolerance}", "training.rounds=1"), tmp_path).path, "rounds.csv")
        for tolerance in ("null", "1e9")
    )
    assert int(leave[0]["bytes_down"]) == int(stay[0]["bytes_down"])  # nobody is left to be told
    events = run(scenario("training.client.tolerance=1e9", "trace=events"), tmp_path).path / "events.jsonl"
    assert events.read_text().count('"leave"') == 3


def test_a_killed_run_with_departures_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    for rule in ("fedavg", "serverless"):
        made = scenario(NOISE, "training.client.tolerance=0.5", f"training.name={rule}", "training.rounds=4",
                        "training.client.subtract_own_noise=true")  # fmt: skip
        whole = tables(run(made, tmp_path / rule).path)
        assert tables(killed_and_resumed(made, tmp_path / f"{rule}-killed", monkeypatch, 2)) == whole


# -- the noise --------------------------------------------------------------------------------------------


def jobs(n, version=0):
    return tuple(Job((version << 32) | client, client, version, 0.0) for client in range(n))


def test_shares_add_up_to_laplace_noise_of_the_published_scale():
    n, d = 4, 20_000
    stage = OutputPerturbation(epsilon=0.5, samples=30, new=10, alpha=0.1)
    for version, held in ((0, 30), (2, 50)):
        sent = stage.client(np.zeros((n, d), np.float32), jobs(n, version), {}, Streams(0))
        scale = 2 / (n * held * 0.1 * 0.5)
        assert stats.kstest(sent.sum(axis=0, dtype=float), stats.laplace(scale=scale).cdf).pvalue > 1e-3
    honest = replace(stage, noise_scale="calibrated")
    assert honest.scales(jobs(n)) == pytest.approx(n * stage.scales(jobs(n)))


def held(n):
    """A sum of n clients of 30 samples each, with a slope of 1."""
    apart = tuple(np.arange(30) + 30 * client for client in range(n))
    return Members(0, jobs(n), np.ones(n), float(n), examples=np.full(n, 30), slope=1.0, positions=apart)


def test_the_epsilon_of_a_row_is_that_of_the_noise_really_added():
    """Published noise is n times too little; two clients of 1.0 do not protect one of 0.1 any less."""
    members = held(3)
    published = OutputPerturbation(epsilon=1.0, samples=30, penalty=1.0)
    assert published.facts(members, {"dimension": np.int64(1)})["epsilon_weight"] == pytest.approx(3.0)
    calibrated = OutputPerturbation(epsilon=1.0, samples=30, penalty=1.0, noise_scale="calibrated")
    facts = calibrated.facts(members, {"dimension": np.int64(100)})
    assert (facts["epsilon_weight"], facts["epsilon_model"]) == (pytest.approx(1.0), pytest.approx(10.0))
    mixed = OutputPerturbation(epsilon=(1.0, 1.0, 0.1), samples=30, penalty=1.0, noise_scale="calibrated")
    assert mixed.facts(members, {"dimension": np.int64(1)})["epsilon_weight"] == pytest.approx(1.0)


def test_gaussian_and_staircase_noise_are_what_they_are_called():
    """Shares of Gaussian noise add up to its standard deviation; a staircase is each client's own."""
    n, d = 4, 20_000
    stage = OutputPerturbation(epsilon=0.5, samples=30, alpha=0.1, penalty=0.1, mechanism="gaussian")
    delta = 2 / (30 * 0.1)
    for scale, std in (("published", 9.6896 * delta / n), ("calibrated", 7.0318 * delta)):
        chosen = replace(stage, noise_scale=scale)
        sent = chosen.client(np.zeros((n, d), np.float32), jobs(n), {}, Streams(0))
        assert stats.kstest(sent.sum(axis=0, dtype=float), stats.norm(scale=std).cdf).pvalue > 1e-3
        facts = chosen.facts(held(n), {"dimension": np.int64(50)})
        assert (
            facts["epsilon_weight"]
            == facts["epsilon_model"]
            == pytest.approx(float(gaussian.epsilon(delta / std, 1e-5)), rel=1e-4)
        )
    assert facts["epsilon_weight"] == pytest.approx(0.5)
    stairs = OutputPerturbation(epsilon=1.5, samples=30, alpha=0.1, penalty=0.1, mechanism="staircase", adds="whole")
    for scale, width, epsilon, steps in (("published", delta / n, 1.5 * n, 11), ("calibrated", delta, 1.5, 4)):
        chosen = replace(stairs, noise_scale=scale)
        sent = chosen.client(np.zeros((1, d), np.float32), jobs(n)[:1], {}, Streams(0))
        one = chosen.client(np.zeros((n, d), np.float32), jobs(n), {}, Streams(0))[0]
        assert np.abs(one).mean() == pytest.approx(width * np.exp(-0.75) / -np.expm1(-1.5), rel=0.05)
        facts = chosen.facts(held(n), {"dimension": np.int64(4)})
        told = facts["epsilon_weight"], facts["epsilon_model"]
        assert told == (pytest.approx(epsilon), pytest.approx(1.5 * steps)), (
            "one step of d at least in each of 4 weights"
        )
    assert sent.shape == (1, d)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_staircase_costs_what_its_worst_shift_costs(d):
    """By brute force: of shifts by whole steps and a little more, in every coordinate, those that the norm allows."""
    from itertools import product

    for ratio in (0.01, 0.5, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0):
        most = max(
            sum(shifts) for shifts in product(range(1, 5), repeat=d)
            if sum((n - 1) ** 2 for n in shifts) < ratio**2  # n steps are crossed by any shift above n - 1 widths
        )  # fmt: skip
        assert staircase.pure_epsilon(ratio * 0.7, 0.7, 0.3, d) == pytest.approx(0.3 * most), (ratio, d)


@given(st.integers(1, 4), st.floats(0.05, 3.0), st.floats(0.05, 0.95), st.floats(0.1, 3.0), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_the_densities_of_a_staircase_never_differ_by_more(d, epsilon, gamma, ratio, seed):
    """Log-ratios of densities at random places and shifts of the norm; and of spread shifts at the steps' edges the
    bound is reached."""
    rng = np.random.Generator(np.random.Philox(seed))
    bound = staircase.pure_epsilon(ratio, 1.0, epsilon, d)

    def loss(x, shift):
        each = [(density(a, 1.0, epsilon, gamma), density(a + s, 1.0, epsilon, gamma))
                for a, s in zip(x, shift, strict=True)]  # fmt: skip
        return sum(np.log(p / q) for p, q in each)

    for _ in range(200):
        shift = rng.normal(size=d)
        shift *= ratio * rng.random() / np.linalg.norm(shift)
        assert loss(rng.normal(size=d) * 2, shift) <= bound + 1e-9
    small = np.full(d, min(ratio, 0.01) / np.sqrt(d) * 0.99)
    assert loss(np.full(d, gamma) - small / 2, small) == pytest.approx(d * epsilon)
    assert bound >= d * epsilon * (1 - 1e-12)


def test_the_epsilon_of_a_staircase_grows_with_the_weights():
    stage = OutputPerturbation(
        epsilon=1.0, samples=30, penalty=1.0, mechanism="staircase", adds="whole", noise_scale="calibrated"
    )
    facts = stage.facts(held(3), {"dimension": np.int64(650)})
    assert (facts["epsilon_weight"], facts["epsilon_model"]) == (1.0, 650.0)


# -- samples, penalty and rounds are the run's ------------------------------------------------------------


def epsilon_columns(folder):
    return [tuple(float(row[name] or "inf") for name in ("epsilon_weight", "epsilon_model"))
            for row in rows(folder, "rounds.csv")]  # fmt: skip


def longest_row():
    data = build(scenario()).learner.data
    return float(np.linalg.norm(data.x_train.reshape(len(data.x_train), -1).astype(float), axis=1).max())


SLOW = "training.learning_rate=0.05"
"""The rows of digits are nearly 5 long, so that larger rates than 0.16 leave nothing certain."""


def short_of_a_minimum(penalty=0.1, rate=0.05, steps=5, alpha=0.1):
    """How far one sample of k moves five full steps, over 2 slope / (k alpha), as far as it moves a minimum."""
    return alpha * rate * sum((1 - rate * penalty) ** step for step in range(steps))


def test_epsilon_is_of_the_longest_sample_whatever_radius_the_noise_is_made_for(tmp_path):
    """Rows of digits are longer than 1: noise for norm 1 or 0.01 has an epsilon that much larger."""
    noise = "epsilon: 1.0, samples: 20, new: 10, alpha: 0.1, radius: {}, noise_scale: calibrated"
    keys = f"privacy.stages=[{{{{name: output_perturbation, {noise}}}}}]"
    slope = (2 * (longest_row() ** 2 + 1)) ** 0.5
    assert slope > 2
    for radius in (1.0, 0.01):
        made = scenario(keys.format(radius), "training.weight_decay=0.1", SLOW)
        found, said = epsilon_columns(run(made, tmp_path).path), slope / radius * short_of_a_minimum()
        assert found == [pytest.approx((said, said * 650**0.5))] * 4
    fast = scenario(keys.format(1.0), "training.weight_decay=0.1", "training.learning_rate=0.17")
    assert epsilon_columns(run(fast, tmp_path).path) == [(np.inf, np.inf)] * 4


def test_a_model_whose_loss_is_not_convex_has_no_epsilon(tmp_path):
    made = scenario(NOISE, "training.weight_decay=0.1", "learning.model=mlp")
    assert epsilon_columns(run(made, tmp_path).path) == [(np.inf, np.inf)] * 4
    assert any("what one sample does" in text and "infinite" in text for text in made.cautions())
    assert not any("what one sample does" in text for text in scenario(NOISE, "training.weight_decay=0.1").cautions())


@pytest.mark.parametrize(
    "name, shape, classes", [("logistic", (3,), 4), ("logistic", (2,), 2), ("binary_logistic", (3,), 2)]
)
def test_no_gradient_of_a_convex_model_is_longer_than_its_steepness_says(name, shape, classes):
    import torch

    model, rng = MODELS.of(name), np.random.default_rng(0)
    module, most = model.build(shape, classes), 0.0
    for trial in range(300):
        x = torch.tensor(rng.normal(size=(1, *shape)) * 10.0 ** (trial % 5 - 2), dtype=torch.float32)
        with torch.no_grad():
            for weights in module.parameters():
                weights.copy_(torch.tensor(rng.normal(size=weights.shape) * 10.0 ** (trial % 4 - 1)))
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(x), torch.tensor([trial % classes])).backward()
        gradient = sum(float((weights.grad**2).sum()) for weights in module.parameters()) ** 0.5
        most = max(most, gradient / np.hypot(float(x.norm()), 1))
    assert 0.9 * model.steepness < most <= model.steepness * (1 + 1e-5)
    assert MODELS.of("mlp").steepness == np.inf == MODELS.of("lenet5").steepness


def test_epsilon_is_of_the_samples_and_the_penalty_that_the_run_has(tmp_path):
    """Clients hold 20, 30, 40, 50 samples and train with a penalty of 0.1; whatever noise is made for."""
    honest = "privacy.stages=[{{name: output_perturbation, epsilon: 1.0, {}, noise_scale: calibrated}}]"
    slope = (2 * (longest_row() ** 2 + 1)) ** 0.5  # of a softmax, with an intercept
    honest = honest.replace("1.0,", f"1.0, radius: {slope!r},")
    short = short_of_a_minimum()
    right = scenario(honest.format("samples: 20, new: 10, alpha: 0.1"), "training.weight_decay=0.1", SLOW)
    assert epsilon_columns(run(right, tmp_path / "a").path) == [pytest.approx((short, short * 650**0.5))] * 4
    assert right.privacy.stages[0].penalty == 0.1 and right.cautions() == []
    for keys, factor in (("samples: 2000, new: 1000, alpha: 0.1", 100.0), ("samples: 20, new: 10, alpha: 1.0", 10.0)):
        made = scenario(honest.format(keys), "training.weight_decay=0.1", SLOW)
        found = epsilon_columns(run(made, tmp_path / "b").path)
        assert found == [pytest.approx((factor * short, factor * short * 650**0.5))] * 4, keys
        assert any("made for alpha" in text for text in made.cautions()) == (factor == 10)
    none, short = scenario(honest.format("samples: 20, new: 10, alpha: 0.1"), SLOW), short_of_a_minimum(penalty=0.0)
    assert epsilon_columns(run(none, tmp_path / "c").path) == [pytest.approx((short, short * 650**0.5))] * 4
    with pytest.raises(InvalidScenario, match="the nearest valid value is 0.1"):
        scenario(honest.format("samples: 20, penalty: 0.2"), "training.weight_decay=0.1")


def test_shares_of_clients_that_are_in_no_sum_protect_nobody():
    stage, members = OutputPerturbation(epsilon=1.0, samples=30, penalty=1.0, noise_scale="calibrated"), Members(
        0, jobs(4), np.array([1.0, 1, 1, 0]), 3.0, examples=np.array([30, 30, 30, 0]), slope=1.0,
        positions=tuple(np.arange(30 * i, 30 * min(i + 1, 3)) for i in range(4)),
    )  # fmt: skip
    from simfl.privacy.dp.mechanisms import laplace

    found = stage.facts(members, {"dimension": np.int64(1)})["epsilon_weight"]
    assert found == pytest.approx(laplace.pure_epsilon(2 / 30, 2 / 30, 0.75)) and found > 1.2


def test_the_same_noise_again_is_for_the_same_models_only():
    keys = "privacy.stages=[{name: output_perturbation, epsilon: 1.0, samples: 20, alpha: 0.1, rounds: 2}]"
    for client in ("plain", "{name: privacyfl, from_scratch: false}"):
        with pytest.raises(InvalidScenario, match="from_scratch: true"):
            scenario(keys, f"training.client={client}")
    assert scenario(keys).privacy.stages[0].rounds == 2


def noises(stage, cohorts, counts):
    """The noise and the epsilon of each round, sums of zeros over these clients."""
    state, found = stage.start(4), []
    for version, (cohort, held) in enumerate(zip(cohorts, counts, strict=True)):
        some = tuple(Job.of(version, c, version, 0.0) for c in cohort)
        members = Members(
            version, some, np.ones(len(some)), 1.0, examples=np.full(len(some), held), slope=1.0,
            positions=tuple(np.arange(held) + 100 * client for client in cohort),
        )  # fmt: skip
        sent = stage.client(np.zeros((len(some), 4), np.float32), some, state, Streams(0))
        found.append((sent[0], stage.facts(members, state)["epsilon_model"]))
        state = stage.server(sent.sum(axis=0), members, state, Streams(0))[1]
    return found


def test_noise_is_free_where_one_cohort_sends_it_again_and_drawn_anew_elsewhere():
    stage = OutputPerturbation(epsilon=1.0, samples=30, new=10, rounds=2, alpha=0.1, penalty=0.1)
    every, some = (0, 1, 2), (0, 1)
    found = noises(stage, [every, every, every, some, some, every], [30, 40, 40, 40, 40, 40])
    again = [any(np.array_equal(a, b) for b, _ in found[:i]) for i, (a, _) in enumerate(found)]
    assert again == [False, False, True, False, True, False]
    assert [epsilon == 0 for _, epsilon in found] == again
    fresh = noises(replace(stage, rounds=None), [every] * 4, [30, 40, 50, 60])
    assert len({tuple(noise.tolist()) for noise, _ in fresh}) == 4 and all(0 < e < np.inf for _, e in fresh)
    wrong = noises(stage, [every] * 4, [30, 40, 50, 60])  # there are new samples after all
    assert [e < np.inf for _, e in wrong] == [True, True, False, False]


def test_two_jobs_of_a_client_on_one_version_have_noises_of_their_own():
    """Drawn staleness lets it work on version 3 again; equal noise would show how the two updates differ."""
    stage, zero = OutputPerturbation(epsilon=1.0, samples=30), np.zeros((1, 4), np.float32)
    one, again, other = (
        stage.client(zero, (Job.of(selection, 0, version, 0.0),), stage.start(4), Streams(0))
        for selection, version in ((3, 3), (5, 3), (5, 5))
    )
    assert not np.array_equal(one, again)
    assert np.array_equal(again, other)  # what a synchronous round 5 draws, of which the selection is the version
    with pytest.raises(InvalidScenario, match="use null"):
        scenario(
            NOISE.replace("new: 10", "rounds: 2"), "training={name: fedbuff, buffer: 2, staleness: constant, "
            "weighting: equal, rounds: 4}"
        )  # fmt: skip


BUFFERED = """
clients: 2
seed: 1
selection: all
devices: {computation: 1}
training: {name: fedbuff, rounds: 40, buffer: 2, weighting: equal, weight_decay: 0.1, staleness: constant,
           arrivals: {name: uniform_staleness, max: 3}, batch_size: null}
learning: {data: digits, model: logistic, evaluate: {every: 0}}
"""


def test_no_two_jobs_of_a_buffered_run_carry_the_same_noise(tmp_path, monkeypatch):
    """Although clients work on the same version twice."""
    noises, added = {}, OutputPerturbation.client

    def client(stage, vectors, jobs, state, streams):
        sent = added(stage, vectors, jobs, state, streams)
        noises.update(zip(((job.client, job.version, job.id) for job in jobs), sent - vectors, strict=True))
        return sent

    monkeypatch.setattr(OutputPerturbation, "client", client)
    noise = "{name: output_perturbation, epsilon: 1, samples: 719, alpha: 0.1, radius: 1e8}"
    run(Scenario.parse(BUFFERED, "buffered", [f"privacy.stages=[{noise}]"]), tmp_path)
    assert len({job[:2] for job in noises}) < len(noises) == 80
    assert len({noise.round().tobytes() for noise in noises.values()}) == 80


def test_departures_leave_no_epsilon_of_a_sample(tmp_path):
    made = scenario(NOISE, "training.weight_decay=0.1", "training.client.tolerance=1e-9")
    assert epsilon_columns(run(made, tmp_path).path) == [(np.inf, np.inf)] * 4
    assert any("leave after a look" in text for text in made.cautions())


def test_different_epsilons_of_gaussian_noise_add_up_exactly():
    """Three stds in quadrature over three: the middle one protects everybody."""
    members = held(3)
    mixed = OutputPerturbation(
        epsilon=(1.0, 0.5, 0.1), samples=30, penalty=1.0, noise_scale="calibrated", mechanism="gaussian"
    )
    stds = [gaussian.std(2 / 30, epsilon, 1e-5) for epsilon in (1.0, 0.5, 0.1)]
    together = np.sqrt(np.square(stds).mean())
    found = mixed.facts(members, {"dimension": np.int64(9)})["epsilon_weight"]
    assert found == pytest.approx(float(gaussian.epsilon(2 / 30 / together, 1e-5))) and 0.1 < found < 0.5


@pytest.mark.parametrize("keys, why", [
    ("mechanism: gaussian, epsilon: 2.0", "noise_scale: calibrated"),
    ("mechanism: staircase, epsilon: 1.0", "use whole"),
    ("epsilon: []", "has 0 values for"),
])  # fmt: skip
def test_records_noise_that_there_is_not_is_refused(keys, why):
    with pytest.raises(InvalidScenario, match=why):
        scenario(f"privacy.stages=[{{name: output_perturbation, samples: 20, {keys}}}]")


def test_one_record_moves_a_regularised_model_by_no_more_than_the_sensitivity():
    """Logistic loss, |x| <= 1, alpha: the minimisers of neighbouring data differ by at most 2 / (k alpha)."""
    from scipy.optimize import minimize

    rng, k, alpha = np.random.default_rng(3), 20, 0.2
    for _ in range(5):
        x = rng.normal(size=(k + 1, 4))
        x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
        y = rng.choice([-1.0, 1.0], k + 1)

        def best(rows, x=x, y=y):
            def loss(w):
                return np.logaddexp(0, -y[rows] * (x[rows] @ w)).mean() + alpha / 2 * w @ w

            return minimize(loss, np.zeros(4), tol=1e-12).x

        apart = np.linalg.norm(best(np.arange(k)) - best(np.arange(1, k + 1)))
        assert 0 < apart <= 2 / (k * alpha)


# -- without a server -------------------------------------------------------------------------------------


@pytest.mark.parametrize("secagg", ["plain", "pairwise_ratchet"])
def test_without_a_server_the_model_is_the_servers(secagg, tmp_path):
    fields = () if secagg == "plain" else ("secagg=pairwise_ratchet",)
    server, none = (run(scenario(*fields, f"training.name={name}"), tmp_path).path for name in ("fedavg", "serverless"))
    assert np.array_equal(model(server), model(none))
    found = rows(none, "participation.csv")
    assert {(row["aggregator"], row["client"]) for row in found} == {
        (str(a), str(c)) for a in range(3) for c in range(3)
    }


def test_the_times_of_peers_are_those_of_their_slowest_way(tmp_path):
    """Lines of 0.3, 2.0 and 0.1 s: everybody waits 0.01 s of work and the 2.3 s between clients 0 and 1."""
    folder = run(scenario("training.name=serverless", "trace=events"), tmp_path).path
    assert [float(row["time_s"]) for row in rows(folder, "rounds.csv")] == pytest.approx([2.31, 4.62, 6.93, 9.24])
    (row, *_) = rows(folder, "rounds.csv")
    assert int(row["bytes_up"]) == 6 * 4 * 650 and int(row["bytes_down"]) == 0
    assert (folder / "events.jsonl").read_text().count('"update"') == 4 * 6


def test_a_missing_peer_under_masks_fails_the_round_and_in_clear_it_does_not(tmp_path):
    dies = ("devices.failure={name: bernoulli, probability: 0.4}", "training.name=serverless", "training.rounds=12")
    clear = rows(run(scenario(*dies), tmp_path).path, "rounds.csv")
    masked = rows(run(scenario(*dies, "secagg=pairwise_ratchet"), tmp_path).path, "rounds.csv")
    for one, other in zip(clear, masked, strict=True):
        assert one["failed"] == other["failed"]
        assert int(other["cardinality"]) == (3 if one["failed"] == "0" else 0)
        assert int(one["cardinality"]) == 3 - int(one["failed"])
    assert {row["failed"] for row in clear} > {"0", "1"}


def test_phases_need_a_server():
    with pytest.raises(InvalidScenario, match="is serverless, but secagg has phases that a server runs"):
        scenario("training.name=serverless", "secagg=secagg")
