"""Next-character models: tokens through data, backends, evaluation, attacks and holdouts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.errors import ScenarioError, SimflError
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.backends.base import BACKENDS, Sgd, TrainingTask
from simfl.learning.client_accuracies import Predictor
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.models.base import MODELS
from simfl.learning.models.build import build, initial
from simfl.learning.models.flat import layout, size
from simfl.learning.work import work
from simfl.runs.run import run
from simfl.scenario import Scenario

torch.set_num_threads(1)
STREAMS = Streams(3)
BASE = {
    "name": "text",
    "clients": 6,
    "selection": {"name": "random", "k": 3},
    "training": {"name": "fedavg", "rounds": 2, "local_epochs": 1, "batch_size": 20, "learning_rate": 0.5},
    "learning": {
        "data": {"name": "markov_text", "characters": 60, "test_characters": 30, "length": 5, "symbols": 5},
        "partition": "natural",
        "model": {"name": "char_lstm", "hidden": 6, "embedding": 3},
    },
}


def scenario(**changes):
    """BASE with some keys of its sections replaced."""
    sections = {key: BASE.get(key, {}) | value if isinstance(value, dict) else value for key, value in changes.items()}
    return Scenario.of(BASE | sections)


def markov(clients=4, seed=0, **fields):
    return DATA["markov_text"](**fields).load(SimpleNamespace(clients=clients), Streams(seed))


def works(module, samples, settings, jobs=3):
    local = LocalTraining(**{"batch_size": 7, "learning_rate": 0.3, **settings})
    start = initial(module, np.random.default_rng(0))
    parts = np.array_split(np.random.default_rng(1).permutation(samples), jobs)
    return local, [
        work(Job(i, i, 0, 0.0), part, LocalPass(start), local, STREAMS, None) for i, part in enumerate(parts)
    ]


def test_the_size_is_that_of_the_published_models():
    def count(symbols, **fields):
        model = MODELS["char_lstm"](**fields)
        said = model.parameters((80,), symbols)
        assert said == size(layout(build(model, (80,), symbols, tokens=True)))
        return said

    leaf = {"embedding": 8, "hidden": 256, "layers": 2}
    second_biases = 2 * 4 * 256  # torch has two biases a unit
    assert count(90, **leaf) == 820_522 + second_biases  # Reddi et al. 2021, table 1 (Shakespeare)
    assert count(80, **leaf) == 819_920
    assert count(5, embedding=3, hidden=4, layers=3) == 5 * 3 + 16 * (3 + 4 + 2) + 2 * 16 * (4 + 4 + 2) + 5 * 5


def test_initial_weights_follow_torchs_own_distributions():
    module = build(MODELS["char_lstm"](hidden=64, layers=2), (5,), 9, tokens=True)
    flat = initial(module, np.random.default_rng(0))
    for entry in layout(module):
        values = flat[entry.start : entry.start + int(np.prod(entry.shape))]
        if entry.name.startswith("lstm"):
            assert 0.97 / 8 < np.abs(values).max() <= 1 / 8 and abs(values.std() - 1 / 8 / 3**0.5) < 0.01


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.1, "clip_norm": 0.5, "local_epochs": 2}])
def test_training_equals_plain_torch(settings):
    """Every step against torch.optim.SGD on a plain module, in float64."""
    data = markov(symbols=5, length=6, characters=30)
    module = build(MODELS["char_lstm"](embedding=3, hidden=7, layers=2), data.shape, 5, tokens=True)
    local, jobs = works(module, len(data.y_train), settings)
    x, y = torch.from_numpy(data.x_train), torch.from_numpy(data.y_train)
    sgd = Sgd(local.momentum, local.weight_decay, local.clip_norm)
    deltas, losses = BACKENDS["sequential"]().build(TrainingTask(module, x, y, 7, sgd)).train(jobs)
    for job, delta, loss in zip(jobs, deltas, losses, strict=True):
        plain = nn.ModuleList([nn.Embedding(5, 3), nn.LSTM(3, 7, 2, batch_first=True), nn.Linear(7, 5)]).double()
        nn.utils.vector_to_parameters(torch.from_numpy(job.start).double(), plain.parameters())
        optimiser = torch.optim.SGD(plain.parameters(), job.rate, sgd.momentum, weight_decay=sgd.weight_decay)
        last = []
        for s in range(job.steps):
            chosen = job.order[job.bounds[s] : job.bounds[s + 1]]
            error = cross_entropy(plain[2](plain[1](plain[0](x[chosen]))[0][:, -1]), y[chosen])
            optimiser.zero_grad()
            error.backward()
            if sgd.clip_norm is not None:
                nn.utils.clip_grad_norm_(plain.parameters(), sgd.clip_norm)
            optimiser.step()
            if s >= job.last_pass:
                last.append((error.item(), len(chosen)))
        end = nn.utils.parameters_to_vector(plain.parameters()).detach().numpy()
        np.testing.assert_allclose(delta, end - job.start, atol=2e-6)
        assert loss == pytest.approx(np.average([a for a, _ in last], weights=[n for _, n in last]), abs=1e-5)


def test_bits_depend_on_neither_company_nor_processes_and_bf16_is_close():
    data = markov(symbols=5, length=6, characters=30)
    module = build(MODELS["char_lstm"](embedding=3, hidden=7), data.shape, 5, tokens=True)
    _, jobs = works(module, len(data.y_train), {})
    task = TrainingTask(module, torch.from_numpy(data.x_train), torch.from_numpy(data.y_train), 7, Sgd())
    engine = BACKENDS["auto"]().build(task)
    together, _ = engine.train(jobs)
    for job, delta in zip(jobs, together, strict=True):
        assert np.array_equal(engine.train([job])[0][0], delta)
    assert np.array_equal(BACKENDS["processes"](workers=1).build(task).train(jobs)[0], together)
    halved, _ = BACKENDS["sequential"]().build(TrainingTask(module, task.x, task.y, 7, Sgd(), bf16=True)).train(jobs)
    np.testing.assert_allclose(halved, together, atol=0.05 * np.abs(together).max())
    assert not np.array_equal(halved, together)


@pytest.mark.parametrize(
    ("backend", "why"), [("vmap", "recurrent layer"), ("grouped", "Sequential"), ("dense", "linear")]
)
def test_backends_that_cannot_train_it_say_why(backend, why):
    module = build(MODELS["char_lstm"](), (4,), 5, tokens=True)
    assert why in BACKENDS[backend]().supports(module, False)


def test_a_periodic_text_is_learned_beyond_what_pairs_of_characters_tell():
    text = np.array([0, 0, 1] * 40)  # after 0 comes 0 or 1: who sees one character is right in two of three cases
    windows = np.lib.stride_tricks.sliding_window_view(text, 5)
    x, y = windows[:, :-1].copy(), windows[:, -1].copy()
    table = np.zeros((2, 2))
    np.add.at(table, (x[:, -1], y), 1)
    bigram = table.max(axis=1).sum() / len(y)
    assert bigram < 0.7
    module = build(MODELS["char_lstm"](embedding=4, hidden=12), (4,), 2, tokens=True)
    local = LocalTraining(batch_size=10, learning_rate=1.0, momentum=0.5, local_epochs=12)
    job = work(
        Job(0, 0, 0, 0.0), np.arange(len(y)), LocalPass(initial(module, np.random.default_rng(0))), local, STREAMS, None
    )
    predictor = Predictor(module, torch.device("cpu"))
    task = TrainingTask(module, torch.from_numpy(x), torch.from_numpy(y), 10, Sgd(0.5))
    deltas, _ = BACKENDS["sequential"]().build(task).train([job])
    _, predicted = predictor(job.start + deltas[0], task.x, task.y)
    assert (predicted == y).mean() > 0.99


# -- the source ----------------------------------------------------------------------------------------


def test_the_best_accuracy_is_what_knowing_the_successors_gives():
    fields = {"symbols": 7, "predictability": 0.6, "characters": 4000, "test_characters": 4000, "length": 3}
    data = markov(clients=3, dialect=0.5, **fields)
    best, right = DATA["markov_text"](**fields).best_accuracy, []
    for source in range(3):
        mine, tested = data.columns["client"] == source, data.test_columns["client"] == source
        table = np.zeros((7, 7))
        np.add.at(table, (data.x_train[mine, -1], data.y_train[mine]), 1)
        successor = table.argmax(axis=1)
        assert sorted(successor) == list(range(7))  # a permutation: no character is more frequent than others
        right.append(np.mean(successor[data.x_test[tested, -1]] == data.y_test[tested]))
    assert best == pytest.approx(0.6 + 0.4 / 7) and np.mean(right) == pytest.approx(best, abs=0.02)
    assert np.bincount(data.y_train) / len(data.y_train) == pytest.approx(np.full(7, 1 / 7), abs=0.02)


def test_without_dialect_and_chance_all_sources_say_the_same():
    data = markov(clients=3, symbols=4, predictability=1.0, characters=30, length=5)
    successor = dict(zip(data.x_train[:, -1].tolist(), data.y_train.tolist(), strict=True))
    assert all(successor[a] == b for a, b in zip(data.x_train[:, -1].tolist(), data.y_train.tolist(), strict=True))
    assert all((data.x_train[:, 1:] == np.vectorize(successor.get)(data.x_train[:, :-1])).ravel())
    assert successor[successor[successor[successor[0]]]] == 0 and len(set(successor.values())) == 4  # one cycle


def test_windows_are_all_of_a_text_and_the_same_for_the_same_seed():
    data = markov(clients=2, symbols=5, length=4, characters=12, test_characters=9)
    assert data.tokens and data.x_train.shape == (2 * 8, 4) and data.x_test.shape == (2 * 5, 4)
    assert (data.x_train[1:8] == np.column_stack([data.x_train[:7, 1:], data.y_train[:7]])).all()
    assert np.array_equal(data.x_train, markov(clients=2, symbols=5, length=4, characters=12).x_train)
    with pytest.raises(ScenarioError, match=r"characters.* is 16, which gives no sample .* nearest valid value is 17"):
        scenario(learning={"data": {"name": "markov_text", "characters": 16}})


# -- in a scenario -------------------------------------------------------------------------------------


def test_a_federation_learns_a_text_up_to_its_bound(tmp_path):
    data = {"name": "markov_text", "symbols": 5, "length": 4, "characters": 60, "predictability": 1.0}
    training = {"rounds": 12, "momentum": 0.5, "learning_rate": 1.0, "batch_size": 10}
    done = run(scenario(training=training, learning={"data": data}), tmp_path)
    assert done.summary["test_accuracy"] == 1.0


def test_clients_are_tested_on_their_own_writers_texts(tmp_path):
    learning = {"holdout": {"validation": 0.2, "test_column": "client"}, "evaluate": {"per_client": True}}
    summary = run(scenario(learning=learning), tmp_path).summary
    assert 0 <= summary["client_accuracy_min"] <= summary["client_accuracy_mean"] <= 1
    assert summary["client_accuracy_mean"] == pytest.approx(summary["test_accuracy"])  # all texts are equally long


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning": {"model": "mlp"}}, "model: mlp takes numbers, and the samples are tokens; char_lstm"),
        (
            {"learning": {"data": "digits", "partition": "iid"}},
            "model: char_lstm takes tokens .*, and the samples are numbers",
        ),
        ({"learning": {"augment": {"flip": True}}}, "augment: .*no images"),
        ({"learning": {"transform": "rotation"}}, r"rotation takes images.*\[5\]"),
        ({"learning": {"transform": "colours"}}, r"colours takes images.*\[5\]"),
        ({"learning": {"backend": "vmap"}}, "backend: vmap cannot train this model: .*sequential"),
        ({"attacks": ["inversion"]}, "attacks.*method.*learning.model takes tokens"),
        ({"learning": {"holdout": {"test_column": "city"}}}, "test_column.* is 'city'.*it has: client"),
        ({"learning": {"holdout": {"test_column": "client"}, "partition": "iid"}}, "several clients hold .*natural"),
        ({"learning": {"holdout": {"test_column": "client", "test_samples": 3}}}, "two ways"),
        ({"clients": 7, "learning": {"data": {"name": "markov_text", "sources": 3}}}, "nearest valid value .* is 3"),
    ],
)
def test_what_does_not_fit_tokens_is_one_line(changes, message, tmp_path):
    with pytest.raises(SimflError, match=message) as error:
        run(scenario(**changes), tmp_path)
    assert "\n" not in str(error.value) and not list(tmp_path.rglob("rounds.csv"))


@pytest.mark.parametrize("statistic", ["loss", "fedmia_gradient"])
def test_membership_attacks_work_with_tokens(statistic, tmp_path, recwarn):
    attack = {"name": "membership", "statistic": statistic, "game": "in_client", "clients": [0, 1, 2, 3, 4, 5]}
    assert 0 <= run(scenario(attacks=[attack], selection={"k": 6}), tmp_path).summary["membership_auc"] <= 1
    assert not [str(one.message) for one in recwarn]


# -- whose tests ----------------------------------------------------------------------------------------


def test_own_tests_are_the_test_samples_of_the_values_that_a_client_holds():
    from simfl.learning.holdout import Holdout
    from simfl.learning.partitions.base import PARTITIONS

    owners, tested = np.array(list("aabbbcd")), np.array(list("cazbba"))
    x, x_test = np.zeros((7, 1), np.float32), np.zeros((6, 1), np.float32)
    data = Dataset(x, np.zeros(7, np.int64), x_test, np.zeros(6, np.int64), ("0",), {"w": owners}, {"w": tested})
    split = PARTITIONS["natural"](column="w").split(data, 3, np.random.default_rng(0))
    held = Holdout(test_column="w").split(data, split, np.random.default_rng(0))
    assert held.foreign and np.array_equal(held.training.sizes, split.sizes)
    for client in range(3):
        assert set(tested[held.test[client]]) == set(owners[split[client]]) & set(tested)
    assert held.test.sizes.sum() == 5  # nobody holds z
