"""Personal models: degenerate cases are FedAvg and FedBN bit for bit, what is private stays, what is sent is told."""

import csv
import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune as torch_prune

from simfl.clients.base import PERSONAL
from simfl.core.errors import PluginError, ScenarioError
from simfl.core.registration.family_index import undone
from simfl.learning.client_accuracies import ClientAccuracies
from simfl.learning.models.base import MODELS
from simfl.papers.lottery_tickets.fedltn import JumpStart
from simfl.papers.lottery_tickets.sparse import prune, unpack_mask
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from tests.plugins.test_public_interface import killed_and_resumed

BASE = """
clients: 6
seed: 1
network: {name: star, latency_s: 0.1, bandwidth_bytes_per_s: 1e4}
devices: {computation: {name: per_sample, seconds: 0.025}}
selection: {name: random, k: 3}
training:
  name: fedavg
  rounds: 4
  local_epochs: 2
  batch_size: 8
  learning_rate: 0.2
  momentum: 0.5
  weighting: equal
learning:
  data: {name: synthetic, samples: 330, test_samples: 60, shape: [1, 8, 8], classes: 3}
  partition: {name: few_classes, classes: 2, samples: 20}
  holdout: {validation: 0.3, test: 0.2}
  model: {name: mlp, hidden: [12]}
  evaluate: {every: 2, per_client: true}
privacy: none
"""
NORMED = "learning.model={name: resnet8, width: 4}"
PRUNING = "{name: fedltn, threshold: 0, step: 0.3, pull: 0}"
REWINDING = "{name: fedltn, threshold: 0, step: 0.3, pull: 0, rewind: true}"


def scenario(*overrides):
    return Scenario.parse(BASE, "personal", list(overrides))


def play(tmp_path, *overrides):
    """The run's global model, rows and folder."""
    folder = run(scenario(*overrides), tmp_path).path
    with open(folder / "rounds.csv", newline="") as file:
        return np.load(folder / "model.npy"), list(csv.DictReader(file)), folder


def column(rows, name):
    return [float(row[name]) for row in rows if row[name] != ""]


# -- degenerate cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("personal", ["fine_tune", "ditto", "{name: fedltn, target: 0, pull: 0}"])
def test_the_global_model_is_fedavgs_bit_for_bit(tmp_path, personal):
    plain, fedavg, _ = play(tmp_path)
    model, rows, _ = play(tmp_path, f"training.personal={personal}")
    assert np.array_equal(plain, model)
    assert column(rows, "test_loss") == column(fedavg, "test_loss")
    assert column(rows, "bytes_up") == column(fedavg, "bytes_up")


def test_without_pruning_and_pull_fedltn_is_fedbn_bit_for_bit(tmp_path):
    fedbn, rows, _ = play(tmp_path, NORMED, "training.personal=fedbn")
    same = "{name: private_layers, keep: [norm]}"
    for personal in ("{name: fedltn, target: 0, pull: 0}", same):
        model, others, _ = play(tmp_path, NORMED, f"training.personal={personal}")
        assert np.array_equal(fedbn, model)
        for name in ("client_accuracy_mean", "client_trained_accuracy_min", "bytes_up", "bytes_down", "time_s"):
            assert column(rows, name) == column(others, name)


def test_a_look_ahead_of_share_one_is_plain_averaging(tmp_path):
    plain, _, _ = play(tmp_path)
    model, _, _ = play(tmp_path, "training.server_optimiser={name: look_ahead, share: 1}")
    other, _, _ = play(tmp_path, "training.server_optimiser={name: look_ahead, share: 0.5}")
    assert np.array_equal(plain, model) and not np.array_equal(plain, other)


def test_a_look_ahead_by_hand():
    """x <- tau mean + (1 - tau)(x + momentum * last step), in terms of steps."""
    from simfl.training.optimisers import SERVER_OPTIMISERS

    server = SERVER_OPTIMISERS["look_ahead"](share=0.5, momentum=0.8)
    x, state, before = 1.0, server.start(1), 0.0
    for mean in (3.0, 2.0, 5.0):
        change, state = server.step(np.float32([mean - x]), state, 1.0)
        expected = 0.5 * mean + 0.5 * (x + 0.8 * before)
        assert x + change[0] == pytest.approx(expected, rel=1e-6)
        x, before = expected, expected - x


def test_ditto_without_a_pull_and_all_layers_private_are_local(tmp_path):
    _, local, folder = play(tmp_path, "training.personal=local")
    _, ditto, _ = play(tmp_path, "training.personal={name: ditto, strength: 0}")
    _, private, _ = play(tmp_path, "training.personal={name: private_layers, keep: [all]}")
    for name in ("client_accuracy_mean", "client_accuracy_min", "client_trained_accuracy_mean"):
        assert column(local, name) == column(ditto, name) == column(private, name)
    for rows in (local, private):
        assert column(rows, "bytes_up") == column(rows, "bytes_down") == [0, 0, 0, 0]
    start = build(scenario()).learner.initial()
    assert np.array_equal(np.load(folder / "model.npy"), start)


def test_ditto_is_its_formula():
    """One step of one client by hand: v <- v - rate (gradient(v) + strength (v - x))."""
    learner = build(scenario("training.personal={name: ditto, strength: 0.7}", "training.local_epochs=1",
                             "training.batch_size=null", "training.momentum=0")).learner  # fmt: skip
    from tests.learning.test_supervised import jobs, pooled_gradient

    x = learner.initial() + np.float32(0.1)
    learner.put(0, learner.initial())
    learner.train(jobs([2]))
    v = learner.states.client(2)["model"]
    learner.put(1, x)
    learner.train(jobs([2], version=1, first=9))
    step = pooled_gradient(learner, v, learner.partition[2]) + 0.7 * (v - x)
    np.testing.assert_allclose(learner.states.client(2)["model"], v - 0.2 * step, atol=1e-5)


# -- what is private stays ------------------------------------------------------------------------------


@pytest.mark.parametrize("personal", ["fedbn", PRUNING, "{name: private_layers, keep: [norm, head]}"])
def test_the_servers_norms_never_change(tmp_path, personal):
    model, _, _ = play(tmp_path, NORMED, f"training.personal={personal}")
    learner = build(scenario(NORMED, f"training.personal={personal}")).learner
    start, private = learner.initial(), learner.algorithm.private
    assert np.array_equal(model[private], start[private]) and not np.array_equal(model, start)
    module = MODELS["resnet8"](width=4).build((1, 8, 8), 3)
    norm_size = sum(m.weight.numel() for m in module.modules() if isinstance(m, nn.BatchNorm2d))
    head = 3 * 16 + 3 if "head" in personal else 0
    assert private.sum() == 4 * norm_size + head  # scale, shift and two statistics; shortcuts' norms among them


def test_layers_are_told_by_class_or_name_and_nothing_else_is_guessed():
    learner = build(scenario("training.personal={name: private_layers, keep: [head]}")).learner
    assert learner.algorithm.private.sum() == 12 * 3 + 3 and learner.algorithm.private[-39:].all()
    first = build(scenario("training.personal={name: private_layers, keep: ['1.']}")).learner
    assert first.algorithm.private.sum() == 64 * 12 + 12 and first.algorithm.private[0]
    for keep, message in (("[bn]", "begins with 'bn'"), ("[norm]", "no norm layers")):
        with pytest.raises(ScenarioError, match=message):
            build(scenario(f"training.personal={{name: private_layers, keep: {keep}}}"))
    with pytest.raises(ScenarioError, match="no norm layers"):
        build(scenario("training.personal=fedbn"))


def test_statistics_are_refused_unless_they_stay_or_are_meant():
    for personal in ("none", "ditto", "lotteryfl", "{name: private_layers, keep: [head]}"):
        with pytest.raises(ScenarioError, match=r"layer '1' .*running statistics.*fedbn"):
            build(scenario(NORMED, f"training.personal={personal}"))
    build(scenario(NORMED, "learning.norm_statistics=averaged"))
    with pytest.raises(ScenarioError, match="step of one sample.*nearest valid value is"):
        build(scenario(NORMED, "training.personal=fedbn", "training.batch_size=19"))


def test_statistics_are_torchs(tmp_path):
    """A client's running statistics after a job are those of a module that saw its batches in training mode."""
    learner = build(scenario(NORMED, "training.personal=fedbn", "training.local_epochs=1",
                             "training.batch_size=null", "training.learning_rate=1e-6")).learner  # fmt: skip
    from tests.learning.test_supervised import jobs

    learner.put(0, learner.initial())
    learner.train(jobs([4]))
    module = nn.Sequential(*MODELS["resnet8"](width=4).build((1, 8, 8), 3))
    flat = torch.from_numpy(learner.initial())
    nn.utils.vector_to_parameters(flat[: sum(p.numel() for p in module.parameters())], module.parameters())
    module(learner.task.x[learner.partition[4]])
    wanted = [b.numpy() for name, b in module.named_buffers() if not name.endswith("tracked")]
    got = np.zeros(learner.dimension, dtype=np.float32)
    got[learner.algorithm.private] = learner.states.client(4)["private"]
    np.testing.assert_allclose(got[-sum(b.size for b in wanted) :], np.concatenate(wanted), atol=1e-5)


# -- masks ----------------------------------------------------------------------------------------------


def test_masks_equal_torchs_pruning_again_and_again():
    rng = np.random.default_rng(0)
    layers = [nn.Linear(17, 23, bias=False), nn.Conv2d(3, 5, 3, bias=False)]
    model = np.concatenate([rng.normal(size=p.numel()) for layer in layers for p in layer.parameters()])
    model = np.append(model, np.zeros(7)).astype(np.float32)  # behind them, something that is never pruned
    edges = (slice(0, 391), slice(391, 526))
    mask = np.ones(len(model), dtype=bool)
    for layer, edge in zip(layers, edges, strict=True):
        layer.weight.data = torch.from_numpy(model[edge]).view_as(layer.weight)
    for _ in range(22):
        before, mask = mask, prune(model, mask, edges, 0.1)
        assert not (mask & ~before).any()
        for layer, edge in zip(layers, edges, strict=True):
            torch_prune.l1_unstructured(layer, "weight", 0.1)
            assert np.array_equal(mask[edge], layer.weight_mask.numpy().ravel().astype(bool))
    assert mask[526:].all() and mask[:526].mean() == pytest.approx(0.0985, abs=0.01)
    assert np.array_equal(unpack_mask(np.packbits(mask), len(mask)), mask)


@pytest.mark.parametrize("model", [[], [NORMED]])
@pytest.mark.parametrize(
    "personal", [PRUNING, PRUNING.replace("}", ", rewind: true}"), "{name: lotteryfl, threshold: 0}"]
)
def test_masks_are_nested_and_pruned_weights_stay_zero(personal, model):
    """Through momentum, the download and further pruning; nothing but weights of layers is ever pruned."""
    if model and "lottery" in personal:
        model = [*model, "learning.norm_statistics=averaged"]
    from tests.learning.test_supervised import aggregate, jobs

    play = scenario(*model, f"training.personal={personal}", "training.weight_decay=0.01")
    learner = build(play).learner
    learner.put(0, learner.initial())
    masks, weights = {}, learner.algorithm.layers
    outside = np.ones(learner.dimension, dtype=bool)
    for layer in weights:
        outside[layer] = False
    for version in range(4):
        work = jobs(range(0, 6, 1 + version % 2), version, 10 * version)
        updates = learner.train(work)
        for job, delta in zip(work, updates.deltas, strict=True):
            own = learner.states.client(job.client)
            mask = unpack_mask(own["mask"], learner.dimension)
            assert mask[outside].all() and not (mask & ~masks.get(job.client, mask)).any()
            sent = learner.get(version) + delta
            if updates.mask is None:
                assert np.abs(sent[~mask]).max() < 1e-6  # the server takes zeros
            assert not learner.algorithm.personal(learner.get(version), own)[~mask].any()
            assert own["values"] == np.count_nonzero(
                mask if "lottery" in personal else mask & ~learner.algorithm.private
            )
            masks[job.client] = mask
        learner.put(version + 1, aggregate(learner, play.training, updates, version))
    target = learner.algorithm.rule.target
    share = 1 - np.mean([masks[c][~outside].mean() for c in masks])
    assert 0.3 < share < target + 0.3


def test_rewinding_goes_back_and_pruning_does_not():
    """After a pass that moves nothing, what remains is the initial value, or what was trained."""
    from tests.learning.test_supervised import jobs

    found = {}
    for rewind in ("true", "false"):
        learner = build(scenario(f"training.personal={{name: fedltn, threshold: 0, step: 0.3, rewind: {rewind}}}",
                                 "training.learning_rate=1e-9")).learner  # fmt: skip
        moved = learner.initial() * np.float32(1.5)
        learner.put(0, moved)
        updates = learner.train(jobs([0]))
        mask = unpack_mask(learner.states.client(0)["mask"], learner.dimension)
        found[rewind] = (moved + updates.deltas[0])[mask], moved[mask], learner.initial()[mask]
    after, moved, initial = found["true"]
    np.testing.assert_allclose(after, initial, atol=1e-5)
    after, moved, initial = found["false"]
    np.testing.assert_allclose(after, moved, atol=1e-5)


def test_a_weight_is_averaged_over_all_or_over_those_who_keep_it():
    """Where it is averaged over all, those who do not keep it count with zeros."""
    folder = Path(__file__).resolve().parents[2] / "results" / "fedltn"
    pruning = "threshold: 0, step: 0.3"
    with undone():  # a plugin file is executed once
        for name in ("lotteryfl", "lotteryfl_zeros", "fedltn", "fedltn_holders"):
            settings = f"training.personal={{name: {name}, {pruning}}}"
            play = Scenario.parse(BASE, name, [settings], plugins=[folder / "zeros.py", folder / "holders.py"])
            check_mean(build(play).learner, play.training, name in ("lotteryfl", "fedltn_holders"))


def check_mean(learner, rule, over_holders):
    """Two aggregations: the second is the mean of its clients' models, each weight over those that count for it."""
    from tests.learning.test_supervised import aggregate, jobs

    learner.put(0, learner.initial())
    learner.put(1, aggregate(learner, rule, learner.train(jobs([0, 4]))))
    updates = learner.train(jobs(range(3), 1, 10))  # client 0 prunes once more than the others
    after = aggregate(learner, rule, updates, 1)
    masks = np.array([unpack_mask(learner.states.client(client)["mask"], learner.dimension) for client in range(3)])
    models = np.where(masks, learner.get(1) + updates.deltas, 0)
    keep = masks.sum(axis=0) if over_holders else np.full(learner.dimension, 3)
    want = np.where(keep, models.sum(axis=0) / np.maximum(keep, 1), learner.get(1))
    np.testing.assert_allclose(after, want, atol=1e-6)
    assert (~masks.any(axis=0)).any() and (masks.sum(axis=0) % 3).any(), "kept by none, and by some"


def test_the_printed_pull_is_the_distance_itself():
    """Three steps of one client in numpy: x <- x - rate (gradient(x) + beta (x - start) / |x - start|)."""
    from tests.learning.test_supervised import jobs, pooled_gradient

    ends = {}
    for term in ("distance", "squared"):
        personal = f"training.personal={{name: fedltn, target: 0, pull: 0.4, pull_term: {term}}}"
        whole_passes = ("training.local_epochs=3", "training.batch_size=null", "training.momentum=0")
        learner = build(scenario(personal, *whole_passes)).learner
        start = learner.initial().astype(np.float64)
        learner.put(0, learner.initial())
        ends[term] = learner.initial() + learner.train(jobs([2])).deltas[0]
        x = start.copy()
        for _ in range(3):
            away = x - start
            pull = 0.4 * (away if term == "squared" else away / max(np.linalg.norm(away), 1e-12))
            x = x - 0.2 * (pooled_gradient(learner, x.astype(np.float32), learner.partition[2]) + pull)
        np.testing.assert_allclose(ends[term], x, atol=1e-5)
    assert np.abs(ends["distance"] - ends["squared"]).max() > 1e-3


def test_the_squared_pull_keeps_the_digests_of_published_scenarios():
    written = scenario("training.personal={name: fedltn, pull_term: squared}")
    assert written.digest == scenario("training.personal=fedltn").digest
    assert written.digest != scenario("training.personal={name: fedltn, pull_term: distance}").digest


# -- what is sent ---------------------------------------------------------------------------------------


def test_sizes_are_those_of_masks_and_time_follows_them(tmp_path):
    """Threshold 0: a mask of a client that has pruned n times keeps (1 - step)^n of each layer, rounded as it goes."""
    _, rows, folder = play(tmp_path, f"training.personal={PRUNING}")
    with open(folder / "participation.csv", newline="") as file:
        took = [(int(row["round"]), int(row["client"])) for row in csv.DictReader(file)]
    layers, rest = (64 * 12, 12 * 3), 12 + 3
    left = {client: list(layers) for client in range(6)}
    for number, row in enumerate(rows):
        down = up = masks = published = 0
        slowest = 0.0
        for client in (c for r, c in took if r == number):
            received = 4 * (sum(left[client]) + rest)
            down += received
            gone = sum(layers) - sum(left[client])
            bits = 0
            if gone < 0.9 * sum(layers):
                left[client] = [n - round(0.3 * n) for n in left[client]]
                bits = -(-sum(layers) // 8)
            values = 4 * (sum(left[client]) + rest)
            up, masks, published = up + values + bits, masks + bits, published + values / 1e6
            slowest = max(slowest, 0.2 + (received + values + bits) / 1e4 + (2 if bits else 1))
        assert [int(row["bytes_down"]), int(row["bytes_up"]), int(row["bytes_mask"])] == [down, up, masks]
        assert float(row["published_mb"]) == pytest.approx(published)
        before = float(rows[number - 1]["time_s"]) if number else 0.0
        assert float(row["time_s"]) - before == pytest.approx(slowest, rel=1e-6)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["published_mb"] == pytest.approx(sum(column(rows, "published_mb")))


def test_private_layers_are_not_sent(tmp_path):
    _, rows, _ = play(tmp_path, "training.personal={name: private_layers, keep: [head]}")
    d = 64 * 12 + 12 + 12 * 3 + 3
    assert set(column(rows, "bytes_up")) == {3 * 4 * (d - 39)} == set(column(rows, "bytes_down"))


def test_two_passes_take_twice_the_time(tmp_path):
    _, plain, _ = play(tmp_path, "network={name: star, latency_s: 0, bandwidth_bytes_per_s: null}")
    _, ditto, _ = play(
        tmp_path, "network={name: star, latency_s: 0, bandwidth_bytes_per_s: null}", "training.personal=ditto"
    )
    assert column(ditto, "time_s") == [2 * t for t in column(plain, "time_s")]


@pytest.mark.parametrize("personal", ["fedltn", "lotteryfl", "jump_start"])
def test_secure_aggregation_loses_the_compression_and_says_so(personal):
    with pytest.raises(InvalidScenario, match="mask of the weights .* secagg: secagg does not cover; use .*: f"):
        scenario(f"training.personal={personal}", "secagg=secagg")
    scenario("training.personal={name: fedltn, compress: false}", "secagg=secagg")
    with pytest.raises(
        InvalidScenario,
        match="its whole model before .* secagg: secagg does not cover; use training.personal: f",
    ):
        scenario("training.personal={name: jump_start, compress: false}", "secagg=secagg")


def test_a_client_without_validation_samples_does_not_prune():
    spread = "learning.partition={name: quantity, proportions: {name: log_normal, median: 1, sigma: 1.5}}"
    pruning = f"training.personal={PRUNING}"
    learner = build(scenario(pruning, spread, "learning.holdout={validation: 0.1}", "clients=20")).learner
    from tests.learning.test_supervised import jobs

    bare = np.flatnonzero((learner.validation.split.sizes == 0) & (learner.samples > 0))
    learner.put(0, learner.initial())
    learner.train(jobs(bare[:1]))
    assert len(bare) and "mask" not in learner.states.client(int(bare[0]))


def test_dense_messages_change_no_model(tmp_path):
    sparse, rows, _ = play(tmp_path, f"training.personal={PRUNING}")
    model, dense, _ = play(tmp_path, f"training.personal={PRUNING.replace('}', ', compress: false}')}")
    assert np.array_equal(sparse, model)
    assert set(column(dense, "bytes_up")) == {3 * 4 * (64 * 12 + 12 + 12 * 3 + 3)}
    assert column(dense, "published_mb") == column(rows, "published_mb")


@pytest.mark.parametrize("rule", [
    [],
    ["training.deadline_s=5", "network={name: star, latency_s: {name: log_normal, median: 0.6, sigma: 0.5}}"],
    ["training.name=fedbuff", "training.buffer=2", "training.concurrency=3"],
])  # fmt: skip
def test_with_dense_messages_no_time_tells_who_prunes(tmp_path, rule):
    """Of thresholds that all pass and that nobody passes."""
    times, members, megabytes = [], [], []
    for threshold in (0, 1):
        personal = f"training.personal={{name: fedltn, threshold: {threshold}, step: 0.3, pull: 0, compress: false}}"
        _, rows, folder = play(tmp_path / f"{threshold}", personal, *rule)
        times.append(column(rows, "time_s"))
        members.append((folder / "participation.csv").read_text())
        megabytes.append(column(rows, "published_mb"))
    assert times[0] == times[1] and members[0] == members[1]
    plain, never = (
        [f"training.personal={{name: fedltn, target: 0, compress: {dense}}}", *rule] for dense in ("true", "false")
    )
    assert column(play(tmp_path, *plain)[1], "time_s") == column(play(tmp_path, *never)[1], "time_s"), (
        "nobody ever prunes"
    )
    assert min(megabytes[0]) < min(megabytes[1]), "one of them prunes"


def test_pruning_needs_validation_samples_and_other_variants_are_refused():
    with pytest.raises(InvalidScenario, match="holdout"):
        scenario("training.personal=fedltn", "learning.holdout=null")
    with pytest.raises(InvalidScenario, match="client.*fedprox.*use plain"):
        scenario("training.personal=ditto", "training.client=fedprox:mu=0.1")


# -- Jump-Start -----------------------------------------------------------------------------------------


def test_the_best_model_is_where_federated_training_begins(tmp_path):
    from simfl.agents.servers import SERVERS
    from simfl.agents.world import World

    play = scenario(
        "training.personal={name: jump_start, alone_rounds: 3, threshold: 0, alone_target: 0.3, step: 0.2}",
    )
    parts = build(play)
    learner = parts.learner
    alone = learner.pretrain()
    assert set(alone.models) == set(range(6))
    everyone = np.ones(6, dtype=bool)
    best = alone.best(everyone)
    scores = [[learner.validation.accuracy(alone.models[k], c) for c in range(6)] for k in range(6)]
    assert best == int(np.argmax(np.mean(scores, axis=1)))
    others = everyone.copy()
    others[best] = False
    assert alone.best(others) != best and alone.best(np.zeros(6, dtype=bool)) is None
    server = SERVERS["synchronous"](parts, World(0.0), lambda done: None)
    for _ in server._train_alone(np.arange(6, dtype=np.int32)):
        pass
    assert np.array_equal(server.model, alone.models[best]) and np.array_equal(learner.get(0), server.model)
    masks = {learner.states.client(client)["mask"].tobytes() for client in range(6)}
    mask = unpack_mask(learner.states.client(0)["mask"], learner.dimension)
    assert len(masks) == 1 and not server.model[~mask].any()
    pruned_share = 1 - mask[: 64 * 12].mean()
    assert pruned_share == pytest.approx(1 - 0.8**2, abs=0.01)  # 0.2, then 0.36 >= 0.3
    assert alone.sizes.passes.tolist() == [5.0] * 6  # three passes, and one more after each pruning
    values = 4 * int(learner.states.client(0)["values"])
    assert server.accounts.costs.bytes_down == (
        6 * 4 * learner.dimension + 6 * server.accounts.costs.bytes_up - 6 * 6 * 48
    )
    assert server.accounts.costs.bytes_up == 6 * values + 6 * 48


def test_what_happens_alone_costs_the_first_round(tmp_path):
    """Training of five passes of two epochs at a second each, and the models of all to all."""
    personal = "training.personal={name: jump_start, alone_rounds: 3, threshold: 0, step: 0.2}"
    _, rows, _ = play(tmp_path, personal)
    _, plain, _ = play(tmp_path, "training.personal={name: fedltn, threshold: 0, step: 0.2}")
    assert column(rows, "bytes_down")[0] > 6 * column(plain, "bytes_down")[0]
    assert column(rows, "time_s")[0] > column(plain, "time_s")[0] + 5
    assert column(rows, "published_mb")[0] < column(plain, "published_mb")[0]  # as published, it does not count


# -- own samples ----------------------------------------------------------------------------------------


def test_accuracies_are_of_each_clients_model_on_its_own_test_samples(tmp_path):
    personal = "training.personal={name: private_layers, keep: [head]}"
    _, rows, folder = play(tmp_path, personal)
    learner = build(scenario(personal)).learner
    from tests.learning.test_supervised import aggregate, jobs

    learner.put(0, learner.initial())
    with open(folder / "participation.csv", newline="") as file:
        took = [(int(row["round"]), int(row["client"])) for row in csv.DictReader(file)]
    trained = {}
    for t in range(4):
        work = [j._replace(id=t << 32 | j.client) for j in jobs([c for r, c in took if r == t], t)]
        updates = learner.train(work)
        for job, delta in zip(work, updates.deltas, strict=True):
            model = learner.algorithm.personal(learner.get(t) + delta, learner.states.client(job.client))
            trained[job.client] = learner.own_test.accuracy(model, job.client)
        learner.put(t + 1, aggregate(learner, scenario().training, updates, t))
    now = [learner.own_test.accuracy(learner.algorithm.personal(learner.get(4), learner.states.client(c))
           if learner.states.client(c) else learner.get(4), c) for c in range(6)]  # fmt: skip
    last = rows[-1]
    assert float(last["client_accuracy_mean"]) == pytest.approx(np.mean(now))
    assert float(last["client_accuracy_min"]) == min(now) == float(last["client_accuracy_worst_decile"])
    assert float(last["client_trained_accuracy_mean"]) == pytest.approx(np.mean(list(trained.values())))
    with open(folder / "accuracies.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["accuracy"]) for row in table] == now
    assert {int(row["client"]): float(row["trained"]) for row in table if row["trained"]} == trained
    held = learner.holdings
    assert not set(held.test.indices.tolist()) & set(held.training.indices.tolist())
    assert json.loads((folder / "summary.json").read_text())["sha256"]["accuracies.csv"]


def test_only_models_that_are_asked_for_are_measured(monkeypatch):
    learner, measured = build(scenario()).learner, []
    own = learner.own_test
    accuracy = type(own).accuracy
    monkeypatch.setattr(own, "accuracy", lambda model, c: measured.append(c) or accuracy(own, model, c))
    rng = np.random.default_rng(0)
    models = [rng.normal(size=learner.dimension).astype(np.float32) for _ in range(4)]
    record = ClientAccuracies(own, True)
    for client, model in ((2, models[0]), (4, models[1]), (2, models[2])):
        record.add_trained(client, model)
    assert not measured
    again = ClientAccuracies(own, True)
    again.restore(record.state())
    for one in (record, again):
        assert one.by_client()["trained"][[2, 4]].tolist() == [accuracy(own, models[2], 2), accuracy(own, models[1], 4)]
        assert np.isnan(one.by_client()["trained"][[0, 1, 3, 5]]).all()
    assert sorted(measured) == [2, 2, 4, 4]
    monkeypatch.setattr("simfl.learning.client_accuracies.WAITING_BYTES", models[0].nbytes)
    record.add_trained(1, models[3])
    assert len(measured) == 4
    record.add_trained(3, models[3])  # one more than may wait
    assert sorted(measured[4:]) == [1, 3]


@pytest.mark.parametrize("name", ["fedltn", "lotteryfl"])
def test_sparse_rules_tell_what_they_send(tmp_path, name):
    _, rows, _ = play(tmp_path, f"training.personal={{name: {name}, threshold: 0, step: 0.5, target: 0.5}}")
    for row in rows:
        values, masks = 1e6 * float(row["published_mb"]), float(row["bytes_mask"])
        assert values + masks == pytest.approx(float(row["bytes_up"])) and masks >= 0
    assert column(rows, "bytes_mask")[0] == 3 * -(-(64 * 12 + 12 * 3) // 8)


def test_fine_tuning_is_training_from_the_global_model(tmp_path):
    _, rows, _ = play(tmp_path, "training.personal={name: fine_tune, epochs: 3}")
    _, plain, _ = play(tmp_path)
    assert column(rows, "client_accuracy_mean") == column(plain, "client_accuracy_mean")
    assert column(rows, "client_trained_accuracy_mean") != column(plain, "client_trained_accuracy_mean")
    learner = build(scenario("training.personal={name: fine_tune, epochs: 3}")).learner
    learner.put(0, learner.initial())
    before = learner.state()
    scores = learner.evaluator.evaluate(0)
    assert scores["client_trained_accuracy_mean"] > scores["client_accuracy_mean"]
    after = learner.state()
    assert before.keys() == after.keys() and not learner.states._clients


def test_many_models_at_once_are_measured_as_one_by_one():
    for model in ("{name: mlp, hidden: [12]}", "{name: resnet8, width: 2}"):
        learner = build(scenario(f"learning.model={model}", "training.personal={name: private_layers, keep: [all]}",
                                 "learning.holdout={validation: 0.3, test: 0.33}", "clients=19",
                                 "learning.data.samples=1200")).learner  # fmt: skip
        rng = np.random.default_rng(0)
        models = {c: learner.initial() + rng.normal(0, 0.3, learner.dimension).astype(np.float32) for c in range(17)}
        models = {c: np.abs(v) if "resnet" in model else v for c, v in models.items()}  # variances are positive
        own, found = learner.own_test, {}
        for many in (True, False):
            own.predictor.many = many
            found[many] = own.accuracies(learner.initial(), models.get)
        assert np.array_equal(found[True], found[False]) and np.isfinite(found[True]).all()
        one = [own.accuracy(models.get(client, learner.initial()), client) for client in range(19)]
        assert found[False].tolist() == one


def test_the_distribution_over_clients_is_drawn(tmp_path):
    from simfl.report import draw
    from simfl.report.figures.base import NothingToDraw

    _, _, folder = play(tmp_path, "training.personal=local")
    _, table = draw("clients", folder)
    with open(folder / "accuracies.csv", newline="") as file:
        known = sorted(float(row["accuracy"]) for row in csv.DictReader(file))
    rows = table[table.model == "accuracy"]
    assert rows.accuracy.tolist() == known and rows.share.tolist() == [(i + 1) / 6 for i in range(6)]
    with pytest.raises(NothingToDraw, match="per_client"):
        draw("clients", play(tmp_path, "learning.evaluate=2")[2])


def test_published_megabytes_at_ninety_per_cent(tmp_path):
    """Table 4.1's schedule, pruning in every job: the thesis prints 3,753.9 of 11,150 MB; by the rule it is 0.336."""
    _, rows, _ = play(tmp_path, "clients=10", "selection.k=5", "training.rounds=50", "learning.evaluate=0",
                      "learning.data={name: synthetic, samples: 700, test_samples: 10, shape: [900], classes: 3}",
                      "learning.model=logistic", "training.batch_size=null", "training.local_epochs=1",
                      "training.personal={name: fedltn, threshold: 0, step: 0.1, target: 0.9}")  # fmt: skip
    dense = 250 * 4 * 2703 / 1e6
    assert sum(column(rows, "published_mb")) / dense == pytest.approx(0.336, abs=0.015)


def test_dense_personal_models_are_summed_securely(tmp_path):
    personal = f"training.personal={PRUNING.replace('}', ', compress: false}')}"
    plain, _, _ = play(tmp_path, personal, "training.rounds=2")
    secure, rows, _ = play(tmp_path, personal, "training.rounds=2", "secagg=secagg")
    assert len(rows) == 2
    np.testing.assert_allclose(secure, plain, atol=1e-2)


# -- everywhere -----------------------------------------------------------------------------------------

KINDS = {
    "local": "local", "fine_tune": "fine_tune", "fedbn": "fedbn", "ditto": "ditto", "fedltn": PRUNING,
    "private_layers": "{name: private_layers, keep: [norm]}", "lotteryfl": "{name: lotteryfl, threshold: 0}",
    "jump_start": "{name: jump_start, alone_rounds: 2, threshold: 0, step: 0.3}",
}  # fmt: skip


def test_every_kind_is_here():
    assert KINDS.keys() == set(PERSONAL) - {"none"}


SIMPLE = "learning.model={name: mlp, hidden: [6]}"
GROUPED = "learning.model={name: resnet8, width: 2, norm: group, groups: 2}"


def everywhere(kind):
    return [GROUPED if kind == "fedbn" or "norm" in KINDS[kind] else SIMPLE, f"training.personal={KINDS[kind]}"]


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_gives_the_same_bytes(tmp_path, monkeypatch, kind):
    play = scenario(*everywhere(kind), "devices.failure={name: bernoulli, probability: 0.2}")
    whole = run(play, tmp_path / "whole").path
    parted = killed_and_resumed(play, tmp_path / "parted", monkeypatch, 2)
    for path in whole.glob("*.csv"):
        assert path.read_bytes() == (parted / path.name).read_bytes(), path.name
    assert (whole / "model.npy").read_bytes() == (parted / "model.npy").read_bytes()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "jump_start"])
def test_under_a_buffered_server_with_failures_and_units(tmp_path, kind):
    changes = ["training.name=fedbuff", "selection={name: batch_partition, k: 2, T: 2}", "training.concurrency=4",
               "devices.failure={name: bernoulli, probability: 0.2}", "training.rounds=3"]  # fmt: skip
    _, rows, _ = play(tmp_path, *everywhere(kind), *changes)
    assert len(rows) == 3 and column(rows, "client_trained_accuracy_mean")


def test_jump_start_needs_rounds():
    with pytest.raises(InvalidScenario, match="personal: is jump_start, which needs synchronous rounds"):
        scenario("training.personal=jump_start", "training.name=fedbuff")


def test_a_start_alone_needs_a_server_and_says_so():
    with pytest.raises(InvalidScenario, match="personal: is jump_start, .* a server chooses a model"):
        scenario("training.personal=jump_start", "training.name=serverless")
    undeclared = scenario("training.personal=jump_start")
    with mock.patch.object(JumpStart, "needs_server", False), pytest.raises(PluginError, match="set `needs_server`"):
        build(undeclared)


@pytest.mark.parametrize("kind", ["ditto", "fedltn", "lotteryfl"])
def test_backends_agree(tmp_path, kind):
    one, _, _ = play(tmp_path, f"training.personal={KINDS[kind]}", "learning.backend=sequential", "training.rounds=2")
    two, _, _ = play(tmp_path, f"training.personal={KINDS[kind]}", "learning.backend=dense", "training.rounds=2")
    np.testing.assert_allclose(one, two, atol=2e-4)
