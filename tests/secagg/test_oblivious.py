"""Oblivious distributed noise: exact sums under noise that nobody can read, and what a coalition is left with."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from simfl.core.rng import Streams
from simfl.papers.oblivious.noise_messages import (
    GridNoise,
    ObliviousPlan,
    Party,
    choices,
    forward,
    pure_epsilon,
    run_round,
)
from simfl.papers.oblivious.oblivious_noise import Oblivious, guesses, masks
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from simfl.secagg.crypto.field import Q, to_signed
from simfl.secagg.sessions import Cohort, PreparedUnits, SessionFailure
from tests.plugins.test_public_interface import killed_and_resumed, rows, tables
from tests.secagg.test_sums import drive

pytestmark = pytest.mark.usefixtures("sweeps_here")


def plan(n, d, scale=200.0, kept_share=False, number=0):
    return ObliviousPlan(number, np.arange(n, dtype=np.int32), d, GridNoise(1 / n, scale), kept_share)


def vectors(n, d, seed=0):
    return np.random.default_rng(seed).integers(-(2**20), 2**20, (n, d))


def used(plan, number, streams):
    """The noise that is really in a round's sum: of every sender, (n, d) receivers by coordinates."""
    found = []
    for i in range(plan.parties):
        dealt = Party(plan, i, streams).draw_noise()
        label = choices(plan, number, i, streams) ^ forward(plan, i, dealt.sent, streams).swapped
        found.append(np.where(label, dealt.noise[1], dealt.noise[0]))
    return np.array(found)


# -- the sum ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept_share", [False, True], ids=["protocol_1", "kept_share"])
@pytest.mark.parametrize("n, d", [(2, 3), (3, 1), (5, 4), (12, 7)])
def test_the_sum_is_that_of_vectors_and_noise_to_the_last_bit(n, d, kept_share):
    for seed in range(20):
        streams, made, x = Streams(seed), plan(n, d, kept_share=kept_share, number=seed), vectors(n, d, seed)
        masked = x + masks(streams, made.clients, seed, d)
        assert not (masked - x).sum(axis=0).any() and (masked - x).any()
        done = run_round(made, seed, masked, streams)
        expected = x.sum(axis=0) + used(made, seed, streams).sum(axis=(0, 1))
        assert np.array_equal(done.total, expected % Q)
        assert used(made, seed, streams).any(), "there is noise to look for"


def test_both_variants_are_the_same_integers():
    for seed in range(10):
        streams, x = Streams(seed), vectors(6, 5, seed)
        one, other = (run_round(plan(6, 5, kept_share=kept), 3, x, streams) for kept in (False, True))
        assert np.array_equal(one.total, other.total) and not np.array_equal(one.vectors, other.vectors)


@pytest.mark.parametrize("kept_share", [False, True], ids=["protocol_1", "kept_share"])
def test_a_party_that_leaves_out_a_noise_spoils_the_sum(kept_share):
    """In both variants: what it leaves out is masked, and the author has taken just that mask off."""
    streams, made, x = Streams(1), plan(5, 2000, kept_share=kept_share), vectors(5, 2000)
    honest = run_round(made, 0, x, streams)
    passed = forward(made, 0, Party(made, 0, streams).draw_noise().sent, streams)
    left_out = np.where(choices(made, 0, 0, streams), passed.pair[1], passed.pair[0])[3]
    cheated = honest.vectors.copy()
    cheated[3] -= left_out
    off = ((cheated.sum(axis=0) - honest.random) - honest.total) % Q
    assert stats.chisquare(np.bincount(off * 16 // Q, minlength=16)).pvalue > 1e-3


def test_every_pair_agrees_on_its_mask_and_no_two_rounds_share_one():
    clients = np.array([3, 5, 11], dtype=np.int32)
    first, second, far = (masks(Streams(4), clients, number, 6) for number in (0, 1, 130))
    assert not first.sum(axis=0).any() and not far.sum(axis=0).any()
    assert not np.array_equal(first, second)
    pair = masks(Streams(4), clients[:2], 1, 6)  # a pair's masks depend on nobody else
    alone = second[0] - masks(Streams(4), clients[[0, 2]], 1, 6)[0]
    assert np.array_equal(pair[0], alone)


# -- what is hidden ---------------------------------------------------------------------------------------


def test_messages_are_uniform():
    """64 bins of what the server sees, of what a receiver sees, and of what the parties send."""
    streams, made = Streams(8), plan(5, 20_000)
    sent = Party(made, 0, streams).draw_noise().sent
    passed = forward(made, 0, sent, streams)
    y = run_round(made, 0, np.zeros((5, 20_000), dtype=np.int64), streams).vectors
    for values in (sent[0, 1:], sent[1, 1:], passed.pair[0, 1:], passed.pair[1, 1:], y[2]):
        assert stats.chisquare(np.bincount(values.ravel() * 64 // Q, minlength=64)).pvalue > 1e-3


def test_an_author_cannot_tell_which_of_its_noises_is_used():
    streams, made = Streams(2), plan(101, 100)
    dealt = Party(made, 7, streams).draw_noise()
    swapped = forward(made, 7, dealt.sent, streams).swapped
    taken = choices(made, 0, 7, streams)
    others = np.arange(101) != 7
    for bits in (swapped, taken, swapped ^ taken):
        guess = bits[others].ravel()
        assert abs(guess.mean() - 0.5) < 4 * sqrt(0.25 / guess.size) and guess.size == 10_000


def test_a_receiver_sees_the_difference_of_two_noises_and_nothing_else():
    streams, made = Streams(3), plan(6, 50)
    dealt = Party(made, 2, streams).draw_noise()
    passed = forward(made, 2, dealt.sent, streams)
    apart = to_signed((passed.pair[1] - passed.pair[0]) % Q)
    difference = dealt.noise[1] - dealt.noise[0]
    assert np.array_equal(apart, np.where(passed.swapped, -difference, difference)) and difference.any()


# -- the noise --------------------------------------------------------------------------------------------


def laplace_chances(scale, size=4000):
    """Of a discrete Laplace variable, -size .. size."""
    chances = np.exp(-np.abs(np.arange(-size, size + 1)) / scale)
    return chances / chances.sum()


@pytest.mark.parametrize("parties, scale", [(50, 40.0), (200, 5.0), (12, 0.4), (3, 3.0)])
def test_terms_are_shares_of_discrete_laplace_noise(parties, scale):
    """A negative binomial variable is a Poisson one of a Gamma one; so many terms as parties are one Laplace."""
    size, shape = 400_000, 1 / parties
    made = GridNoise(shape, scale)
    terms = made.draw(np.random.default_rng(5), size).dense(size)
    rng = np.random.default_rng(6)
    pair = rng.poisson(rng.standard_gamma(shape, (2, size)) / np.expm1(1 / scale))
    plain = pair[0] - pair[1]
    edges = np.unique(np.concatenate([[-0.5, 0.5], np.quantile(plain[plain != 0], np.linspace(0, 1, 9)[1:-1]) + 0.25]))
    table = np.array([np.bincount(np.digitize(part, edges), minlength=len(edges) + 1) for part in (terms, plain)])
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-3
    whole = terms[: size // parties * parties].reshape(-1, parties).sum(axis=1)
    chances, most = laplace_chances(scale), max(1, int(3 * scale))
    seen = np.bincount(np.clip(whole, -most, most) + most, minlength=2 * most + 1)
    middle = len(chances) // 2
    expected = chances[middle - most : middle + most + 1].copy()
    expected[[0, -1]] = (1 - expected[1:-1].sum()) / 2
    assert stats.chisquare(seen, expected * len(whole)).pvalue > 1e-3
    assert made.variance * parties == pytest.approx((chances * np.arange(-middle, middle + 1) ** 2).sum(), rel=1e-6)


def rounded(x, noise):
    """The chances of a number that is rounded at random to whole ones and gets noise; both have room at the ends."""
    low = int(np.floor(x))
    return (1 - (x - low)) * np.roll(noise, low) + (x - low) * np.roll(noise, low + 1)


@pytest.mark.parametrize("laplaces", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.08, 0.32, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("moved", [0.08, 0.32, 1.0, 1.7, 4.0])
def test_the_epsilon_of_a_rounded_weight_is_true_by_enumeration(moved, scale, laplaces):
    noise, one = laplace_chances(scale, 400), laplace_chances(scale, 400)
    for _ in range(laplaces - 1):
        noise = np.convolve(noise, one, mode="same")
    noise = np.maximum(noise, 1e-280)  # beyond, and around, doubles end
    middle = slice(400 - int(min(300, 100 * scale)) - 3, 400 + int(min(300, 100 * scale)) + 4)
    epsilon = pure_epsilon(moved, scale)
    for begin in np.linspace(0, 1, 11):
        one_way, other_way = (rounded(x, noise)[middle] for x in (begin, begin + moved))
        assert np.abs(np.log(one_way) - np.log(other_way)).max() <= epsilon * (1 + 1e-9) + 1e-9


def test_on_a_fine_grid_epsilon_is_that_of_real_numbers():
    assert pure_epsilon(2.0**20, 2.0**20) == pytest.approx(1.0, rel=1e-6)
    assert pure_epsilon(0.08, 0.08) == pytest.approx(1 / 0.08)  # of a step, however rarely
    assert pure_epsilon(0.0, 0.0) == 0.0 and pure_epsilon(1.0, 0.0) == np.inf and pure_epsilon(1.0, 0.5**20) == 2**20


@pytest.mark.parametrize("execute", ["true", "cost_only"])
def test_a_coarse_grid_costs_what_it_costs_and_is_pointed_out(execute, tmp_path):
    """Noise of 0.08 steps hides nothing of a rounded weight: 12.5 a round, not the 1 that real numbers would have."""
    keys = "secagg={name: oblivious, epsilon: 1, samples: 200, radius: 8, noise_scale: calibrated, scale: 1, clip: 2}"
    more = (keys, "attacks=[]", "training.weight_decay=1.0", "training.learning_rate=0.01", f"secagg.execute={execute}")
    coarse, fine = scenario(*more), scenario(*more, "secagg.scale=null")
    folders = [run(of, tmp_path).path for of in (coarse, fine)]
    cells = [[float(row["epsilon_weight"]) for row in rows(folder, "rounds.csv")] for folder in folders]
    data = build(fine).learner.data
    longest = np.linalg.norm(data.x_train.reshape(len(data.x_train), -1).astype(float), axis=1).max()
    held = min(int(row["samples"]) for row in rows(folders[1], "clients.csv"))
    last = held - range(0, held, coarse.training.batch_size or held)[-1]
    moved = 2 * 0.01 * sqrt(2 * (longest**2 + 1)) / last  # the sample does most in the last batch
    assert cells[0] == pytest.approx([12.5] * 4) and cells[1] == pytest.approx([moved / 0.08] * 4, rel=1e-5)
    (said,) = (caution for caution in coarse.cautions() if "steps of the grid" in caution)
    assert "0.08 steps" in said and "12.5, not 1" in said and "secagg.scale of 625 or more" in said
    assert not any("steps of the grid" in caution for caution in fine.cautions())


def test_no_noise_is_no_term():
    assert not len(GridNoise(0.1, 0.0).draw(np.random.default_rng(0), 1000).places)


def test_the_noise_of_the_sum_is_one_laplace_less_than_there_are_parties():
    n, scale = 10, 500.0
    made = plan(n, 4000, scale)
    noise = used(made, 0, Streams(1)).sum(axis=(0, 1)) / scale
    rng = np.random.default_rng(2)
    laplaces = rng.laplace(size=(9, 40_000)).sum(axis=0)
    assert stats.ks_2samp(noise, laplaces).pvalue > 1e-3


def test_residuals_of_the_attacks_in_laplaces():
    """n = 100: naive 99, random 99, mean 49.995, difference 295.02, pooled 0.99; each within 4 standard errors."""
    n, d, scale = 100, 500, 1000.0
    streams, made = Streams(0), plan(n, d, scale)
    noise = used(made, 0, streams).sum(axis=(0, 1)).astype(float)
    found = {"naive": np.zeros(d), **guesses(made, 0, np.arange(1, n), 1.0, streams)}
    laplaces = {name: float(np.mean((noise - taken) ** 2)) / (2 * scale**2) for name, taken in found.items()}
    expected = {"naive": 99.0, "random": 99.0, "mean": 99 * 101 / 200, "difference": 99 * 298 / 100, "pooled": 0.99}
    for name, value in expected.items():
        assert abs(laplaces[name] / value - 1) < 4 * sqrt(5 / d), (name, laplaces[name])


# -- the talks --------------------------------------------------------------------------------------------


def protocol(**fields):
    return Oblivious(epsilon=1.0, samples=50, min_sum=2, weight_channel=False, **fields)


def cohort(n, d=105, clients=None):
    return Cohort(4, np.arange(n, dtype=np.int32).reshape(-1, 1), d, clients or n)


def test_bytes_are_two_noises_for_everybody_else_in_every_round():
    n, d = 5000, 105
    end, asks = drive(protocol().prepare(cohort(n, d), Streams(0)), ["never"] * n)
    assert isinstance(end, PreparedUnits) and [ask.kind for ask in asks] == ["noise"]
    assert asks[0].up_bytes == end.down_bytes == 8 * (n - 1) * d == 4_199_160
    assert n * asks[0].up_bytes == pytest.approx(21e9, rel=0.001)


def test_noise_dealt_once_costs_once():
    n, d = 200, 105
    setup, asks = drive(protocol(noise="once").setup(cohort(n, d), Streams(0)), ["never"] * n)
    assert [ask.kind for ask in asks] == ["setup", "noise"]
    assert asks[1].up_bytes == asks[1].down_bytes == 8 * (n - 1) * d
    end, asks = drive(protocol(noise="once").prepare(cohort(n, d), Streams(0)), ["never"] * n)
    assert not asks and end.down_bytes == 0


@pytest.mark.parametrize("phase", ["noise", "upload"])
def test_whoever_is_missing_fails_the_round_by_name(phase):
    made, group = protocol(), cohort(4)
    prepared, _ = drive(made.prepare(group, Streams(0)), ["never", phase, "never", "never"])
    if phase == "noise":
        assert isinstance(prepared, SessionFailure) and prepared.reason == "noise: 1 of 4 clients are missing"
        return
    end, _ = drive(made.recover(group, np.array([[1], [0], [1], [1]], dtype=bool), [None], Streams(0)), [])
    assert isinstance(end, SessionFailure) and end.reason.startswith("upload: 1 of 4 clients are missing")


def test_five_thousand_weights_of_fifty_leave_thirteen_bits():
    """Fixed point of 2^f: 5,000 times 50 times 2^13 is below q/2, twice that is not; noise takes room, too."""
    tiny = Oblivious(epsilon=1e6, samples=200, clip=50, min_sum=2)
    assert tiny.grid(tiny.limit(cohort(5000))).scale == 2**13
    loud = Oblivious(epsilon=1e-8, samples=200, clip=50, min_sum=2)
    assert loud.grid(loud.limit(cohort(5000))).scale < 2**13
    deaf = Oblivious(epsilon=1e-15, samples=200, clip=50, min_sum=2)
    end, _ = drive(deaf.prepare(cohort(5000), Streams(0)), [])
    assert isinstance(end, SessionFailure) and "no room in the field" in end.reason


def test_scales_are_the_published_ones():
    """k = 200, alpha = 1, epsilon = 1e-5: the mean's noise has deviations 1.407, 0.499, 0.126."""
    made = Oblivious(epsilon=1e-5, samples=200, min_sum=2)
    for n, published in ((100, 1.407), (200, 0.499), (500, 0.126)):
        done = drive(made.recover(cohort(n), np.ones((n, 1), dtype=bool), [None], Streams(0)), [])[0]
        assert done.row["noise_std"] == pytest.approx(published, abs=5e-4)
        assert made._with_certificate({}, done.secret, 2.0**20, 2 / 200)["epsilon_weight"] == pytest.approx(n * 1e-5)
    honest = Oblivious(epsilon=1e-5, samples=200, noise_scale="calibrated", min_sum=2)
    done = drive(honest.recover(cohort(100), np.ones((100, 1), dtype=bool), [None], Streams(0)), [])[0]
    assert honest._with_certificate({}, done.secret, 2.0**20, 2 / 200)["epsilon_weight"] == pytest.approx(1e-5)
    assert honest._with_certificate({}, done.secret, 2.0**20, np.inf)["epsilon_weight"] == np.inf


# -- on the clock -----------------------------------------------------------------------------------------

BASE = """
name: oblivious
clients: 6
network: {name: star, latency_s: 0.5}
selection: all
training: {name: fedavg, rounds: 4, batch_size: 50, weighting: equal}
learning: {data: digits, model: logistic}
secagg: {name: oblivious, epsilon: 50, samples: 200, rates: {agreement_s: 0, element_s: 0}, term_s: 0}
attacks: [{name: collusion, victim: 2}]
"""


def scenario(*overrides):
    return Scenario.parse(BASE, "oblivious", overrides)


def test_rounds_take_two_ways_more_than_plain_ones_and_noise_dealt_once_does_not(tmp_path):
    """Latency 1/2 s: 1 s for keys, then 1 s to deal and 1 s of work a round; dealt once, 1 s before the first."""
    every = rows(run(scenario("learning=none"), tmp_path).path, "rounds.csv")
    once = rows(run(scenario("learning=none", "secagg.noise=once"), tmp_path).path, "rounds.csv")
    assert [float(row["time_s"]) for row in every] == pytest.approx([3, 5, 7, 9])
    assert [float(row["time_s"]) for row in once] == pytest.approx([3, 4, 5, 6])


def test_a_killed_run_goes_on_to_the_same_bytes_and_so_does_a_sweep(tmp_path, monkeypatch):
    import simfl

    whole = tables(run(scenario(), tmp_path / "whole").path)
    assert tables(killed_and_resumed(scenario(), tmp_path / "killed", monkeypatch, 2)) == whole
    file = tmp_path / "oblivious.yaml"
    file.write_text(BASE)
    swept = simfl.sweep(file, {"seed": [0]}, out=tmp_path / "swept", jobs=1)
    assert swept.failed.empty and tables(next(iter(swept.results())).path) == whole


def test_cost_only_is_the_same_but_for_the_noise(tmp_path):
    real = run(scenario("attacks=[]"), tmp_path).path
    cheap = run(scenario("attacks=[]", "secagg.execute=cost_only"), tmp_path).path
    for name in ("participation.csv", "phases.csv"):
        assert (real / name).read_bytes() == (cheap / name).read_bytes()
    for one, other in zip(rows(real, "rounds.csv"), rows(cheap, "rounds.csv"), strict=True):
        for name in ("time_s", "bytes_up", "bytes_down", "noise_std", "epsilon_weight"):
            assert one[name] == other[name]


def test_the_observer_is_told_what_its_coalition_knows_and_no_more(tmp_path):
    """Without noise (an enormous epsilon) all others together have the victim's update, as under a plain sum."""
    found = {}
    for name, changes in (("oblivious", ("secagg.epsilon=1e8",)), ("plain", ("secagg=plain",))):
        table = rows(run(scenario(*changes), tmp_path).path, "attacks.csv")
        found[name] = {row["name"] for row in table}
        residuals = [float(row["value"]) for row in table if row["name"] == "residual_naive"]
        assert len(residuals) == 4 and max(residuals) < 1e-8
    strategies = {f"{kind}_{name}" for kind in ("residual", "estimate")
                  for name in ("naive", "random", "mean", "difference", "pooled")}  # fmt: skip
    assert found["oblivious"] == strategies | {"actual"}
    assert found["plain"] == {"residual_naive", "estimate_naive", "actual"}


def test_what_does_not_fit_is_refused_by_key():
    for changes, key in (
        (("training.weighting=samples",), "secagg.weight_channel"),
        (("secagg.noise=once", "selection=random:k=3"), "secagg.noise"),
        (("attacks.0.victim=6",), "attacks.0.victim"),
        (("training={name: fedbuff, rounds: 2, concurrency: 3}",), "needs one cohort"),
    ):
        with pytest.raises(InvalidScenario, match=key):
            scenario(*changes)
