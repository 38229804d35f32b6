"""Whether the sums of a run are those that the policy's family speaks of; a guarantee speaks of no others."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from simfl.core.errors import PluginError
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import keeps_to_family, theory
from simfl.selection.theory.families import AllAvailable, Coins, DisjointUnits, NeighbourPairs

SMALL = """
clients: {n}
seed: 3
selection: {selection}
training: {{name: fedavg, rounds: 8, weighting: equal}}
learning: {{name: none}}
"""
BUFFERED = ("training={name: fedbuff, rounds: 6, concurrency: 8, buffer: 4, weighting: equal}", "devices.computation=1")
FAILING = ("devices.failure=0.15",)

FAMILIES = [
    *(DisjointUnits(n, k, t) for n, k, t in ((6, 3, 1), (6, 4, 2), (6, 6, 2), (6, 3, 3), (8, 4, 2))),
    *(NeighbourPairs(n, k, t) for n, k, t in ((6, 2, 2), (6, 4, 2), (6, 6, 2), (8, 4, 4), (8, 8, 4), (10, 6, 2))),
]


def whole_units(family, clients):
    """Whether these are disjoint units, by trying all."""
    if not clients:
        return True
    units = [frozenset(unit) for unit in family.units().tolist()]
    return any(
        whole_units(family, clients - unit) for unit in units if unit <= clients and min(clients) in unit
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_family_contains_its_rows_and_whole_units_of_them(family):
    listed = {tuple(sorted(row.tolist())) for row in family.rows()}
    for size in range(1, family.clients + 1):
        for clients in itertools.combinations(range(family.clients), size):
            there = np.array(clients, dtype=np.int32)
            assert family.contains(there, losses=False) == (clients in listed)
            assert family.contains(there, losses=True) == whole_units(family, frozenset(clients))


def test_everybody_is_everyone_and_coins_may_be_anybody():
    some, everyone = np.arange(3), np.arange(5)
    assert AllAvailable(5).contains(everyone, losses=False) and not AllAvailable(5).contains(some, losses=False)
    assert Coins(5, 2).contains(some, losses=False)


@pytest.mark.parametrize("more", [(), FAILING, BUFFERED, (*BUFFERED, *FAILING)], ids=str)
@pytest.mark.parametrize(
    "selection",
    ["{name: batch_partition, k: 4, T: 2}", "{name: half_partition, k: 4, T: 2}", "{name: partition, k: 4}",
     "{name: batch_partition, k: 8, T: 4}", "{name: half_partition, k: 8, T: 4}",
     "{name: random, k: 4}", "{name: bernoulli, k: 4}", "{name: all}",
     "{name: guarded, inner: {name: random, k: 4}, T: 2}"],
)  # fmt: skip
def test_policies_play_the_rows_of_their_families(selection, more, tmp_path):
    if BUFFERED[0] in more and any(name in selection for name in ("all", "bernoulli", "guarded", "k: 8")):
        pytest.skip("not under such a buffer")
    scenario = Scenario.parse(SMALL.format(n=8, selection=selection), "small", more)
    summary = run(scenario, tmp_path).summary
    promised = theory(scenario, np.ones(8, dtype=np.int64))["guarantee"]
    assert promised is not None
    for notion, value in promised.items():
        assert summary[f"guarantee_{notion}"] == value


LIAR = '''
from dataclasses import dataclass

import numpy as np

from simfl.plugins.selection import POLICIES, {family}


@POLICIES("{name}")
@dataclass(frozen=True)
class Turns:
    """The k clients whose turn it is."""

    k: int
    unit_size = {unit}
    example = {{"k": 4}}

    def select(self, view, k, rng):
        return np.sort((np.arange(k) + {step} * view.round) % len(view.available)).astype(np.int32).reshape(-1, {unit})

    def family(self, clients):
        return {made}
'''
UNASKED = "type('Own', (), {'guarantee': lambda self, present: (5, 5), 'size_log10': lambda self: 1.0, " \
          "'size': lambda self: 9, 'independent': True, 'cardinality': lambda self, p: 4.0, " \
          "'aggregated_cardinality': lambda self, *a: 4.0, 'full_rank': lambda self, p: None})()"  # fmt: skip


NUMBERS = itertools.count()


def played(tmp_path, more=(), **of):
    name = f"turns{next(NUMBERS)}"  # a name stands for one class
    file, of = tmp_path / f"{name}.py", {"family": "AllAvailable", "made": "AllAvailable(clients)"} | of
    file.write_text(LIAR.format(**{"name": name, "unit": 1, "step": 4} | of))
    text = SMALL.format(n=12, selection=f"{{name: {name}, k: 4}}")
    return run(Scenario.parse(text, "small", more, plugins=(file,)), tmp_path)


def promised(done):
    return [done.summary[f"guarantee_{notion}"] for notion in ("strong", "semi_strong", "weak")]


def test_one_row_outside_the_family_withdraws_the_guarantee(tmp_path):
    """12 was printed beside columns of 4."""
    done = played(tmp_path)
    assert promised(done) == [1, 1, 1] and done.summary["privacy_strong"] == 4


def test_units_that_are_not_those_of_the_family_withdraw_it(tmp_path):
    pairs = {"family": "DisjointUnits", "made": "DisjointUnits(clients, 4, 2)", "unit": 2}
    assert promised(played(tmp_path, **pairs)) == [2, 2, 2]
    assert promised(played(tmp_path, **pairs | {"step": 3})) == [1, 1, 1]
    assert promised(played(tmp_path, FAILING, **pairs | {"step": 3})) == [1, 1, 1]


def test_a_family_that_cannot_be_asked_gives_no_guarantee(tmp_path):
    assert promised(played(tmp_path, made=UNASKED)) == [None, None, None]


def test_a_promise_above_what_the_run_kept_is_an_error(tmp_path):
    """A family that says yes to every row, and promises more than its rows keep."""
    bold = UNASKED.replace("{'guarantee'", "{'contains': lambda self, clients, losses: True, 'guarantee'")
    bold = bold.replace("'size':", "'units': lambda self: np.arange(12).reshape(-1, 1), 'clients': 12, 'size':")
    with pytest.raises(PluginError, match="selection 'turns.': the strong guarantee of its family is 5, but .* keep 4"):
        played(tmp_path, made=bold)


def test_the_members_of_a_unit_have_one_weight():
    """A unit of which one member weighs less is no unit."""
    scenario = Scenario.parse(SMALL.format(n=8, selection="{name: batch_partition, k: 4, T: 2}"), "small", BUFFERED)
    assert keeps_to_family(scenario, csr_array(np.array([[1, 1, 0.5, 0.5, 0, 0, 0, 0]])))
    assert not keeps_to_family(scenario, csr_array(np.array([[1, 0.5, 1, 1, 0, 0, 0, 0]])))
