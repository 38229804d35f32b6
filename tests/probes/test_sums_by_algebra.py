"""Updates that stay, in sums of the real server with the real numbers of samples: whoever can be solved for by linear
algebra is not said to hide.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from simfl.cli.validate_plugins import FAILING, FEDAVG, FEDBUFF, scene
from simfl.privacy.multiround import guarantees
from simfl.probes import simulate as simulate_module
from simfl.probes.declarations import parse
from simfl.runs import views
from simfl.runs.run import build
from tests.support.sizes import repeats

CLIENTS = 8
SELECTIONS = (
    {"name": "half_partition", "k": 4, "T": 2}, {"name": "batch_partition", "k": 4, "T": 2},
    {"name": "partition", "k": 4}, {"name": "random", "k": 4}, "all",
)  # fmt: skip
PARTITIONS = (
    "iid", {"name": "growing", "first": 10, "new": 3, "versions": 5},
    {"name": "growing", "first": [10, 20, 5, 9, 40, 10, 10, 7], "new": 6, "versions": 3, "cumulative": False},
)  # fmt: skip
HELD = ("privacy_strong", "privacy_semi_strong", "privacy_weak_lower")


def world(number):
    """One of all combinations, by its number."""
    number, selection = divmod(number, len(SELECTIONS))
    number, partition = divmod(number, len(PARTITIONS))
    number, weighting = divmod(number, 2)
    rule = (FEDAVG, FEDAVG | {"on_failure": "partial"}, FEDBUFF | {"staleness": "polynomial"})[number % 3]
    return parse(scene(
        clients=CLIENTS, selection=SELECTIONS[selection], devices=FAILING if number % 3 == 1 else {},
        training=rule | {"rounds": 14, "weighting": ("samples", "equal")[weighting]},
        learning={"data": "digits", "partition": PARTITIONS[partition], "model": "logistic"}))  # fmt: skip


def played(scenario):
    """Sums of unit vectors, one a client: what each counts, float64 (sums, clients); and what is said of them."""
    learner = build(scenario).learner
    counts = learner.counts

    class Counted(simulate_module.ChosenUpdates):
        def __init__(self, samples, updates):
            super().__init__(learner.samples, updates)

        def train(self, jobs):
            each = [int(counts(np.array([job.client]), job.version)[0]) for job in jobs]
            return replace(super().train(jobs), examples=np.array(each))

    with mock.patch.object(simulate_module, "ChosenUpdates", Counted):
        play = simulate_module.simulate(scenario, np.eye(CLIENTS))
    columns = guarantees.Guarantees().accounts(play.history)
    said = {name: next(v for v in reversed(list(columns[name])) if v is not None) for name in HELD}
    return np.array([each.total for each in play.sums]).reshape(-1, CLIENTS), said


def solved(sums):
    """Clients whose unit vector is a combination of sums, with factors that rounding does not reach."""
    factors = np.linalg.pinv(sums, rcond=1e-4)
    return np.flatnonzero(np.abs(factors @ sums - np.eye(CLIENTS)).max(axis=1, initial=0) < 1e-3)


def lies(number):
    """What is said to be hidden though somebody is solved for, and whether anybody is."""
    scenario = world(number)
    if scenario is None:
        return {}, False
    sums, said = played(scenario)
    exposed = len(sums) > 0 and len(solved(sums)) > 0
    return {name: value for name, value in said.items() if exposed and value > 1}, exposed


WORLDS = range(len(SELECTIONS) * len(PARTITIONS) * 2 * 3)


PARTS = 7  # prime to the numbers of choices: each part has all of them


@pytest.mark.parametrize("part", range(repeats(1, PARTS)))
def test_whoever_is_solved_for_is_not_said_to_hide(part):
    found = [lies(number) for number in WORLDS[part::PARTS]]
    assert [lie for lie, _ in found if lie] == []
    assert {exposed for _, exposed in found} == {False, True}


def test_growing_samples_that_are_not_counted_are_found():
    """T11 as it was: rows of a participation matrix, though samples that weigh updates grow."""
    unseen = mock.patch.object(views, "changing_weights", lambda setting: False)
    with unseen, mock.patch.object(guarantees, "changing_weights", lambda setting: False):
        growing = [number for number in WORLDS if number // len(SELECTIONS) % len(PARTITIONS)][:8]
        assert any(lies(number)[0] for number in growing)
