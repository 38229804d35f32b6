"""Units in an order that is given: rows, theory and messages."""

import csv
import itertools

import numpy as np
import pytest

from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.theory.expected_cardinality import theory

ORDER = [3, 0, 7, 4, 1, 6, 2, 5]


def scenario(selection, *overrides, rates="{name: uniform, low: 0.05, high: 0.8}"):
    data = {"clients": 8, "seed": 4, "training": {"name": "fedavg", "rounds": 30},
            "learning": {"name": "none", "parameters": 1}}  # fmt: skip
    dropout = f"devices.availability={{name: bernoulli, dropout: {rates}}}"
    return Scenario.of(data, "orders", [f"selection={selection}", dropout, *overrides])


@pytest.mark.parametrize("name", ["batch_partition", "partition", "half_partition", "guarded"])
def test_a_run_has_whole_units_of_the_order(tmp_path, name):
    sizes = (
        "inner: {name: random, k: 4}, T: 4, tries: 1"
        if name == "guarded"
        else "k: 4"
        if name == "partition"
        else "k: 4, T: 4"
    )
    unit = 2 if name == "half_partition" else 4
    folder = run(scenario(f"{{name: {name}, {sizes}, shuffle: {ORDER}}}"), tmp_path)
    rows = {}
    for row in csv.DictReader((folder.path / "participation.csv").open()):
        rows.setdefault(row["round"], set()).add(int(row["client"]))
    units = [set(ORDER[first : first + unit]) for first in range(0, 8, unit)]
    whole = [row for row in rows.values() if all(part <= row or not part & row for part in units)]
    assert len(whole) > 2 and (name == "guarded" or len(whole) == len(rows))


def test_theory_is_that_of_the_units_of_the_order():
    """Mean clients in a sum of one batch of two: by every pattern of who is there."""
    there = 1 - np.array([0.5, 0.1, 0.3, 0.6, 0.2, 0.05, 0.4, 0.7])
    of = scenario(f"{{name: batch_partition, k: 2, T: 2, shuffle: {ORDER}}}", rates=(1 - there).round(4).tolist())
    expected = 0.0
    for pattern in itertools.product([0, 1], repeat=8):
        chance = np.prod(np.where(pattern, there, 1 - there))
        expected += 2 * chance * any(pattern[a] and pattern[b] for a, b in np.reshape(ORDER, (-1, 2)))
    said, usual = theory(of), theory(scenario("{name: batch_partition, k: 2, T: 2}"))
    assert said["expected_cardinality"] == pytest.approx(expected)
    assert said["guarantee"] == usual["guarantee"] == {"strong": 2, "semi_strong": 2, "weak": 2}
    assert said["family_size"] == usual["family_size"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 6], "all clients 0 to 7 once, in the order of units: client 7 is not in it"),
        ([*range(8), 3], "all clients 0 to 7 once, in the order of units: it has 9 entries"),
        ([0, 1], "client 2 is not in it"),
    ],
)
def test_another_list_is_refused_in_a_line(order, message):
    with pytest.raises(InvalidScenario, match=message):
        scenario(f"{{name: batch_partition, k: 2, T: 2, shuffle: {order}}}")
