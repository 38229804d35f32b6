"""What is said of single samples: of which one each is made, who else holds it, whether seeds deal anew."""

from types import SimpleNamespace

import numpy as np
import pytest

import simfl
from simfl.core.rng import Streams
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.generated import Digits
from simfl.learning.partitions.base import PARTITIONS
from simfl.learning.transforms.base import TRANSFORMS
from simfl.learning.transforms.images import Images

SCENARIO = {
    "clients": 6, "selection": "all", "secagg": "ideal",
    "training": {"name": "fedavg", "rounds": 1, "weighting": "equal", "weight_decay": 1.0, "learning_rate": 0.001},
    "learning": {"data": "digits", "model": "logistic"},
    "privacy": {"stages": [{"name": "output_perturbation", "epsilon": 1.0, "samples": 200, "adds": "whole"}]},
}  # fmt: skip


def told(**changes):
    scenario = SCENARIO | {"learning": SCENARIO["learning"] | changes}
    return simfl.load(scenario)


def images(n=400):
    """Grey images of 8 x 8, two classes, of a range that no one of them decides."""
    rng = np.random.default_rng(3)
    x = rng.random((n, 1, 8, 8), dtype=np.float32)
    x[:4, 0, 0, 0], x[4:8, 0, 0, 0] = 0, 1
    return Dataset(x, rng.integers(2, size=n), x[:10], np.zeros(10, np.int64), ("a", "b"))


CHOICES = [("none", {}), ("images", {}), ("images", {"copies": ("left_right", "upside_down")}), ("colours", {}),
           ("rotation", {})]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), CHOICES)
@pytest.mark.parametrize("which", [20, 133])
def test_a_sample_makes_those_that_the_transform_says_and_no_others(name, given, which):
    """Another sample in its place moves these; all others by no more than a mean and a deviation do."""
    transform, data = TRANSFORMS[name](**given), images()
    origins = transform.origins(len(data.y_train))
    if origins is None:
        return
    x, y = data.x_train.copy(), data.y_train.copy()
    x[which], y[which] = 1 - x[which], 1 - y[which]
    other = Dataset(x, y, data.x_test, data.y_test, data.label_names)
    before, after = (transform.apply(each, Streams(0)) for each in (data, other))
    assert len(origins) == len(before.y_train)
    far = np.abs(before.x_train - after.x_train).max(axis=(1, 2, 3)) > 0.1
    far |= before.y_train != after.y_train
    assert set(origins[far].tolist()) == {which}
    assert np.array_equal(far, origins == which)


def test_every_transform_is_tried():
    simfls = {name for name in TRANSFORMS if TRANSFORMS[name].__module__.startswith("simfl.")}
    assert {name for name, _ in CHOICES} == simfls


def test_copies_of_a_sample_count_together():
    plain, copied = (told(transform=Images(copies=copies).__dict__ | {"name": "images"} if copies else "none")
                     for copies in ((), ("left_right",)))  # fmt: skip
    learners = [scenario.learning.build(scenario, Streams(0)) for scenario in (plain, copied)]
    for learner, times in zip(learners, (1, 2), strict=True):
        jobs = [SimpleNamespace(client=client, version=0) for client in range(6)]
        every = np.concatenate(learner.positions(jobs))
        assert np.array_equal(np.unique(every, return_counts=True)[1], np.full(len(every) // times, times))


@pytest.mark.parametrize(("changes", "known"), [
    ({}, True), ({"holdout": {"test": 0.2}}, False), ({"holdout": {"validation": 0.2}}, False),
    ({"transform": {"name": "images", "copies": ["left_right"]}}, True), ({"transform": "rotation"}, False),
])  # fmt: skip
def test_no_epsilon_of_a_sample_that_may_decide_what_others_are(changes, known):
    assert np.isfinite(told(**changes).learning.steepness) == known


@pytest.mark.parametrize("name", sorted(PARTITIONS))
def test_a_disjoint_partition_gives_no_sample_to_two(name):
    cls, clients = PARTITIONS[name], 10
    data = Digits().load(SimpleNamespace(), Streams(0))
    data = Dataset(**data.__dict__ | {"columns": {"place": np.arange(len(data.y_train)) % 17}})
    given = cls.example if name in ("natural", "bootstrap", "growing", "resampled", "dirichlet") else {}
    given = {"few_classes": {"samples": 10}}.get(name, given)
    if name == "python" or not cls.__module__.startswith("simfl."):
        assert name != "python" or not cls.disjoint
        return
    split = cls(**given).split(data, clients, np.random.default_rng(0))
    every = np.concatenate([split.samples_at(client, 3) for client in range(clients)])
    assert len(np.unique(every)) == len(every) or not cls.disjoint
    assert cls.disjoint or name in ("bootstrap", "data_sharing", "resampled")


@pytest.mark.parametrize(("partition", "holdout", "how"), [
    ("iid", None, " (on training samples)"), ("iid", {"validation": 0.2}, " (on training samples)"),
    ("iid", {"test": 0.2}, ""), ({"name": "bootstrap", "samples": 40}, {"test": 0.2}, " (perhaps trained on)"),
    ({"name": "bootstrap", "samples": 40}, {"test_samples": 20}, ""),
])  # fmt: skip
def test_accuracies_of_clients_say_on_what(partition, holdout, how):
    scenario = told(partition=partition, holdout=holdout, evaluate={"per_client": True})
    (heading,) = (c.heading for c in scenario.learning.columns if c.name == "client_accuracy_mean")
    assert heading == f"Client accuracy, mean{how}"


def test_data_say_whether_a_seed_decides_which_samples_are_for_the_test():
    """Of all others a seed may decide which samples are for the test."""
    fixed = {name for name in DATA if DATA[name].__dict__.get("by_seed") is False}
    assert "npz" in fixed and not fixed & {"digits", "synthetic", "python", "markov_text"}
