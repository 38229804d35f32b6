"""Partitions: every sample exactly once, sizes as promised, and the limits of their parameters."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.errors import ScenarioError
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, apportion

few = settings(max_examples=40, deadline=None)


def dataset(labels, classes=None, **columns):
    labels = np.asarray(labels, dtype=np.int64)
    names = tuple(str(i) for i in range(classes or labels.max() + 1))
    empty = np.zeros((0, 1), dtype=np.float32)
    return Dataset(np.zeros((len(labels), 1), np.float32), labels, empty, labels[:0], names, columns)


def split(name, data, clients, seed=0, **fields):
    return PARTITIONS[name](**fields).split(data, clients, np.random.default_rng(seed))


def histogram(data, parts):
    return np.array([np.bincount(data.y_train[parts[i]], minlength=data.classes) for i in range(len(parts))])


labelled = st.lists(st.integers(0, 6), min_size=1, max_size=300).map(lambda labels: dataset(labels, 7))
ways = st.sampled_from(
    [
        ("iid", {}),
        ("dirichlet", {"beta": 0.3}),
        ("dirichlet", {"beta": 1e-5}),
        ("dirichlet", {"beta": 1e6}),
        ("dirichlet", {"beta": 0.2, "over": "clients"}),
        ("label_skew", {"majority": 0.8, "classes": 1}),
        ("quantity", {}),
        ("data_sharing", {"shared": 0}),
        ("dirichlet", {"beta": 5, "over": "clients"}),
    ]
)


@few
@given(labelled, st.integers(1, 40), ways, st.integers(0, 5))
def test_every_sample_belongs_to_exactly_one_client(data, clients, way, seed):
    name, fields = way
    parts = split(name, data, clients, seed, **fields)
    assert len(parts) == clients and parts.sizes.sum() == len(data.y_train)
    assert np.array_equal(np.sort(parts.indices), np.arange(len(data.y_train)))
    assert np.array_equal(np.concatenate([parts[i] for i in range(clients)]), parts.indices)
    if name not in ("quantity",) and fields.get("over") != "clients":
        assert parts.sizes.max() - parts.sizes.min() <= 1
    if PARTITIONS[name](**fields).leaves_nobody_out and clients <= len(data.y_train):
        assert parts.sizes.min() > 0
    again = split(name, data, clients, seed, **fields)
    assert np.array_equal(again.indices, parts.indices) and np.array_equal(again.offsets, parts.offsets)


@few
@given(st.integers(1, 3), st.integers(5, 20), st.integers(0, 5))
def test_shards_hold_few_labels_and_are_of_equal_size(labels_per_client, clients, seed):
    rng = np.random.default_rng(seed)
    data = dataset(np.repeat(np.arange(5), rng.integers(200, 260, size=5)))
    parts = split("shards", data, clients, seed, labels_per_client=labels_per_client)
    assert np.array_equal(np.sort(parts.indices), np.arange(len(data.y_train)))
    assert ((histogram(data, parts) > 0).sum(axis=1) <= labels_per_client).all()
    # shards are apportioned to classes in whole numbers: with s shards of a class no size is off by more than 1 in s
    count = clients * labels_per_client
    assert parts.sizes.max() <= 260 * labels_per_client / max(1, count // 5 - 1) + labels_per_client


def test_shards_of_a_balanced_set_are_exactly_equal_and_refuse_the_impossible():
    data = dataset(np.repeat(np.arange(10), 60))
    parts = split("shards", data, 30, labels_per_client=2)
    assert (parts.sizes == 20).all()
    with pytest.raises(ScenarioError, match="10 classes"):
        split("shards", data, 4, labels_per_client=2)
    with pytest.raises(ScenarioError, match="600 samples"):
        split("shards", data, 400, labels_per_client=2)


def test_data_sharing_gives_everybody_the_same_share_and_one_sorted_shard():
    """arXiv 2106.03328, appendix E: 50,000 samples, 120 users, 200 shared, 415 private ones of (nearly) one label."""
    data = dataset(np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5000)))
    parts = split("data_sharing", data, 120)
    assert (parts.sizes == 615).all()
    common = set(parts[0].tolist()).intersection(*(parts[i].tolist() for i in range(1, 120)))
    assert len(common) == 200
    private = [np.array(sorted(set(parts[i].tolist()) - common)) for i in range(120)]
    assert np.array_equal(np.sort(np.concatenate([*private, sorted(common)])), np.arange(50_000))
    labels = [len(np.unique(data.y_train[own])) for own in private]
    assert max(labels) <= 2 and sum(n == 2 for n in labels) <= 9  # only a shard on one of the 9 borders has two


def test_balanced_sharing_leaves_shards_of_one_label_and_an_order_says_whose_they_are():
    """The same appendix: "415 samples of private dataset with one label"."""
    data = dataset(np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5000)))
    sorted_shards = tuple(range(120))
    parts = split("data_sharing", data, 120, balanced=True, order=sorted_shards)
    assert (parts.sizes == 615).all()
    common = parts[7][415:]
    assert (np.bincount(data.y_train[common]) == 20).all()
    for client in range(120):
        assert np.array_equal(parts[client][415:], common)
        assert (data.y_train[parts[client][:415]] == client // 12).all()
    dealt = split("data_sharing", data, 120, balanced=True)
    rows = {tuple(sorted(parts[i].tolist())) for i in range(120)}
    assert rows == {tuple(sorted(dealt[i].tolist())) for i in range(120)}, "the same shards, to others"
    whole = split("data_sharing", data, 120, shared=0, order=sorted_shards)
    assert (np.diff(data.y_train[whole.indices]) >= 0).all()
    backwards = split("data_sharing", data, 120, shared=0, order=sorted_shards[::-1])
    assert all(np.array_equal(backwards[i], whole[119 - i]) for i in range(120))
    with pytest.raises(ScenarioError, match="nearest valid value is 210"):
        split("data_sharing", data, 120, shared=207, balanced=True)
    with pytest.raises(ScenarioError, match="6000 samples of each class, and there are 5000"):
        split("data_sharing", data, 120, shared=60_000, balanced=True)


def test_dirichlet_limits():
    data = dataset(np.repeat(np.arange(10), 1000))
    even = histogram(data, split("dirichlet", data, 20, beta=1e7))
    # beta -> infinity: class counts are multinomial(500, 1/10); standard deviation 6.7
    assert abs(even - 50).max() < 40
    single = histogram(data, split("dirichlet", data, 20, beta=1e-4))
    assert (single.max(axis=1) / 500 > 0.9).mean() >= 0.7  # the last to choose take what is left
    middle = histogram(data, split("dirichlet", data, 20, beta=0.5))
    assert even.std() < middle.std() < single.std()


def test_a_minimum_for_every_client():
    data = dataset(np.arange(600) % 3)
    without = split("dirichlet", data, 12, beta=0.3, over="clients")
    assert without.sizes.min() < 10
    for seed in range(5):
        parts = split("dirichlet", data, 12, seed, beta=0.3, over="clients", min_samples=10)
        assert parts.sizes.min() >= 10 and sorted(parts.indices) == list(range(600))
    same = split("dirichlet", data, 12, beta=0.3, over="clients", min_samples=int(without.sizes.min()))
    assert np.array_equal(same.indices, without.indices)  # the first draw that has enough is taken
    assert split("dirichlet", data, 12, beta=0.3, min_samples=50).sizes.tolist() == [50] * 12


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_samples": 51}, "51 for each of 12 clients are more than the 600 samples; the nearest valid value is 50"),
        ({"over": "clients", "min_samples": 49, "beta": 0.1}, "in 1,000 draws the poorest client never had more than"),
    ],
)
def test_a_minimum_that_cannot_be_had(fields, message):
    with pytest.raises(ScenarioError, match=f"min_samples: {message}"):
        split("dirichlet", dataset(np.arange(600) % 3), 12, **{"beta": 0.3, **fields})


def test_dirichlet_over_clients_follows_its_moments():
    """A share of a symmetric Dirichlet(beta) of n has mean 1/n and variance (n - 1) / (n^2 (n beta + 1))."""
    data = dataset(np.repeat(np.arange(200), 500))
    shares = histogram(data, split("dirichlet", data, 5, beta=0.7, over="clients")) / 500
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert abs(shares.mean(axis=1) - 0.2).max() < 0.08
    assert shares.var() == pytest.approx(4 / (25 * (5 * 0.7 + 1)), rel=0.15)


def test_dirichlet_mixture_of_the_first_client_follows_the_class_shares():
    """Nothing has run out for whoever chooses first: E[q_c] = p_c, Var[q_c] = p_c (1 - p_c) / (beta C + 1)."""
    labels = np.repeat([0, 1, 2], [6000, 3000, 1000])
    data = dataset(labels)
    shares = []
    for seed in range(400):
        first = np.random.default_rng(seed)
        first.permutation(len(labels))  # the draws before the mixtures: samples of a class, then who chooses when
        chooser = first.permutation(10)[0]
        shares.append(histogram(data, split("dirichlet", data, 10, seed, beta=2.0))[chooser] / 1000)
    p = np.array([0.6, 0.3, 0.1])
    np.testing.assert_allclose(np.mean(shares, axis=0), p, atol=0.03)
    np.testing.assert_allclose(np.var(shares, axis=0), p * (1 - p) / 7, rtol=0.25)


def test_label_skew_gives_the_majority_to_the_clients_own_classes():
    data = dataset(np.repeat(np.arange(10), 600))
    counts = histogram(data, split("label_skew", data, 30, majority=0.9, classes=2))
    top_two = np.sort(counts, axis=1)[:, -2:].sum(axis=1) / counts.sum(axis=1)
    assert (abs(top_two - 0.9) < 0.02).mean() > 0.8 and top_two.min() > 0.85
    owners = np.zeros(10)
    for row in counts:
        owners[np.argsort(row)[-2:]] += 1
    assert owners.max() - owners.min() <= 2
    with pytest.raises(ScenarioError, match="10 classes"):
        split("label_skew", data, 30, classes=11)


def test_natural_keeps_a_value_together():
    values = np.array(["b", "a", "c", "a", "b", "a", "d", "d"])
    data = dataset(np.zeros(8), 1, job=values)
    parts = split("natural", data, 4, column="job")
    assert sorted("".join(sorted(set(values[parts[i]]))) for i in range(4)) == ["a", "b", "c", "d"]
    fewer = split("natural", data, 2, column="job")  # a:3, then b:2, d:2 to the other, then c:1 to the first
    assert sorted(fewer.sizes.tolist()) == [4, 4]
    for value in "abcd":
        assert sum(value in values[fewer[i]] for i in range(2)) == 1
    with pytest.raises(ScenarioError, match="nearest valid value of clients is 4"):
        split("natural", data, 5, column="job")
    with pytest.raises(ScenarioError, match="there are: job"):
        split("natural", data, 2, column="wage")


def test_quantity_sizes_are_in_the_drawn_proportions():
    from simfl.core.distributions import Empirical

    data = dataset(np.zeros(1000), 1)
    sizes = split("quantity", data, 50, proportions=Empirical(values=(1.0, 3.0))).sizes
    assert len(np.unique(sizes // 2)) <= 3 and sizes.sum() == 1000
    ratio = sizes.max() / sizes.min()
    assert 2.5 < ratio < 3.6


@few
@given(st.integers(0, 1000), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_apportioned_parts_add_up_and_are_off_by_less_than_one(samples, shares):
    shares = np.array(shares)
    parts = apportion(samples, shares)
    assert parts.sum() == samples
    assert (abs(parts - samples * shares / shares.sum()) < 1 + 1e-9).all()


def test_a_million_clients_are_ordinary():
    data = dataset(np.zeros(2_000_000, dtype=np.int64), 1)
    assert (split("iid", data, 1_000_000).sizes == 2).all()


@few
@given(labelled, st.integers(1, 40), st.integers(1, 30), st.integers(0, 5))
def test_bootstrap_gives_everybody_as_many_of_one_pool(data, clients, samples, seed):
    parts = split("bootstrap", data, clients, seed, samples=samples)
    assert len(parts) == clients and (parts.sizes == samples).all()
    assert parts.indices.min() >= 0 and parts.indices.max() < len(data.y_train)


def test_bootstrap_draws_all_samples_equally_often_and_refuses_what_fits_nowhere():
    data = dataset(np.repeat(np.arange(10), 10))
    parts = split("bootstrap", data, 20_000, samples=10)
    counts = np.bincount(parts.indices, minlength=100)
    assert (np.abs(counts - 2000) < 5 * np.sqrt(2000)).all()
    distinct = np.mean([len(set(parts[i].tolist())) for i in range(2000)])
    assert abs(distinct - 100 * (1 - 0.99**10)) < 0.05  # drawn with replacement
    with pytest.raises(ScenarioError, match="can hold 10 each"):
        split("bootstrap", data, 10**8, samples=11)


@pytest.mark.parametrize(
    ("order", "valid"), [((), True), ((2, 0, 1), True), ((0, 1), False), ((0, 1, 1), False), ((1, 2, 3), False)]
)
def test_an_order_of_shards_has_every_one_once(order, valid):
    found = PARTITIONS["data_sharing"](order=order).check(SimpleNamespace(clients=3))
    assert found == ([] if valid else [("order", "must hold each number from 0 to 2 once, a shard for each client")])
