"""Stages: what clients send and servers make of it, every drop, every loss; and what each plugin must hold in a run."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.certify.maps import clip_norms, norms
from simfl.privacy.dp.losses import ORDERS, rdp_epsilon
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.dp.stages.discrete_noise import IntegerGrid, hadamard, round_within_l2
from simfl.privacy.stage import NOT_FINITE, STAGES, Members
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.plugins.test_public_interface import BASE, FEDAVG, FEDBUFF, killed_and_resumed, rows, tables
from tests.privacy.test_dp_mechanisms import excess
from tests.support.privacy_losses import own_loss

RECORDS = {"output_perturbation"}
"""Stages that protect single samples: tests/clients/test_privacyfl.py."""
ALL = [name for name, cls in STAGES.items() if cls.__module__.startswith("simfl.") and name not in RECORDS]
STREAMS = Streams(3)

WHOLE = [name for name in ALL if STAGES[name].whole and name != "discrete_laplace"]


def jobs(n, version=0, first=0):
    return tuple(Job(first + i, first + i, version, 0.0) for i in range(n))


def members(n, number=0, weights=None, version=0):
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    return Members(number, jobs(n, version), weights, float(weights.sum()))


def made(name, **fields):
    return replace(STAGES.of(name), **fields)


def through(stage, vectors, state=None, number=0):
    """What the server gets of a mean of these vectors, and the next state."""
    n = len(vectors)
    state = stage.start(vectors.shape[1]) if state is None else state
    sent = stage.client(vectors.astype(np.float32), jobs(n, number), state, STREAMS)
    total = sent.sum(axis=0) / n
    summed = members(n, number, version=number)
    surplus = max(stage.seeds - ((getattr(stage, "sharers", None) or n) - n), 0) % (stage.seeds + 1)
    if surplus and n >= stage.sharers - stage.seeds:
        seeds = [stage.secrets(job, STREAMS) for job in jobs(n, number)]
        summed = summed._replace(opened=tuple(each[len(each) - surplus :] for each in seeds))
    return stage.server(total, summed, state, STREAMS)


# -- clipping -----------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(0, 8), st.floats(1e-6, 1e6), st.sampled_from([1, 2]), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_clipping_scales_whole_vectors_down_and_never_above_the_norm(n, d, most, order, seed):
    vectors = (np.random.Generator(np.random.Philox(seed)).normal(size=(n, d)) * 10.0 ** (seed % 7 - 3)).astype("f4")
    found = clip_norms(vectors, most, order)
    before, after = norms(vectors, order), norms(found, order)
    assert (after <= most).all()
    for i in range(n):
        if before[i] <= most:
            assert found[i].tobytes() == vectors[i].tobytes()
        else:
            assert after[i] == pytest.approx(most, rel=1e-5)
            np.testing.assert_allclose(found[i] / after[i], vectors[i] / before[i], atol=1e-5)


def test_zero_stays_and_what_is_no_number_becomes_zero():
    vectors = np.array([[0, 0], [np.nan, 1], [np.inf, 1], [3, 4], [3e38, 3e38]], dtype=np.float32)
    found = clip_norms(vectors, 1.0)
    assert not found[:3].any() and norms(found[3:]) == pytest.approx([1, 1], rel=1e-5)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", ALL)
def test_every_stage_makes_zero_of_what_is_no_number_and_says_that_it_does(name):
    """Whatever else is in such an update, what is sent is what a silent client would send."""
    fields = {"bits": 16, "sharers": 4} if name in WHOLE else {"sharers": 4} if "shar" in str(vars(made(name))) else {}
    stage = made(name, **fields)
    state = stage.start(6)
    broken = np.array([[np.nan, 5, 0, 0, 0, 1], [np.inf, 0, 0, 0, 0, 0]], dtype=np.float32)
    sent, silent = (stage.client(v, jobs(2), state, STREAMS)[:, :6] for v in (broken, np.zeros_like(broken)))
    assert sent.tobytes() == silent.tobytes() and NOT_FINITE in stage.columns


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("clipping", "local_staircase")])
def test_nobody_moves_a_sum_by_more_than_the_sensitivity(name):
    """Of what leaves a client, noise taken off: against a silent one, with the same draws."""
    if name == "discrete_laplace":  # with this epsilon no noise is drawn
        quiet = {"fraction_bits": 10, "sharers": 4, "epsilon": 1e9}
    elif "noise_multiplier" in vars(STAGES.of(name)):
        quiet = {"noise_multiplier": 0.0, **({"bits": 16, "sharers": 4} if STAGES[name].whole else {})}
    else:
        quiet = {}
    stage = made(name, **quiet)
    big = np.full((1, 20), 100.0)
    state, order = stage.start(20), 1 if "laplace" in name else 2
    one, none = (stage.client(v.astype(np.float32), jobs(1), state, STREAMS) for v in (big, 0 * big))
    if stage.whole:
        fact = stage.facts(members(1), state)
        assert np.linalg.norm(one.astype(float)) <= fact.get("l2", np.inf) and np.abs(one).sum() <= fact["l1"]
        return
    assert norms((one - none)[:, :20], order) <= stage.facts(members(1), state)["sensitivity"] * (1 + 1e-5)


# -- adaptive clipping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.003, 1.0, 40.0])
def test_the_adaptive_norm_finds_the_quantile(length):
    """Half of the updates are shorter than ``length``; a count of those *clipped* would run away."""
    stage = made("adaptive_gaussian", noise_multiplier=0.0, bit_std=1.0)
    state, rng = stage.start(3), STREAMS("lengths")
    for t in range(150):
        lengths = length * np.exp(rng.normal(size=40))
        vectors = np.zeros((40, 3))
        vectors[:, t % 3] = lengths
        _, state = through(stage, vectors, state, t)
    assert state["norm"][-20:].mean() == pytest.approx(length, rel=0.15)


def test_one_step_of_the_adaptive_norm_is_the_published_one():
    stage = made("adaptive_gaussian", noise_multiplier=0.0, bit_std=1.0, initial_norm=2.0, rate=0.2, quantile=0.3)
    vectors = np.diag([1.0, 1.9, 2.0, 5.0])  # three of four are at most 2 long, before clipping
    mean, state = through(stage, vectors)
    assert state["norm"].tolist() == pytest.approx([2.0, 2.0 * np.exp(-0.2 * (0.75 - 0.3))])
    np.testing.assert_allclose(mean, np.array([1.0, 1.9, 2.0, 2.0]) / 4, rtol=1e-5)


def test_what_bits_cost_is_taken_from_the_updates():
    stage = made("adaptive_gaussian", noise_multiplier=1.0, bit_std=2.0)
    updates, bits = stage.update_multiplier, 2 * stage.bit_std
    assert updates**-2 + bits**-2 == pytest.approx(1.0)
    facts = {name: np.array([value]) for name, value in stage.facts(members(3), stage.start(3)).items()}
    assert own_loss(stage, facts).mu == pytest.approx([1.0])


def release(stage, count, state, number=0):
    """A sum of four updates of 0 in which the bits and their noise seem to count so many more short updates."""
    sent = np.array([0.0, 0.0, 0.0, count / 4], dtype="f4")
    return stage.server(sent, members(4, number, version=number), state, STREAMS)[1]


@pytest.mark.parametrize("count", [1e4, -1e4])
def test_a_norm_that_falls_or_grows_for_ever_stays_a_number_and_costs_what_it_costs(count):
    """The bits are released however short the updates are; ten rounds after ten others would have made the norm 0."""
    stage = made("adaptive_gaussian", noise_multiplier=2.0, bit_std=100.0, rate=10.0)
    state = stage.start(3)
    for t in range(20):
        state = release(stage, count, state, t)
        facts = {
            name: np.array([value]) for name, value in stage.facts(members(4, t + 1, version=t + 1), state).items()
        }
        assert own_loss(stage, facts).mu == pytest.approx([0.5], rel=1e-12)
        assert 1e-30 <= facts["clip_norm"][0] <= 1e30
    updates = stage.client(np.full((2, 3), 9, dtype="f4"), jobs(2, 20), state, STREAMS)[:, :-1]
    assert (norms(updates) <= state["norm"][-1]).all() and (updates > 0).all()


def test_nothing_added_to_updates_of_length_0_is_no_protection():
    stage, nothing = made("adaptive_gaussian", bit_std=1.0), np.array([0.0, np.nan, 1.0])
    loss = own_loss(stage, {"sensitivity": nothing, "std": np.array([0.0, np.nan, 2.0])})
    np.testing.assert_equal(loss.mu, [np.inf, np.nan, 0.5], "who asks for a round that said nothing decides")


def test_a_stale_client_clips_to_the_norm_of_its_own_model():
    stage = made("adaptive_gaussian", noise_multiplier=0.0, bit_std=1.0)
    state = {"since": np.array([0, 3, 7]), "norm": np.array([1.0, 2.0, 0.5])}
    sent = stage.client(np.full((4, 1), 9, "f4"), tuple(Job(i, i, v, 0.0) for i, v in enumerate((0, 2, 3, 9))), state,
                        STREAMS)  # fmt: skip
    assert sent[:, 0] == pytest.approx([1.0, 1.0, 2.0, 0.5], rel=1e-5)
    old = Members(9, tuple(Job(i, i, v, 0.0) for i, v in enumerate((3, 8))), np.ones(2), 2.0)
    assert stage.facts(old, state)["sensitivity"] == 2.0


# -- central noise and the tree -------------------------------------------------------------------------------


def test_central_noise_has_its_size_in_the_mean():
    stage = made("central_gaussian", clip_norm=2.0, noise_multiplier=3.0)
    mean, _ = through(stage, np.zeros((5, 40_000)))
    assert mean.std() == pytest.approx(6.0 / 5, rel=0.02)
    assert stage.facts(members(5), {})["noise_std"] == pytest.approx(6.0 / 5)


def test_sums_over_rounds_of_the_tree_hold_the_noise_of_their_blocks():
    """After t rounds the noise is that of the binary digits of t, and each block's stays the same."""
    stage = made("tree_gaussian", noise_multiplier=1.0)
    state, total, prefix = stage.start(30_000), np.zeros(30_000), {}
    for t in range(1, 17):
        mean, state = through(stage, np.zeros((2, 30_000)), state, 3 * t)  # rounds are skipped in between
        total = total + 2.0 * mean
        prefix[t] = total
        assert total.std() == pytest.approx(bin(t).count("1") ** 0.5, rel=0.03)
    # the first eight are one block of the first fifteen: 15 - 8 leaves the other three
    assert (prefix[15] - prefix[8]).std() == pytest.approx(3**0.5, rel=0.03)
    assert (prefix[15] - prefix[12]).std() == pytest.approx(2**0.5, rel=0.03)


# -- the lattice --------------------------------------------------------------------------------------------


@given(st.integers(0, 7), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_the_rotation_keeps_lengths_and_is_its_own_inverse(power, n, seed):
    rows = np.random.Generator(np.random.Philox(seed)).normal(size=(n, 2**power))
    np.testing.assert_allclose(hadamard(hadamard(rows)), rows, atol=1e-12)
    np.testing.assert_allclose(norms(hadamard(rows)), norms(rows), rtol=1e-12)


def test_roundings_are_unbiased_neighbours_of_bounded_length():
    row = np.array([0.25, -3.5, 2.0, 0.0, 10.75])
    found = np.array([round_within_l2(row, 1e9, STREAMS("round", i)) for i in range(4000)])
    assert (np.abs(found - row) < 1).all() and (found[:, 2:4] == [2, 0]).all()
    np.testing.assert_allclose(found.mean(axis=0), row, atol=0.05)
    short = [round_within_l2(row, np.linalg.norm(row) + 0.01, STREAMS("round", i)) for i in range(200)]
    assert max(np.linalg.norm(each) for each in short) <= np.linalg.norm(row) + 0.01


def test_the_published_bounds_of_the_lattice():
    """Kairouz, Liu and Steinke, eqs. in Algorithm 1, worked out by hand for d = 4, C = 1, n = 2, kappa = 4."""
    to = IntegerGrid(1.0, 2, 0.5, 10, 4.0).points(3)
    s = np.sqrt(2.0**20 - 32) / (8 * np.sqrt(4 / 4 + 2 * 0.25))
    assert to.dimension == 4 and to.scale == pytest.approx(s)
    expected = min((s + 2) ** 2, s**2 + 1 + np.sqrt(2 * 0.5) * (s + 1))
    assert to.l2**2 == pytest.approx(expected) and to.l1 == pytest.approx(to.l2 * 2)
    assert not IntegerGrid(1.0, 2**20, 0.5, 10, 4.0).possible


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("d", [1, 5, 64])
def test_without_noise_whole_numbers_give_the_mean_back(name, d):
    stage = made(name, noise_multiplier=0.0, sharers=6, bits=20, clip_norm=3.0)
    vectors = STREAMS("vectors").normal(size=(6, d)) / (2 * d**0.5)
    mean, _ = through(stage, vectors)
    np.testing.assert_allclose(mean, vectors.mean(axis=0), atol=4 / stage.grid.points(d).scale)


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian"])
@pytest.mark.parametrize("m", [3, 6])
def test_what_is_left_of_noise_is_what_the_facts_say(name, m):
    """m of six shares: variance m / 6 of the whole noise, and roundings."""
    stage = made(name, noise_multiplier=2.0, sharers=6, bits=18)
    d = 1 << 15
    mean, _ = through(stage, np.zeros((m, d)))
    assert mean.std() == pytest.approx(2.0 * (m / 6) ** 0.5 / m, rel=0.03)
    facts = stage.facts(members(m), stage.start(d))
    assert facts["noise_std"] == pytest.approx(2.0 * (m / 6) ** 0.5 / m)
    scale = stage.grid.points(d).scale
    assert facts["variance"] * facts["honest"] == pytest.approx(4.0 * m / 6 * scale**2)


@pytest.mark.parametrize("missing", range(7))
def test_xnoise_leaves_exactly_the_noise_asked_for_whoever_drops_out(missing):
    """Eight clients, up to three drops tolerated; beyond, too little is left, and said."""
    stage, d, m = made("xnoise", noise_multiplier=2.0, sharers=8, tolerance=3, bits=18), 1 << 14, 8 - missing
    left = 1.0 if missing <= 3 else m / (8 - 3)
    assert stage.remaining_variance(members(m)) * m / 8 == pytest.approx(left, rel=1e-12)
    mean, _ = through(stage, np.zeros((m, d)))
    assert (mean * m).var() == pytest.approx(4.0 * left, rel=0.05)
    facts = stage.facts(members(m), stage.start(d))
    assert facts["variance"] * m == pytest.approx(4.0 * left * stage.grid.points(d).scale ** 2)


@pytest.mark.parametrize("n, tolerance", [(2, 1), (10, 9), (100, 30)])
def test_the_parts_of_xnoise_add_up(n, tolerance):
    """What remains of n - D clients after D drops is the first's n parts, in fractions."""
    stage = made("xnoise", sharers=n, tolerance=tolerance)
    for missing in range(tolerance + 1):
        assert stage.remaining_variance(members(n - missing)) * (n - missing) / n == pytest.approx(1.0, rel=1e-12)
    after = [stage.remaining_variance(members(m)) * m / n for m in range(n - tolerance - 1, 0, -1)]
    assert all(a > b for a, b in pairwise([1.0, *after]))


@pytest.mark.parametrize("d", [1, 5, 300])
def test_polya_shares_leave_the_discrete_laplace_that_the_facts_say(d):
    """Six of six shares, and four: variance, epsilon, and the mean of what was rounded."""
    stage = made("discrete_laplace", epsilon=0.5, clip_norm=2.0, sharers=6, fraction_bits=8)
    x, t = np.zeros((6, d)), stage.steps(d)
    x[:, 0] = 0.37
    assert t.l1 == int(2 * 256 + d**0.5 / 2) and t.scale == t.l1 / 0.5
    times = 600 if d == 1 else 40
    sent = stage.client(np.tile(x, (times, 1)).astype(np.float32), jobs(6 * times), stage.start(d), STREAMS)
    sums = sent[:, 0].reshape(times, 6).sum(axis=1)
    means = [float(stage.server(np.array([one / 6]), members(6), {}, STREAMS)[0][0]) for one in sums.tolist()]
    fact = stage.facts(members(6), stage.start(d))
    assert fact["noise_std"] == pytest.approx((2 * t.scale**2) ** 0.5 / 256 / 6, rel=1e-3)
    assert abs(np.mean(means) - 0.37) < 4.5 * fact["noise_std"] / times**0.5 + 1e-3
    if d == 1:
        assert np.std(means) == pytest.approx(fact["noise_std"], rel=0.2)
    few = stage.facts(members(4), stage.start(d))
    assert few["shape"] == 4 / 6 and few["noise_std"] / fact["noise_std"] == pytest.approx((4 / 6) ** 0.5 * 6 / 4)
    for m, fits in ((6, lambda e: e == pytest.approx(0.5)), (4, lambda e: e > 0.5)):
        facts = {k: np.array([v]) for k, v in stage.facts(members(m), stage.start(d)).items()}
        assert fits(float(own_loss(stage, facts).pure[0]))


@pytest.mark.parametrize("m", [3, 2])
def test_losses_of_polya_shares_stay_within_epsilon(m):
    """Three sharers, of whom m are there; two coordinates on a coarse grid."""
    stage = made("discrete_laplace", epsilon=1.0, sharers=3, fraction_bits=2)
    facts = {k: np.array([v]) for k, v in stage.facts(members(m), stage.start(2)).items()}
    epsilon = float(own_loss(stage, facts).pure[0])
    assert (epsilon == 1.0) if m == 3 else (epsilon > 1.1)
    one, other = (released(stage, np.array(x, dtype=float), m, 4_000)[:, 0] for x in ([1, 0], [0, 0]))
    assert excess(one, other, epsilon, 0.0, bins=20) < 4
    assert excess(one, other, 0.4 * epsilon, 0.0, bins=20) > 4


# -- privacy-loss histograms of whole mechanisms --------------------------------------------------------------


def released(stage, x, n, times, d=2):
    """What the server knows of one client that sends x beside n - 1 silent ones, many times: (times, d')."""
    state, out = stage.start(d), np.zeros((times, d))
    for who in range(n):
        vectors = np.tile(x if who == 0 else np.zeros(d), (times, 1)).astype(np.float32)
        name = 10**6 * (1 + who + 100 * int(x.any()))
        out += stage.client(vectors, jobs(times, first=name), state, STREAMS)
    return out


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian"])
@pytest.mark.parametrize("m", [2, 1])
def test_losses_of_noise_in_the_field_stay_within_epsilon(name, m):
    """Two sharers, of whom m are there; a coarse grid, so that roundings and whole noise matter."""
    stage, delta = made(name, noise_multiplier=1.5, sharers=2, bits=9), 0.02
    facts = {k: np.array([v]) for k, v in stage.facts(members(m), stage.start(2)).items()}
    divergences = own_loss(stage, facts).rdp[0]
    epsilon = min(float(rdp_epsilon(np.array(r), a, delta)) for r, a in zip(divergences, ORDERS, strict=True))
    one, other = (released(stage, np.array(x, dtype=float), m, 4_000) for x in ([1, 0], [0, 0]))
    along = one.mean(axis=0) - other.mean(axis=0)
    assert excess(one @ along, other @ along, epsilon, delta, bins=20) < 4
    assert excess(one @ along, other @ along, 0.3 * epsilon, delta, bins=20) > 4


@pytest.mark.parametrize("name", ["local_laplace", "local_gaussian", "local_staircase", "laplace_shares"])
def test_losses_of_noise_at_the_clients_stay_within_epsilon(name):
    fields = {"sharers": 1} if name == "laplace_shares" else {"delta": 0.02} if name == "local_gaussian" else {}
    stage = made(name, epsilon=1.0, **fields)
    one, other = (released(stage, np.array(x, dtype=float), 1, 30_000) for x in ([1, 0], [0, 0]))
    delta = fields.get("delta", 0.0)
    assert excess(one[:, 0], other[:, 0], 1.0, delta, bins=20) < 4
    if name != "local_staircase":  # of which each coordinate has its half of epsilon
        assert excess(one[:, 0], other[:, 0], 0.6, delta, bins=20) > 4


# -- in a run -------------------------------------------------------------------------------------------------

FIELDS = {"adaptive_gaussian": ", noise_multiplier: 0.1", "xnoise": ", tolerance: 2"}


def scenario(name, training=FEDAVG, *overrides, **fields):
    stage = STAGES[name]
    own = "".join(f", {key}: {value}" for key, value in fields.items()) or FIELDS.get(name, "")
    buffered = "fedbuff" in training
    equal = training.replace("staleness: polynomial", "staleness: constant").replace("}", ", weighting: equal}")
    text = BASE + equal + f"privacy: {{name: none, stages: [{{name: {name}{own}}}]}}\n"
    if stage.whole:
        text += f"secagg: {'basecagg' if buffered else 'secagg'}\n"
    return Scenario.parse(text, "dp", ("selection=random:k=4", "training.rounds=3", *overrides))


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
@pytest.mark.parametrize("name", ALL)
def test_a_killed_run_goes_on_to_the_same_bytes(name, training, tmp_path, monkeypatch):
    if STAGES[name].name == "xnoise" and "fedbuff" in training:
        with pytest.raises(InvalidScenario, match="opens seeds after the upload"):
            scenario(name, training)
        return
    made = scenario(name, training)
    done = run(made, tmp_path / "whole")
    assert tables(killed_and_resumed(made, tmp_path / "killed", monkeypatch, 1)) == tables(done.path)
    if STAGES[name].adds_noise:
        assert done.summary["epsilon_max"] > 0 and (done.path / "privacy.csv").exists()
        last = [float(row["epsilon"]) for row in rows(done.path, "privacy.csv")]
        assert max(last) == pytest.approx(done.summary["epsilon_max"])
        assert float(np.median(last)) == pytest.approx(done.summary["epsilon_median"])


def test_processes_of_a_sweep_give_the_same_bytes(tmp_path):
    import simfl

    file = tmp_path / "dp.yaml"
    file.write_text(BASE + FEDAVG.replace("}", ", weighting: equal}") + "privacy: {stages: [clipping]}\n")
    choices = ["tree_gaussian", "adaptive_gaussian:noise_multiplier=0.1"]
    swept = simfl.sweep(file, {"privacy.stages.0": choices, "training.rounds": 2}, out=tmp_path / "out", jobs=2)
    results = list(swept.results())
    assert swept.failed.empty and len(results) == 2
    for choice in choices:
        alone = run(Scenario.load(file, [f"privacy.stages.0={choice}", "training.rounds=2"]), tmp_path / "alone").path
        (same,) = [result.path for result in results if result.path.name == alone.name]
        assert tables(alone) == tables(same)


@pytest.fixture(scope="module", params=[FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
def plain(request, tmp_path_factory):
    """A training, and its run without any stage."""
    return request.param, run(scenario("clipping", request.param, "privacy.stages=[]"), tmp_path_factory.mktemp("dp"))


@pytest.mark.parametrize("name", ["clipping", "central_gaussian", "tree_gaussian"])
def test_zero_noise_gives_the_plain_run_byte_for_byte(name, plain, tmp_path):
    training, plain = plain
    wide = {"norm": 1e9} if name == "clipping" else {"clip_norm": 1e9, "noise_multiplier": 0}
    free = run(scenario(name, training, **wide), tmp_path)
    for file in ("model.npy", "participation.csv"):
        assert (free.path / file).read_bytes() == (plain.path / file).read_bytes()
    kept = plain.path.joinpath("rounds.csv").read_text().splitlines()[0].split(",")
    mine, others = rows(free.path, "rounds.csv"), rows(plain.path, "rounds.csv")
    assert [{key: row[key] for key in kept} for row in mine] == others
    if name != "clipping":
        assert all(row["epsilon_max"] == "" for row in mine if row["cardinality"] != "0"), "infinite"


def test_whole_numbers_are_summed_as_they_are_and_wrap_in_the_field(tmp_path):
    """A protocol executed and one that only costs give the same model; the mean is near that without protocol."""
    quiet = {"noise_multiplier": 0, "clip_norm": 50}
    overrides = ("devices.failure=none", "devices.availability=always")
    done = run(scenario("skellam", FEDAVG, *overrides, **quiet), tmp_path)
    cheap = run(scenario("skellam", FEDAVG, *overrides, "secagg.execute=cost_only", **quiet), tmp_path)
    plain = run(scenario("skellam", FEDAVG, *overrides, "privacy.stages=[]", "secagg=plain", **quiet), tmp_path)
    one, two, three = (np.load(each.path / "model.npy") for each in (done, cheap, plain))
    np.testing.assert_allclose(one, two, atol=1e-5)
    assert 0 < np.abs(one - three).max() < 0.01
    assert int(rows(done.path, "rounds.csv")[0]["bytes_up"]) - int(rows(cheap.path, "rounds.csv")[0]["bytes_up"]) == 0


def test_xnoise_pays_for_the_seeds_it_shares(tmp_path):
    """36 bytes a seed and pair, shared by all; opened are those of the drops that did not happen, 32 bytes each."""
    still = ("devices.failure=none", "devices.availability=always", "learning.evaluate.every=0")
    with_seeds = run(scenario("xnoise", FEDAVG, *still, tolerance=2), tmp_path)
    without = run(scenario("skellam", FEDAVG, *still), tmp_path)
    pairs, seeds = 4 * 3, 2
    for mine, other in zip(*(rows(done.path, "rounds.csv") for done in (with_seeds, without)), strict=True):
        assert int(mine["bytes_up"]) - int(other["bytes_up"]) == 36 * seeds * pairs * 2 + 32 * seeds * 4
        assert int(mine["bytes_down"]) - int(other["bytes_down"]) == 36 * seeds * pairs


def test_shares_are_not_clipped_after_they_were_added():
    """Clipped shares add up to no Laplace noise."""
    clip, shares = "{name: clipping, norm: 1}", "{name: laplace_shares, epsilon: 1}"
    fine = scenario("laplace_shares", FEDAVG, f"privacy.stages=[{clip}, {shares}]")
    assert [stage.name for stage in fine.privacy.stages] == ["clipping", "laplace_shares"]
    with pytest.raises(InvalidScenario, match="what the noise of privacy.stages: laplace_shares is made for"):
        scenario("laplace_shares", FEDAVG, f"privacy.stages=[{shares}, {clip}]")


REFUSED = {
    "central_gaussian: {training.weighting: samples}": ("max_weight", "weighting: equal"),
    "central_gaussian: {training.aggregate: median}": ("", "aggregate: mean"),
    "local_gaussian: {calibration: classical, epsilon: 2}": ("calibration", "analytic"),
    "laplace_shares: {secagg: secagg}": ("", "stage discrete_laplace"),
    "discrete_laplace: {secagg: plain}": ("", "stage laplace_shares"),
    "discrete_laplace: {fraction_bits: 40}": ("fraction_bits", "nearest value is 26"),
    "discrete_laplace: {clip_norm: 1.0e+12, fraction_bits: 0}": ("fraction_bits", "no step is large enough"),
    "discrete_laplace: {colluders: 4}": ("colluders", "nearest value is 3"),
    "discrete_laplace: {training.weighting: samples}": ("", "weighting: equal"),
    "laplace_shares: {colluders: 2}": ("colluders", "nearest value is 1"),
    "skellam: {secagg: plain}": ("", "use one that adds in a field, as secagg"),
    "skellam: {bits: 3, sharers: 4}": ("bits", "use more"),
    "skellam: {bits: 40}": ("bits", "nearest value is 31"),
    "skellam: {colluders: 4}": ("colluders", "nearest value is 3"),
    "skellam: {training.weighting: samples}": ("", "weighting: equal"),
    "xnoise: {tolerance: 4}": ("tolerance", "nearest value is 3"),
    "xnoise: {secagg: lightsecagg}": ("", "use secagg or secagg_plus"),
    "adaptive_gaussian: {noise_multiplier: 1, bit_std: 0.5}": ("bit_std", "above 0.5"),
    "adaptive_gaussian: {initial_norm: 1.0e-31, bit_std: 1}": ("initial_norm", "1e-30"),
    "central_gaussian: {clip_norm: 0}": ("clip_norm", "greater than 0"),
    "central_gaussian: {noise_multiplier: -1}": ("noise_multiplier", "0"),
    "local_laplace: {epsilon: 0}": ("epsilon", "0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_the_key_and_the_fix(case):
    import yaml

    ((name, changes),) = yaml.safe_load(case).items()
    outer = {key: value for key, value in changes.items() if "." in key or key == "secagg"}
    inner = {key: value for key, value in changes.items() if key not in outer}
    with pytest.raises(InvalidScenario) as refused:
        scenario(name, FEDAVG, *(f"{key}={value}" for key, value in outer.items()), **inner)
    key, fix = REFUSED[case]
    where = ".".join(["privacy.stages.0", *([key] if key else [])])
    assert any(p.key == where and fix in p.message for p in refused.value.problems), refused.value


def test_only_the_last_stage_sends_whole_numbers():
    with pytest.raises(InvalidScenario, match="only the last stage"):
        scenario("skellam", FEDAVG, "privacy.stages=[skellam, clipping]")


def test_noise_of_the_size_that_epsilon_needs():
    """A closed circle: calibrated for one release, the accountant says the same."""
    stage = made("local_gaussian", epsilon=0.7, delta=1e-6)
    assert float(gaussian.epsilon(stage.clip_norm / stage.std, 1e-6)) == pytest.approx(0.7)
