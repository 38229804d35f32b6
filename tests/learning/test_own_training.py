"""Training functions of one's own: beside plain torch loops, beside protocols, noise and codes; and what is refused."""

import random  # noqa: TID251
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import simfl
from simfl.core.certificate_words import premises_of
from simfl.core.errors import SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.core.rng import Streams
from simfl.learning.backends.choices import External
from simfl.learning.backends.python import PythonTraining
from simfl.learning.objects.choice import python_objects
from simfl.learning.objects.examples import descend
from simfl.learning.objects.networks import UserNetwork
from simfl.learning.supervised import ALONE

CLIENTS, SAMPLES, INPUTS = 4, 60, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
SPLIT = [list(range(first, first + 10)) for first in range(0, 40, 10)]
SCALED = torch.from_numpy(((X - X[:40].mean(0, dtype=float)) / X[:40].std(0, dtype=float)).astype(np.float32))


def scenario(train, model=None, **training):
    return {
        "clients": CLIENTS,
        "selection": {"name": "random", "k": CLIENTS},
        "network": {"name": "star", "latency_s": 0.1},
        "training": {"name": "fedavg", "rounds": 3, **training},
        "learning": {
            "data": ((X[:40], Y[:40]), (X[40:], Y[40:])), "model": model or "logistic", "partition": SPLIT,
            "backend": train,
        },
    }  # fmt: skip


def adam(model, data, settings):
    """Three steps of Adam, whatever the rule's epochs."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(3):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(data[0]), data[1])
        loss.backward()
        optimiser.step()
    return loss.item()


def network(*layers):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(INPUTS, 6, bias=not layers), *(layer() for layer in layers), nn.ReLU(), nn.Linear(6, 2)
    )


def state(module):
    """Parameters and running statistics in the order in which simfl has them."""
    values = [*module.named_parameters(), *((k, v) for k, v in module.named_buffers() if k.endswith(("mean", "var")))]
    return np.concatenate([value.detach().numpy().ravel() for _, value in values if value.dtype == torch.float32])


@pytest.mark.parametrize("layers", [(), (lambda: nn.BatchNorm1d(6),)], ids=["plain", "statistics"])
def test_training_is_the_loop_over_modules(layers, tmp_path):
    """Every client starts from the mean of all models, running statistics included."""
    net = network(*layers)
    wanted = scenario(adam, net)
    wanted["learning"]["norm_statistics"] = "averaged"
    result = simfl.run(wanted, out=tmp_path)
    modules = [network(*layers) for _ in SPLIT]
    common = network(*layers).state_dict()
    for _ in range(3):
        for module, held in zip(modules, SPLIT, strict=True):
            module.load_state_dict(common)
            loss = adam(module.train(), (SCALED[held], torch.from_numpy(Y[held])), {})
        dicts = [module.state_dict() for module in modules]
        common = {name: sum(each[name] for each in dicts) / CLIENTS for name in common}
    modules[0].load_state_dict(common)
    np.testing.assert_allclose(np.load(result.path / "model.npy"), state(modules[0]), atol=2e-6)
    assert np.isfinite(loss) and result.summary["train_loss"] < 1


@pytest.mark.parametrize("training", [{"learning_rate": 0.5}, {"learning_rate": 0.5, "local_epochs": 3}])
def test_gradient_descent_is_that_of_simfl(training, tmp_path):
    training |= {"decay_at": [1], "decay": 0.5}
    function = scenario(descend_all, **training, batch_size=None)
    ours = simfl.run(scenario("sequential", **training, batch_size=None), out=tmp_path)
    theirs = simfl.run(function, out=tmp_path)
    models = [np.load(each.path / "model.npy") for each in (ours, theirs)]
    np.testing.assert_allclose(*models, atol=1e-6)


def descend_all(model, data, settings):
    assert settings["batch_size"] is None
    return descend(model, data, settings)


def drawn(model, data, settings):
    """Draws from all global generators, and says what it drew."""
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=4, shuffle=True)
    with torch.no_grad():
        model[-1].bias += float(next(iter(loader))[0][0, 0])
        model[0].weight += torch.randn(1) + random.random() + np.random.random()  # noqa: NPY002
    return 0.0


def test_what_is_drawn_follows_from_the_job(tmp_path):
    runs, chosen = [], scenario(drawn, network(nn.Dropout))
    for folder in ("first", "second"):
        torch.manual_seed(len(folder))
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
        runs.append(simfl.run(chosen, out=tmp_path / folder).path)
        assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()
        assert np.array_equal(before[2], np.random.get_state()[1])  # noqa: NPY002
    assert runs[0].name == runs[1].name
    for name in ("model.npy", "rounds.csv"):
        assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes()


def test_no_two_jobs_draw_the_same():
    choice = simfl.load(scenario(drawn, network()))
    learner = choice.learning.build(choice, Streams(0))
    jobs = [simfl.core.types.Job.of(i, i % CLIENTS, 0, 0.0) for i in range(8)]
    learner.put(0, learner.initial())
    deltas = learner.train(jobs).deltas
    assert len(np.unique(deltas[:, 0])) == 8 and np.array_equal(deltas[2:4], learner.train(jobs[2:4]).deltas)


def test_only_trained_parameters_leave(tmp_path):
    net = network()
    net[0].requires_grad_(False)
    result = simfl.run(scenario(adam, net), out=tmp_path)
    assert np.load(result.path / "model.npy").shape == (14,)
    assert result.summary["bytes_up"] == 3 * CLIENTS * 4 * 14


@pytest.mark.parametrize(
    "beside",
    [
        {"secagg": "secagg"},
        {"privacy": {"stages": [{"name": "clipping", "norm": 0.1}]}},
        {"compression": {"name": "top_k", "share": 0.5}},
        {"training": {"name": "fedbuff", "rounds": 3, "concurrency": 2, "buffer": 2}},
        {"training": {"name": "fedavg", "rounds": 3, "personal": {"name": "fine_tune"}}},
        {"agents": {"engine": "processes"}},
    ],
    ids=str,
)
def test_it_works_beside(beside, tmp_path):
    result = simfl.run(scenario(adam) | beside, out=tmp_path)
    assert np.isfinite(np.load(result.path / "model.npy")).all() and result.summary["rounds"] == 3


def test_noise_on_whole_updates_has_its_epsilon_and_that_of_steps_has_none(tmp_path):
    """Clipped sums do not ask what a client did; a minimum that only plain SGD is near to does."""
    stages = [{"name": "central_gaussian", "clip_norm": 0.5, "noise_multiplier": 2.0}]
    epsilons = [
        simfl.run(scenario(train, weighting="equal") | {"privacy": {"stages": stages}}, out=tmp_path).summary
        for train in ("sequential", adam)
    ]
    key = next(name for name in epsilons[0] if name.startswith("epsilon"))
    assert epsilons[0][key] == epsilons[1][key] is not None
    stages, training = (
        [{"name": "output_perturbation", "epsilon": 1.0, "samples": 10}],
        {"weighting": "equal", "learning_rate": 0.01},
    )
    choices = [simfl.load(scenario(train, **training), {"privacy.stages": stages}) for train in ("sequential", read)]
    of_steps = [simfl.run(each, out=tmp_path).summary["epsilon_model"] for each in choices]
    assert of_steps[0] > 0 and of_steps[1] is None  # infinite
    assert any("what one sample does" in caution for caution in choices[1].cautions())
    assert [ALONE in premises_of(each) for each in choices] == [False, True]
    one = simfl.load(scenario(adam))
    learner = one.learning.build(one, Streams(0))
    assert learner.sample_moves([simfl.core.types.Job.of(0, 0, 0, 0.0)]).tolist() == [np.inf]


def read(model, data, settings):
    """As :func:`adam`, which looks at the rate and does as it likes."""
    return adam(model, data, settings) + 0 * settings["learning_rate"]


COUNT = {"calls": 0}


def counts(model, data, settings):
    COUNT["calls"] += 1
    return 0.0


def collects(model, data, settings, seen=[]):  # noqa: B006
    seen.append(len(data[0]))
    return 0.0


class Remembers:
    def __init__(self):
        self.last = 0.0

    def __call__(self, model, data, settings):
        self.last += 1.0
        return 0.0


class CannotBePickled(Remembers):
    def __reduce_ex__(self, protocol):
        raise TypeError("has a lock")


class RemembersInSlots:
    __slots__ = ("last", "unset")
    __init__, __call__, __reduce_ex__ = Remembers.__init__, Remembers.__call__, CannotBePickled.__reduce_ex__


class RemembersBelow(RemembersInSlots):
    __slots__ = ("last",)


def of_the_clock(model, data, settings):
    with torch.no_grad():
        model[-1].bias += np.random.default_rng().normal()
    return 0.0


def freezes(model, data, settings):
    model[0].requires_grad_(False)
    return 0.0


def thaws(model, data, settings):
    model[0].weight.data += 1
    return 0.0


def half_frozen():
    net = network()
    net[0].requires_grad_(False)
    return net


@pytest.mark.parametrize(
    ("train", "changes", "said"),
    [
        (counts, {}, "keeps something from call to call"),
        (collects, {}, "keeps something from call to call"),
        (Remembers(), {}, "keeps something from call to call"),
        (CannotBePickled(), {}, "keeps something from call to call"),
        (RemembersInSlots(), {}, "keeps something from call to call"),
        (RemembersBelow(), {}, "keeps something from call to call"),
        (of_the_clock, {}, "gives two results for one model, one client and one seed"),
        (lambda model, data, settings: None, {}, "returns NoneType, not the mean training loss"),
        (lambda model, data, settings: settings["lr"], {}, "raises KeyError: 'lr'; settings has learning_rate"),
        (lambda model, data, settings: 1 / 0, {}, "raises ZeroDivisionError: division by zero"),
        (freezes, {}, "froze some"),
        (thaws, {"learning.model": half_frozen()}, "changes the frozen parameter '0.weight'"),
        (adam, {"training.momentum": 0.9}, "does not read settings['momentum'], and training.momentum says 0.9"),
        (adam, {"training.half_at": 2.0}, "does not read settings['learning_rate'], and training.half_at says 2.0"),
        (adam, {"training.shuffle": False}, "does not read settings['shuffle']"),
        (adam, {"training.personal": {"name": "fine_tune", "epochs": 2}, "learning.evaluate.per_client": True},
         "settings['local_epochs']"),
        (adam, {"training.local_steps": 5}, "training.local_steps counts simfl's; use local_epochs"),
        (adam, {"training.client": "scaffold"}, "scaffold changes simfl's; use training.client: plain"),
        (adam, {"training.client": {"name": "fedprox", "mu": 0.1}}, "fedprox changes simfl's"),
        (adam, {"training.personal": "ditto"}, "ditto changes simfl's"),
        (adam, {"attacks": ["membership"]}, "attacks know those of SGD"),
        (adam, {"learning.bf16": True}, "in float32 on the processor"),
        (lambda model, data: 0.0, {}, "a function train(model, data, settings) is needed"),
        (3, {}, "a function train(model, data, settings) is needed (got int)"),
    ],
)  # fmt: skip
def test_what_is_refused(train, changes, said, tmp_path):
    with pytest.raises(SimflError) as refused:
        simfl.run(scenario(train, changes.pop("learning.model", network())), changes, out=tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_images_are_not_augmented_unseen(tmp_path):
    augmented = {"learning.backend": descend, "training.batch_size": 32, "learning.augment": {"flip": True}}
    with pytest.raises(SimflError, match="leave learning.augment out"):
        simfl.run("quickstart", augmented, out=tmp_path)


def test_finished_runs_are_not_attacked_either():
    choice = simfl.load(scenario(adam))
    with pytest.raises(SimflError, match="know the steps of SGD"):
        choice.learning.build(choice, Streams(0)).attack_context()


def test_a_scenario_file_names_it_and_the_run_is_repeated(tmp_path):
    (tmp_path / "loops.py").write_text("from simfl.learning.objects.examples import descend as train\n")
    (tmp_path / "mine.yaml").write_text(
        "clients: 4\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 2}\n"
        "learning: {data: digits, model: logistic, backend: loops:train}\n"
    )
    result = simfl.run(tmp_path / "mine.yaml", out=tmp_path / "out")
    assert "object: 'loops:train'" in (result.path / "scenario.yaml").read_text()
    assert all(simfl.verify(result.path).values())
    handed = simfl.run(scenario(adam), out=tmp_path / "out")
    assert all(simfl.verify(handed.path, {"learning.backend": adam, "learning.partition": SPLIT,
                                          "learning.data": scenario(adam)["learning"]["data"]}).values())  # fmt: skip
    with pytest.raises(SimflError, match=r"learning\.backend"):
        simfl.verify(handed.path, {"learning.backend": drawn, "learning.partition": SPLIT,
                                   "learning.data": scenario(adam)["learning"]["data"]})  # fmt: skip


PLACES = {
    "client": "training.client", "personal": "training.personal", "aggregate": "training.aggregate",
    "compression": "compression", "secagg": "secagg", "stage": "privacy.stages", "selection": "selection",
}  # fmt: skip
ASKS_STEPS = {
    "client": {name for name in FAMILIES["client"] if name != "plain"},
    "personal": {name for name in FAMILIES["personal"] if name not in ("none", "fine_tune")},
}
"""What changes the steps of SGD."""


def outcome(train, family, name, folder):
    plugin = {"name": name, **FAMILIES[family][name].example}
    plugin |= {"k": 4} if family == "selection" and name != "all" else {}
    chosen = scenario(train, weighting="equal", rounds=2)
    try:
        chosen = simfl.load(chosen, {PLACES[family]: [plugin] if family == "stage" else plugin})
        simfl.run(chosen, out=folder)
    except SimflError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("family", PLACES)
def test_beside_every_plugin_it_is_refused_only_where_sgd_is_asked_for(family, tmp_path):
    refused = set()
    for name in FAMILIES[family]:
        if not outcome("sequential", family, name, tmp_path) and (why := outcome(adam, family, name, tmp_path)):
            assert "steps of its own" in why, (name, why)
            refused.add(name)
    assert refused <= ASKS_STEPS.get(family, set())
    for name in ASKS_STEPS.get(family, ()):
        assert outcome(adam, family, name, tmp_path), name


def test_frozen_parameters_ask_for_no_memory():
    large = half_frozen()
    large[0].weight = nn.Parameter(torch.zeros(6, INPUTS), requires_grad=False)
    assert UserNetwork("net", large, 0).parameters((INPUTS,), 2) == 14


def test_remote_clients_do_not_call_it():
    """And trust is asked for modules that are named inside another backend, too."""
    inner = {"name": "external", "clients": [0], "inner": "simfl.learning.objects.examples:descend"}
    with pytest.raises(SimflError, match="remote clients do not call"):
        simfl.load(scenario(inner))
    choice = External(clients=(0,), inner=PythonTraining("loops:train"))
    assert python_objects(Holder(choice)) == [choice.inner]


@dataclass(frozen=True)
class Holder:
    backend: object


def test_what_a_function_leaves_in_torch_is_put_back_and_refused(tmp_path):
    """Else the next run of this process would have doubles, or another number of threads."""

    def doubles(model, data, settings):
        torch.set_default_dtype(torch.float64)
        return adam(model, data, settings)

    def threads(model, data, settings):
        torch.set_num_threads(3)
        return adam(model, data, settings)

    for train in (doubles, threads):
        with pytest.raises(SimflError, match="default dtype or number of threads"):
            simfl.run(scenario(train), out=tmp_path)
        assert (torch.get_default_dtype(), torch.get_num_threads()) == (torch.float32, 1)


def test_a_function_that_exits_is_one_line(tmp_path):
    def leave(model, data, settings):
        raise SystemExit(3)

    with pytest.raises(SimflError, match="raises SystemExit: 3"):
        simfl.run(scenario(leave), out=tmp_path)


def test_attributes_of_a_function_count(tmp_path):
    """As what it is, and as what it keeps from call to call."""

    def count(model, data, settings):
        count.calls = getattr(count, "calls", 0) + 1
        return adam(model, data, settings)

    with pytest.raises(SimflError, match="keeps something from call to call"):
        simfl.run(scenario(count), out=tmp_path)
