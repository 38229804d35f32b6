"""Inversion and membership inference: exact cases, sanity of each statistic, scores against their definitions."""

import csv
import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.attacks.inversion import assign_samples, psnr, ssim
from simfl.attacks.membership import fedmia, lira, margins, rates, tpr_at
from simfl.cli import simfl
from simfl.core.errors import MissingError, SimflError
from simfl.core.rng import Streams
from simfl.experiments.attack.after_run import _map_tasks, halves
from simfl.report.html_page import page
from simfl.report.study_reader import read_study
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario

STUDIES = Path(__file__).resolve().parents[2] / "results" / "attacks"

# -- pictures ------------------------------------------------------------------------------------------------


def test_psnr_is_ten_times_the_logarithm_of_the_squared_error():
    picture = np.full((1, 8, 8), 0.5, dtype=np.float32)
    assert psnr(picture, picture + np.float32(0.1)) == pytest.approx(20, abs=1e-4)
    assert psnr(picture, picture) > 200


def test_ssim_by_its_definition():
    """Against the definition written out, window by window (Wang et al. 2004)."""
    rng = np.random.default_rng(0)
    x = rng.random((2, 16, 15)).astype(np.float32)
    y = np.clip(x + 0.2 * rng.normal(size=x.shape), 0, 1).astype(np.float32)
    axis = np.arange(-5, 6)
    window = np.exp(-(axis[:, None] ** 2 + axis**2) / (2 * 1.5**2))
    window /= window.sum()
    values = []
    for a, b in zip(x.astype(float), y.astype(float), strict=True):
        for i in range(6):
            for j in range(5):
                p, q = a[i : i + 11, j : j + 11], b[i : i + 11, j : j + 11]
                m, n = (window * p).sum(), (window * q).sum()
                vp, vq, c = (
                    (window * p * p).sum() - m * m,
                    (window * q * q).sum() - n * n,
                    (window * p * q).sum() - m * n,
                )
                values.append((2 * m * n + 1e-4) * (2 * c + 9e-4) / ((m * m + n * n + 1e-4) * (vp + vq + 9e-4)))
    assert ssim(x, y) == pytest.approx(np.mean(values), abs=1e-9)
    assert ssim(x, x) == pytest.approx(1) and np.isnan(ssim(x[:, :8, :8], y[:, :8, :8]))


def test_samples_are_matched_to_the_nearest_in_all():
    true = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert assign_samples(true, true[[2, 0, 1]] + 0.1).tolist() == [1, 2, 0]
    assert assign_samples(true, true[1:2]).tolist() == [-1, 0, -1]
    assert assign_samples(true, true[:0]).tolist() == [-1, -1, -1]


# -- inversion -----------------------------------------------------------------------------------------------

ALONE = """
name: inverted
clients: 8
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 6, local_steps: 5, batch_size: 20, learning_rate: 0.05, weighting: equal}
learning: {data: synthetic.npz, model: mlp}
attacks: [{name: inversion, method: analytic, clients: [0, 1, 2, 3, 4, 5, 6, 7]}]
"""


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """Eight samples, so that each of eight clients holds one."""
    folder = tmp_path_factory.mktemp("eight")
    rng = np.random.default_rng(1)
    x = rng.random((28, 12, 12)).astype(np.float32)
    y = np.arange(28) % 4
    np.savez(folder / "eight.npz", x_train=x[:8], y_train=y[:8], x_test=x[8:], y_test=y[8:])
    return folder


def found(folder):
    return json.loads((folder / "findings.json").read_text())


def inverted(eight, tmp_path, *overrides):
    text = ALONE.replace("synthetic.npz", "{name: npz, path: eight.npz}")
    return run(Scenario.parse(text, overrides=overrides, folder=eight), tmp_path)


@pytest.mark.parametrize("momentum", [0, 0.9])
def test_one_sample_is_read_off_a_first_linear_layer_whatever_the_steps(momentum, eight, tmp_path):
    done = inverted(eight, tmp_path, "selection=all", "secagg=plain", f"training.momentum={momentum}")
    assert done.summary["inversion_psnr"] > 80
    assert done.summary["inversion_guess_psnr"] < 20
    assert done.summary["inversion_ssim"] > 0.999
    (attack,) = found(done.path)
    assert attack["numbers"]["inversion_recovered"] == 1
    for picture in attack["pictures"]:
        assert np.abs(np.subtract(picture["true"], picture["found"])).max() <= 1


def test_weight_decay_blurs_it(eight, tmp_path):
    done = inverted(eight, tmp_path, "selection=all", "training.weight_decay=0.05")
    assert done.summary["inversion_psnr"] < 80


def test_a_sum_of_all_hides_whose_they_are(eight, tmp_path):
    done = inverted(eight, tmp_path, "selection=all", "secagg={name: secagg, execute: cost_only}")
    assert done.summary["inversion_psnr"] < 40


def test_zero_updates_tell_nothing(eight, tmp_path):
    done = inverted(eight, tmp_path, "selection=all", "training.learning_rate=1e-30")
    assert done.summary["inversion_psnr"] == pytest.approx(done.summary["inversion_guess_psnr"])


def test_updates_that_no_picture_makes_tell_nothing(eight):
    from simfl.attacks.inversion import samples_of

    scenario = Scenario.parse(ALONE.replace("synthetic.npz", "{name: npz, path: eight.npz}"), folder=eight)
    learner = scenario.learning.build(scenario, Streams(0))
    knowledge, _ = learner.attack_context()
    loud = np.random.default_rng(0).normal(size=learner.dimension).astype(np.float32) * 1e3
    loud[64 * 144 : 64 * 145] = 1
    assert len(samples_of(loud, knowledge)) == 0


def test_gradient_matching_beats_the_guess_and_a_flipped_sign_does_not(eight):
    import torch

    from simfl.attacks.matching import Target, label_counts, match

    scenario = Scenario.parse(
        ALONE.replace("synthetic.npz", "{name: npz, path: eight.npz}"),
        overrides=["learning.model=mlp:hidden=[32]", "training.local_steps=1"],
        folder=eight,
    )
    torch.set_num_threads(1)
    learner = scenario.learning.build(scenario, Streams(0))
    from simfl.core.types import Job

    learner.put(0, learner.initial())
    knowledge, truth = learner.attack_context()
    update = learner.train([Job(2, 2, 0, 0.0)]).deltas[0]
    true, label = truth.x[truth.positions_of(2)], truth.y[truth.positions_of(2)]
    assert label_counts(knowledge, update, 1, 0.05).tolist() == label.tolist()
    mean = truth.x_test.mean(axis=0)
    begin = [
        np.full((1, *knowledge.shape), 0.5, dtype=np.float32) + 0.01 * np.random.default_rng(0).random((1, 1, 12, 12))
    ]
    begin = [b.astype(np.float32) for b in begin]
    matched_, flipped = (
        match(knowledge, Target(learner.initial(), sign * update, label), begin, 300, 1e-4) for sign in (1, -1)
    )
    assert psnr(true[0], matched_[0]) > psnr(true[0], mean) + 6
    assert psnr(true[0], flipped[0]) < psnr(true[0], mean)


def test_the_analytic_attack_refuses_a_convolution(eight, tmp_path):
    result = CliRunner().invoke(
        simfl, ["run", "quickstart", "learning.model=lenet5", "learning.data=synthetic:shape=[1, 28, 28]", "clients=4",
                "selection=random:k=2", "training.rounds=1", "attacks=[{name: inversion, method: analytic}]",
                "--out", str(tmp_path), "-q"])  # fmt: skip
    assert result.exit_code == 2 and "use cosine" in result.output


# -- membership: statistics -----------------------------------------------------------------------------------


def test_margins_are_differences_of_log_probabilities():
    logits = np.random.default_rng(2).normal(size=(50, 7)) * 3
    labels = np.random.default_rng(3).integers(7, size=50)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    own = p[np.arange(50), labels]
    np.testing.assert_allclose(margins(logits, labels), np.log(own) - np.log(1 - own), rtol=1e-9)
    assert np.isfinite(margins(np.array([[1e4, 0.0]]), np.array([0]))).all()


def shadow_world(seed, gain, shadows=16, n=4000):
    """Margins that rise by ``gain`` where a model was trained on the sample; the target's are the first half."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=n) * 2
    inside = halves(shadows, n, Streams(seed))
    told = hard + gain * inside + 0.5 * rng.normal(size=(shadows, n))
    member = np.arange(n) < n // 2
    return hard + gain * member + 0.5 * rng.normal(size=n), told, inside, member


class Deadly:
    """Ends the process that is handed it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_of_shadows_that_dies_is_an_error_of_one_line():
    with pytest.raises(SimflError, match="^a process that trains shadows ended before its work did .*$"):
        list(_map_tasks(Deadly(), [(0, None), (1, None)], 2))


def test_every_candidate_is_in_half_of_the_shadows():
    inside = halves(16, 300, Streams(0))
    assert (inside.sum(axis=0) == 8).all() and len(np.unique(inside.sum(axis=1))) > 1


@pytest.mark.parametrize("attack", ["loss", "online", "offline", "fedmia"])
def test_nobody_is_told_from_nobody(attack):
    """Where being trained on changes nothing, the area is one half within three standard errors."""
    target, told, inside, member = shadow_world(4, 0.0)
    statistic = {
        "loss": lambda: target,
        "online": lambda: lira(target, told, inside, online=True),
        "offline": lambda: lira(target, told, inside, online=False),
        "fedmia": lambda: fedmia(target, told),
    }[attack]()
    measured = rates(statistic, member)
    assert abs(measured.auc - 0.5) < 3 * measured.auc_error
    assert measured.auc_error == pytest.approx((1 / (12 * 2000) * 2) ** 0.5, rel=0.01)


def test_what_separates_has_area_one():
    member = np.arange(2000) < 1000
    found_ = rates(member * 2.0 + np.linspace(0, 1, 2000) / 2, member)
    assert found_.auc == 1 and found_.balanced == 1 and tpr_at(found_, 0.01)[0] == 1


def test_balanced_accuracy_of_noise_is_one_half_on_average():
    """M8: at the best threshold of the same samples it was .52 where the area under the curve is .498."""
    rng = np.random.default_rng(7)
    for members, others in ((100, 100), (30, 90), (7, 8)):
        member = np.arange(members + others) < members
        measured = np.array([rates(rng.normal(size=len(member)), member).balanced for _ in range(400)])
        assert abs(measured.mean() - 0.5) < 4 * measured.std() / 20
    assert np.isnan(rates(rng.normal(size=5), np.arange(5) < 1).balanced)
    assert rates(np.zeros(40), np.arange(40) < 20).balanced == 0.5, "a statistic that is always the same"


def test_balanced_accuracy_is_that_of_the_best_threshold_where_there_is_something_to_know():
    """Two normal laws d apart: at best Phi(d / 2)."""
    from scipy.stats import norm

    rng, member = np.random.default_rng(8), np.arange(40_000) < 20_000
    for distance in (0.5, 2.0):
        measured = rates(rng.normal(size=40_000) + distance * member, member).balanced
        assert measured == pytest.approx(norm.cdf(distance / 2), abs=0.01)


def test_likelihood_ratios_beat_a_threshold():
    target, told, inside, member = shadow_world(5, 0.6)
    loss = rates(target, member).auc
    offline = rates(lira(target, told, inside, online=False), member).auc
    online = rates(lira(target, told, inside, online=True), member).auc
    assert online >= loss + 0.05 and offline > loss and online > offline - 0.02
    two_sided = rates(np.abs(lira(target, told, inside, online=False)), member).auc
    assert two_sided < offline, "it is one-sided"


def test_offline_is_the_distance_above_models_without_the_sample():
    told = np.array([[1.0, 5.0], [3.0, 5.5], [9.0, 2.0], [9.0, 3.0]])
    inside = np.array([[False, True], [False, True], [True, False], [True, False]])
    pooled = np.sqrt((2 * 1.0**2 + 2 * 0.5**2) / 2)
    np.testing.assert_allclose(lira(np.array([4.0, 2.5]), told, inside, False), [2 / pooled, 0], atol=1e-9)
    with pytest.raises(ValueError, match="with it and without"):
        lira(np.zeros(2), told, np.ones_like(inside), True)


def test_rates_that_too_few_samples_carry_are_refused():
    rng, member = np.random.default_rng(6), np.arange(3000) < 1500
    measured = rates(rng.normal(size=3000) + member, member)
    rate, low, high = tpr_at(measured, 0.01)
    assert 0 < low < rate < high < 1 and np.isnan(tpr_at(measured, 0.001)[0])


# -- membership: in a run -------------------------------------------------------------------------------------

GAME = """
name: members
clients: 6
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedavg, rounds: 10, local_epochs: 8, batch_size: 20, learning_rate: 0.2}
learning: {data: {name: digits, test_fraction: 0.8}, model: mlp}
secagg: {name: secagg, execute: cost_only}
"""
ASKED = """
attacks:
- least_squares
- {name: membership, candidates: 400}
- {name: membership, label: own, game: in_client, candidates: 100}
- {name: membership, label: ranks, game: in_client, statistic: fedmia, candidates: 100}
- {name: membership, label: taught, statistic: logits, candidates: 400}
"""


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    out = tmp_path_factory.mktemp("members")
    texts = {name: GAME + (ASKED if name == "asked" else "") for name in ("asked", "left")}
    runs = {name: run(Scenario.parse(text, "members"), out) for name, text in texts.items()}
    other = run(Scenario.parse(texts["asked"], "members", ["selection=random:k=4"]), out)
    return runs | {"random": other}


def test_an_overfitted_model_gives_its_members_away(members):
    summary = members["asked"].summary
    assert summary["membership_auc"] > 0.52 and summary["own_membership_auc"] > 0.52
    assert summary["ranks_membership_auc"] > 0.5 and 0.4 < summary["taught_membership_auc"] < 0.8
    assert summary["membership_tpr_1"] is None, "400 others are too few for 1 %"
    assert members["asked"].summary["sha256"]["model.npy"] == members["left"].summary["sha256"]["model.npy"]


def test_the_report_answers(members, no_pictures):
    html = page(read_study([members["asked"].path]))
    assert "honest-but-curious server recovers" in html and "Membership inference" in html
    both = page(read_study([members["random"].path, members["asked"].path]))
    assert "what protecting costs against" in both and both.count("guessing: 0.5") == 2


def test_after_the_fact_they_find_the_same(members, tmp_path):
    texts = GAME.replace("name: members", "name: recorded") + ASKED + "trace: aggregates\n"
    done = run(Scenario.parse(texts), tmp_path)
    result = CliRunner().invoke(
        simfl, ["attack", str(done.path), "membership", "game=in_client", "candidates=100", "--json"])  # fmt: skip
    assert result.exit_code == 0, result.output
    again = json.loads(result.output)["finding"]
    assert again["membership_auc"] == done.summary["own_membership_auc"]


@pytest.mark.slow
def test_shadow_federations(members):
    from simfl.experiments.attack.after_run import likelihood

    one = likelihood(members["left"].path, candidates=200)
    two = likelihood(members["left"].path, candidates=200, jobs=2)
    np.testing.assert_equal({k: dict(v.numbers) for k, v in one.items()}, {k: dict(v.numbers) for k, v in two.items()})
    auc = {name: each.numbers["membership_auc"] for name, each in one.items()}
    assert auc["online"] >= auc["loss"] - 0.02 and auc["online"] > 0.53


@pytest.mark.parametrize(
    "attack, said",
    [
        ("{name: inversion, clients: [9]}", "clients are 0 to 5"),
        ("{name: membership, statistic: fedmia}", "game: in_client"),
        ("membership, membership", "membership_auc"),
        ("{name: membership, statistic: los}", "loss"),
    ],
)
def test_impossible_attacks_are_refused(attack, said):
    with pytest.raises(InvalidScenario, match=said):
        Scenario.parse(GAME + f"attacks: [{attack}]\n")


def test_checking_and_helping_import_no_torch():
    import subprocess
    import sys

    code = (
        "import sys; from simfl.scenario import Scenario; "
        f"Scenario.parse({(GAME + ASKED)!r}); import simfl.api.theory; "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- membership: the whole attack where there is nothing to be found ----------------------------------------------

EVERY = ("loss", "logits", "fedmia", "fedmia_gradient")


@pytest.fixture(scope="module")
def played():
    """A federation that each client's few samples are learned by heart in, played in memory."""
    from simfl.agents.servers import SERVERS
    from simfl.agents.world import World
    from simfl.core.types import under
    from simfl.runs.run import build

    text = GAME.replace("secagg: {name: secagg, execute: cost_only}", "selection: all\n").replace(
        "selection: {name: batch_partition, k: 4, T: 2}\n", "")  # fmt: skip
    attacks = ", ".join(f"{{name: membership, game: in_client, statistic: {name}, label: {name}, window: 10}}"
                        for name in EVERY)  # fmt: skip
    scenario = Scenario.parse(text + f"attacks: [{attacks}]\n", overrides=["training.weighting=equal", "secagg=plain"])
    parts = build(scenario)
    server = SERVERS["synchronous"](parts, World(0.0), lambda done: None)
    server.world.run(server.world.spawn(server.run()))
    states = [under(f"observed/{i}", server.state()) for i in range(len(EVERY))]
    return scenario.attacks, states, *parts.learner.attack_context()


def found_by(attack, state, knowledge, truth):
    streams = Streams(0)
    return attack.score(
        attack.answer(attack.challenge(truth, streams), state, knowledge, streams), truth, knowledge, streams
    )


@pytest.mark.parametrize("statistic", EVERY)
def test_of_samples_nobody_trained_on_none_is_a_member(statistic, played):
    """Half of the test samples in the place of the members: the area is one half within three standard errors."""
    attacks, states, knowledge, truth = played
    i, order = EVERY.index(statistic), np.random.default_rng(7).permutation(len(truth.y_test))
    one, other = order[::2], order[1::2]
    false = truth._replace(
        x=truth.x_test[one], y=truth.y_test[one], positions_of=lambda client: np.arange(len(one)),
        x_test=truth.x_test[other], y_test=truth.y_test[other],
    )  # fmt: skip
    numbers = found_by(dataclasses.replace(attacks[i], clients=(0,)), states[i], knowledge, false).numbers
    name = f"{statistic}_membership_auc"
    assert abs(numbers[name] - 0.5) < 3 * numbers[f"{name}_error"]


@pytest.mark.parametrize("statistic", ["loss", "fedmia", "fedmia_gradient"])
@pytest.mark.parametrize("others", ["any", "alike"])
def test_a_clients_samples_are_told_from_others(others, statistic, played):
    attacks, states, knowledge, truth = played
    i = EVERY.index(statistic)
    numbers = found_by(dataclasses.replace(attacks[i], others=others), states[i], knowledge, truth).numbers
    name = f"{statistic}_membership_auc"
    assert numbers[name] > 0.5 + 3 * numbers[f"{name}_error"]


def test_others_alike_have_the_members_classes(played):
    attacks, _, _, truth = played
    asked = dataclasses.replace(attacks[0], others="alike").draw_candidates(truth, Streams(0))
    for client in set(asked.client.tolist()):
        mine = asked.client == client
        of = [np.bincount(asked.y[mine & (asked.member == inside)], minlength=10).tolist() for inside in (True, False)]
        assert of[0] == of[1] and sum(of[0]) > 30


def test_cosines_with_gradients_are_those_of_torch(played):
    import torch

    from simfl.attacks.matching import alignments

    _, _, knowledge, truth = played
    rng = np.random.default_rng(8)
    starts = rng.normal(size=(2, sum(int(np.prod(p.shape)) for p in knowledge.parameters))).astype(np.float32) / 10
    updates = rng.normal(size=starts.shape).astype(np.float32)
    told = alignments(knowledge, starts[[0, 1, 0]], updates[[0, 1, 1]], truth.x[:3], truth.y[:3])
    for row, (start, update) in enumerate(((0, 0), (1, 1), (0, 1))):
        torch.nn.utils.vector_to_parameters(torch.from_numpy(starts[start]), knowledge.module.parameters())
        for n in range(3):
            loss = torch.nn.functional.cross_entropy(
                knowledge.module(torch.from_numpy(truth.x[[n]])), torch.from_numpy(truth.y[[n]])
            )
            slope = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(knowledge.module.parameters()))])
            cosine = torch.nn.functional.cosine_similarity(-slope, torch.from_numpy(updates[update]), dim=0)
            assert told[row, n] == pytest.approx(float(cosine), abs=1e-5)


@pytest.mark.slow
def test_cosine_finds_single_images_of_mnist(tmp_path):
    """One sample a client, LeNet-5 at its initial weights: 6 dB above the mean image in three of four seeds."""
    text = """
clients: 8
selection: all
training: {name: fedavg, rounds: 1, local_steps: 1, batch_size: 1}
learning: {data: mnist, model: lenet5, partition: {name: few, alone: 8}, evaluate: {every: 0}}
privacy: none
plugins: [plugins.py]
attacks: [{name: inversion, clients: [0, 1, 2], steps: 600, restarts: 1}]
"""
    above = []
    for seed in range(4):
        try:
            done = run(Scenario.parse(text, overrides=[f"seed={seed}"], folder=STUDIES), tmp_path)
        except MissingError:
            pytest.skip("no MNIST in the data folder (SIMFL_DATA)")
        above.append(done.summary["inversion_psnr"] - done.summary["inversion_guess_psnr"])
    print(above)
    assert sum(decibels >= 6 for decibels in above) >= 3, above


FEW = """
name: few
clients: 30
selection: {name: all}
training: {name: fedavg, rounds: 2, batch_size: 5, weighting: equal, aggregate: median}
learning: {data: digits, partition: {name: dirichlet, beta: 0.02, over: clients}, model: logistic}
"""


@pytest.mark.parametrize(
    "attack",
    [
        *({"name": "membership", "statistic": statistic} for statistic in ("loss", "logits")),
        *(
            {"name": "membership", "statistic": statistic, "game": "in_client", "others": others}
            for statistic in ("loss", "logits", "fedmia", "fedmia_gradient")
            for others in ("any", "alike")
        ),
        *({"name": "inversion", "method": method, "samples": 1, "steps": 2} for method in ("analytic", "cosine")),
    ],
    ids=str,
)
def test_attacks_on_clients_of_no_or_few_samples_find_nothing_but_do_not_fail(attack, tmp_path):
    """Asked of a client without samples, and of that, some with the fewest and one with more together."""
    with open(run(Scenario.parse(FEW, "few"), tmp_path).path / "clients.csv") as file:
        held = np.array([int(row["samples"]) for row in csv.DictReader(file)])
    few = np.argsort(held, kind="stable")[9:15]
    assert held[few[0]] == 0 and 0 < held[few[1]] <= 3 < held[few[-1]]
    own = attack["name"] == "inversion" or attack.get("game") == "in_client"
    for clients in (few[:1], few) if own else ([0],):
        observer = attack | ({"clients": [int(client) for client in clients]} if own else {"candidates": 10})
        text = FEW + f"attacks: [least_squares, {json.dumps(observer)}]\n"
        assert run(Scenario.parse(text, "few"), tmp_path / "attacked").summary["rounds"] == 2
