"""Every registered policy keeps the interface's promises; a new one is tested by existing."""

from dataclasses import fields
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.clients.client_agents import Agents
from simfl.core.types import View
from simfl.selection.asking import check_units, shuffle_clients
from simfl.selection.base import POLICIES
from tests.support.policies import informed

N = 12


def scenario(clients=N, equal=True, dropout=0.0, selection=None, seed=0, **built):
    built = SimpleNamespace(dropout=None if dropout is None else np.broadcast_to(dropout, clients), **built)
    availability = SimpleNamespace(equal_rates=equal, build=lambda scenario, streams: built)
    return SimpleNamespace(
        clients=clients,
        seed=seed,
        agents=Agents(),
        selection=selection,
        devices=SimpleNamespace(availability=availability),
    )


def variants(name):
    """The policy with small sizes, in each of its modes, resolved as a scenario would."""
    cls = POLICIES[name]
    known = {field.name for field in fields(cls)}
    size = {key: value for key, value in cls.example.items() if key != "mode"}
    for mode in ("uniform", "fair", "least_total") if "mode" in known else (None,):
        policy = POLICIES.of({"name": name, **size, **({"mode": mode} if mode else {})})
        yield policy.resolve(scenario())


EVERY = [pytest.param(policy, id=f"{name}-{policy.mode or ''}") for name in POLICIES for policy in variants(name)]


def row_exists(policy, available, k):
    """By trying: do the available clients contain k clients in whole units of the policy's family?"""
    units = policy.family(len(available)).units()
    usable = [set(unit) for unit in units.tolist() if available[unit].all()]
    need = k // policy.unit_size
    return any(len(set().union(*some)) == k for some in combinations(usable, need))


def views(clients=N):
    return st.builds(
        View,
        st.integers(0, 10),
        st.lists(st.integers(0, 3), min_size=clients, max_size=clients).map(lambda x: np.array(x) > 0),
        st.lists(st.integers(0, 3), min_size=clients, max_size=clients).map(lambda x: np.array(x, dtype=np.int64)),
    )


@pytest.mark.parametrize("policy", EVERY)
@given(view=views(), units=st.integers(1, 6), seed=st.integers(0, 2**20))
@settings(max_examples=60, deadline=None)
def test_contract(policy, view, units, seed):
    """Whole units of available clients, exactly k of them whenever a row exists, and no trace left behind."""
    k = units * policy.unit_size
    if k > N:
        k = policy.unit_size
    view = informed(policy, view, seed)
    before = view.available.copy(), view.participation.copy()
    chosen = policy.select(view, k, np.random.default_rng(seed))
    np.random.seed(seed % 1000)  # noqa: NPY002 - disturbed on purpose
    again = policy.select(view, k, np.random.default_rng(seed))

    assert chosen.dtype == np.int32 and chosen.ndim == 2 and chosen.shape[1] in policy.unit_sizes
    assert np.array_equal(chosen, again)
    assert np.array_equal(view.available, before[0]) and np.array_equal(view.participation, before[1])
    assert len(np.unique(chosen)) == chosen.size and view.available[chosen].all()
    assert check_units(chosen, view, k, policy) is chosen
    if policy.fixed_size:
        assert chosen.size in (0, k)
        if policy.family(N) is not None:
            assert (chosen.size == k) == row_exists(policy, view.available, k)


@pytest.mark.parametrize("policy", EVERY)
def test_units_are_those_of_the_policy(policy):
    """Over many rounds every unit is one of the fixed units, so that what is summed keeps the guarantee."""
    rng = np.random.default_rng(1)
    family = policy.family(N)
    known = None if family is None else {frozenset(unit) for unit in family.units().tolist()}
    for _ in range(100):
        view = informed(policy, View(0, rng.random(N) < 0.8, rng.integers(0, 9, N)))
        units = policy.select(view, policy.k, rng).tolist()
        assert known is None or {frozenset(unit) for unit in units} <= known


@pytest.mark.parametrize("policy", [p for p in EVERY if p.values[0].fixed_size])
def test_refuses_parts_of_units(policy):
    view = informed(policy, View(0, np.ones(N, bool), np.zeros(N, np.int64)))
    for k in {0, -policy.unit_size} | ({policy.unit_size + 1} if policy.unit_size > 1 else set()):
        with pytest.raises(ValueError, match="unit size"):
            policy.select(view, k, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["partition", "batch_partition", "half_partition"])
def test_shuffled_moves_the_assignment_only(name):
    """Client order[j] takes the place of client j, in availability, in participation and in the result."""
    rng = np.random.default_rng(3)
    order = rng.permutation(N)
    for policy in variants(name):
        moved = shuffle_clients(policy, order)
        assert (moved.k, moved.unit_size, moved.name) == (policy.k, policy.unit_size, policy.name)
        for seed in range(20):
            available, used = rng.random(N) < 0.9, rng.integers(0, 4, N)
            outside_available, outside_used = np.empty(N, bool), np.empty(N, np.int64)
            outside_available[order], outside_used[order] = available, used
            inside = policy.select(View(0, available, used), 4, np.random.default_rng(seed))
            outside = moved.select(View(0, outside_available, outside_used), 4, np.random.default_rng(seed))
            assert outside.dtype == np.int32
            assert np.array_equal(order[inside], outside)


def test_all_takes_everyone_available():
    policy = POLICIES["all"]().resolve(scenario(7))
    assert policy.k == 7
    available = np.array([1, 0, 1, 1, 0, 0, 1], bool)
    chosen = policy.select(View(0, available, np.zeros(7, np.int64)), 1, np.random.default_rng(0))
    assert chosen.tolist() == [[0], [2], [3], [6]]
    nobody = policy.select(View(0, ~available & available, np.zeros(7, np.int64)), 7, np.random.default_rng(0))
    assert nobody.shape == (0, 1)


def test_bernoulli_fills_its_probability():
    policy = POLICIES["bernoulli"](k=4)
    assert policy.resolve(scenario(10, dropout=0.2)).probability == pytest.approx(0.5)
    rates = np.linspace(0, 0.9, 10)
    assert policy.resolve(scenario(10, dropout=rates)).probability == pytest.approx(4 / 5.5)
    assert POLICIES["bernoulli"](k=4, probability=0.3).resolve(scenario(10)).probability == 0.3
    with pytest.raises(Exception, match="k: is 4 but only 1 .* nearest valid value is 1"):
        policy.resolve(scenario(10, dropout=0.9))
    with pytest.raises(Exception, match="probability: is needed"):
        policy.resolve(scenario(10, dropout=None))
    with pytest.raises(ValueError, match="resolve"):
        policy.select(View(0, np.ones(10, bool), np.zeros(10, np.int64)), 4, np.random.default_rng(0))


def test_auto_is_fair_where_rates_differ():
    for name in ("batch_partition", "half_partition"):
        policy = POLICIES[name](k=4, T=2)
        assert policy.resolve(scenario(equal=True)).mode == "uniform"
        assert policy.resolve(scenario(equal=False)).mode == "fair"
        assert POLICIES[name](k=4, T=2, mode="least_total").resolve(scenario(equal=False)).mode == "least_total"
    assert POLICIES["partition"](k=4).resolve(scenario(equal=True)).mode == "fair"


@pytest.mark.parametrize(
    ("name", "sizes", "clients", "field", "message"),
    [
        ("random", {"k": 13}, 12, "k", "the nearest valid value is 12"),
        ("weighted", {"k": 13}, 12, "k", "the nearest valid value is 12"),
        ("bernoulli", {"k": 13}, 12, "k", "the nearest valid value is 12"),
        ("partition", {"k": 13}, 12, "k", "the nearest valid value is 12"),
        ("partition", {"k": 5}, 12, "k", "the nearest valid values are 4 and 6"),
        (
            "batch_partition",
            {"k": 12, "T": 5},
            120,
            "k",
            "values are 10 and 15; for T the nearest valid values are 4 and 6",
        ),
        ("batch_partition", {"k": 12, "T": 7}, 120, "T", "the nearest valid values are 6 and 12"),
        ("batch_partition", {"k": 13, "T": 3}, 120, "k", "the nearest valid values are 12 and 15"),
        ("batch_partition", {"k": 2, "T": 3}, 120, "k", "the nearest valid value is 3"),
        ("batch_partition", {"k": 124, "T": 4}, 120, "k", "the nearest valid value is 120"),
        ("half_partition", {"k": 12, "T": 3}, 120, "T", "the nearest valid values are 2 and 4"),
        ("half_partition", {"k": 12, "T": 8}, 12, "T", "the nearest valid values are 6 and 12"),
        ("half_partition", {"k": 8, "T": 2}, 15, "T", "the nearest valid numbers of clients are 14 and 16"),
        ("half_partition", {"k": 9, "T": 2}, 12, "k", "the nearest valid values are 8 and 10"),
    ],
)
def test_impossible_sizes_name_the_nearest_valid(name, sizes, clients, field, message):
    problems = POLICIES[name](**sizes).check(scenario(clients))
    assert [key for key, _ in problems] == [field]
    assert message in problems[0][1]


@given(n=st.integers(1, 60), k=st.integers(1, 70), t=st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_check_accepts_exactly_the_possible(n, k, t):
    whole = k <= n and n % t == 0 and k % t == 0
    assert (POLICIES["batch_partition"](k=k, T=t).check(scenario(n)) == []) == whole
    assert (POLICIES["half_partition"](k=k, T=t).check(scenario(n)) == []) == (whole and t % 2 == 0)
    assert (POLICIES["partition"](k=k).check(scenario(n)) == []) == (k <= n and n % k == 0)
