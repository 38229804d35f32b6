"""Compressions alone: expectation, variance, what is left out, degenerate cases, and messages that can be decoded."""

from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simfl.compression.base import COMPRESSIONS, count_share
from simfl.compression.quantise import Quantise, Sign
from simfl.compression.sparsification import RandomK, TopK
from simfl.core.rng import Streams
from simfl.core.types import Job, JobId

ALL = sorted(name for name, cls in COMPRESSIONS.items() if cls.__module__.startswith("simfl."))
STREAMS = Streams(11)
numbers = st.floats(-1e3, 1e3, width=32)


def jobs(n, selection=0):
    return tuple(Job(JobId.of(selection, client), client, 0, 0.0) for client in range(n))


def vectors(seed, n, d):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


class Fixed:
    """Streams whose uniform numbers are given, a row a job in turn."""

    def __init__(self, uniform):
        self.rows = iter(uniform)

    def __call__(self, purpose, *key):
        self.row = next(self.rows)
        return self

    def random(self, out):
        out[:] = self.row


# -- all of them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@given(data=st.data(), n=st.integers(1, 3), d=st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_of_a_job_the_same_is_sent_in_any_batch(name, data, n, d):
    compression = COMPRESSIONS.of({"name": name, **COMPRESSIONS[name].example})
    rows = data.draw(arrays(np.float32, (n, d), elements=numbers))
    sent = compression.client(rows, jobs(n), STREAMS)
    assert sent.shape == rows.shape and sent.dtype == np.float32 and np.isfinite(sent).all()
    for i, job in enumerate(jobs(n)):
        alone = compression.client(rows[i : i + 1], (job,), STREAMS)
        assert np.array_equal(alone[0], sent[i])
    zeros = compression.client(np.zeros_like(rows), jobs(n), STREAMS)
    assert not zeros.any()
    assert 0 <= compression.size_bytes(d) <= 4 * d


@pytest.mark.parametrize(
    ("compression", "dimension", "size"),
    [
        ({"name": "none"}, 1000, 4000),
        ({"name": "quantise", "bits": 4}, 1000, 500 + 4),
        ({"name": "quantise", "bits": 3, "bucket": 100}, 1001, 376 + 4 * 11),
        ({"name": "sign"}, 1001, 126 + 4),
        ({"name": "sign", "bucket": 500}, 1001, 126 + 12),
        ({"name": "top_k", "share": 0.01}, 1000, 4 * 10 + 13),  # 10 places of 10 bits are 100 bits
        ({"name": "top_k", "share": 0.0101}, 1024, 4 * 11 + 14),  # 11 places of 10 bits are 110 bits
        ({"name": "top_k", "share": 1.0}, 1000, 4000),  # the numbers themselves are shorter
        ({"name": "random_k", "share": 0.1}, 1000, 400),
        ({"name": "quantise", "bits": 16, "bucket": 1}, 10, 40),
        ({"name": "sign"}, 0, 0),
        ({"name": "top_k", "share": 0.5}, 1, 4),
    ],
)
def test_sizes(compression, dimension, size):
    assert COMPRESSIONS.of(compression).size_bytes(dimension) == size


@given(share=st.floats(1e-6, 1), d=st.integers(0, 10**6))
def test_a_share_is_rounded_up_to_a_whole_k(share, d):
    k = count_share(share, d)
    assert 0 <= k <= d and (k >= 1 or not d)
    assert share * d - 1e-5 <= k < share * d + 1


def test_shares_that_floats_do_not_hold_exactly_are_no_coordinate_more():
    assert [count_share(share, 1000) for share in (0.07, 0.29, 0.57, 0.1, 0.001)] == [70, 290, 570, 100, 1]


# -- quantise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("bucket", [None, 2])
def test_quantise_is_unbiased_and_its_variance_within_the_bound(bits, bucket):
    """Exactly: the rounding is a step function of the uniform number, so a grid of its quantiles gives expectations."""
    vector, steps = np.array([[3.0, -1.0, 0.5, 0.0, -2.0]], dtype=np.float32), 4000
    d, levels = vector.shape[1], 2 ** (bits - 1) - 1
    grid = (np.arange(steps) + 0.5) / steps
    sent = Quantise(bits=bits, bucket=bucket).client(
        np.repeat(vector, steps, axis=0), jobs(steps), Fixed(np.repeat(grid[:, None], d, axis=1))
    )
    spacing = np.linalg.norm(vector) / levels
    assert np.abs(sent.mean(axis=0) - vector[0]).max() <= spacing / steps + 1e-6
    error = np.square(sent - vector, dtype=np.float64).mean(axis=0)  # of each coordinate: they are independent
    edges = [slice(0, d)] if bucket is None else [slice(i, min(i + 2, d)) for i in range(0, d, 2)]
    for cut in edges:
        length = cut.stop - cut.start
        bound = min(length / levels**2, sqrt(length) / levels) * float(np.square(vector[0, cut]).sum())
        assert error[cut].sum() <= bound + 1e-3


@given(row=arrays(np.float32, 7, elements=numbers), bits=st.integers(2, 16), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_quantise_sends_whole_levels_of_the_norm_beside_the_value(row, bits, seed):
    compression = Quantise(bits=bits)
    (sent,) = compression.client(row[None], jobs(1), Streams(seed))
    norm = np.linalg.norm(row.astype(np.float64))
    spacing = norm / (2 ** (bits - 1) - 1)
    assert (np.abs(sent - row) <= spacing * (1 + 1e-5) + 1e-30).all()
    assert (sent * row >= 0).all()
    if spacing > 1e-20:
        levels = np.abs(sent) / spacing
        assert np.abs(levels - levels.round()).max() < 1e-2 and levels.max() <= 2 ** (bits - 1) - 1 + 1e-2


def test_quantise_draws_anew_for_every_job_and_coordinate():
    rows = np.full((200, 50), 1.0, dtype=np.float32)
    sent = Quantise(bits=2).client(rows, jobs(200), STREAMS)
    up = (sent > 0).mean()
    assert abs(up - 1 / sqrt(50)) < 5 * sqrt(up * (1 - up) / sent.size)  # p of a false alarm below 1e-6
    assert len({row.tobytes() for row in sent}) == 200


# -- random_k -----------------------------------------------------------------------------------------------


def test_random_k_is_unbiased_and_has_its_variance_over_all_choices(monkeypatch):
    vector, compression = vectors(0, 1, 6), RandomK(share=1 / 3)
    sent = []
    for chosen in combinations(range(6), 2):
        monkeypatch.setattr(RandomK, "coordinates", lambda self, d, number, streams, at=chosen: np.array(at))
        sent.append(compression.client(vector, jobs(1), STREAMS)[0])
    assert len(sent) == comb(6, 2)
    assert np.allclose(np.mean(sent, axis=0), vector[0], atol=1e-6)
    variance = np.square(np.array(sent) - vector[0]).sum(axis=1).mean()
    assert np.isclose(variance, (6 / 2 - 1) * float(np.square(vector).sum()), rtol=1e-5)


def test_random_k_takes_every_coordinate_equally_often_and_all_clients_of_a_round_the_same():
    compression, d, rounds = RandomK(share=0.2), 25, 2000
    chosen = [compression.coordinates(d, number, STREAMS) for number in range(rounds)]
    assert all(len(np.unique(at)) == 5 and (np.diff(at) > 0).all() for at in chosen)
    counts = np.bincount(np.concatenate(chosen), minlength=d)
    chi2 = np.square(counts - rounds / 5).sum() / (rounds / 5 * 4 / 5) * (d - 1) / d
    assert chi2 < 75  # 24 degrees of freedom: p below 1e-6
    rows = vectors(1, 3, d)
    for number in range(3):
        sent = compression.client(rows, jobs(3, number), STREAMS)
        assert all(np.flatnonzero(row).tolist() == chosen[number].tolist() for row in sent)
        assert np.allclose(sent[:, chosen[number]], 5 * rows[:, chosen[number]])
    mixed = compression.client(rows, (*jobs(1, 0), *jobs(3, 1)[1:]), STREAMS)
    assert np.flatnonzero(mixed[0]).tolist() == chosen[0].tolist()
    assert np.flatnonzero(mixed[2]).tolist() == chosen[1].tolist()


# -- top_k --------------------------------------------------------------------------------------------------


@given(data=st.data(), d=st.integers(1, 12), share=st.floats(0.01, 1))
@settings(max_examples=100, deadline=None)
def test_top_k_keeps_the_largest_and_leaves_out_at_most_its_share(data, d, share):
    row = data.draw(arrays(np.float32, d, elements=st.integers(-3, 3).map(float) | numbers))
    compression, k = TopK(share=share), count_share(share, d)
    (sent,) = compression.client(row[None], jobs(1), STREAMS)
    order = sorted(range(d), key=lambda i: (-abs(row[i]), i))[:k]
    expected = np.zeros_like(row)
    expected[order] = row[order]
    assert np.array_equal(sent, expected)
    left = float(np.square(row - sent, dtype=np.float64).sum())
    assert left <= (1 - k / d) * float(np.square(row, dtype=np.float64).sum()) * (1 + 1e-12)


# -- sign ---------------------------------------------------------------------------------------------------


@given(row=arrays(np.float32, 9, elements=numbers), bucket=st.sampled_from([None, 1, 4, 9, 20]))
@settings(max_examples=60, deadline=None)
def test_sign_sends_mean_magnitudes_and_leaves_out_what_lemma_8_says(row, bucket):
    (sent,) = Sign(bucket=bucket).client(row[None], jobs(1), STREAMS)
    for start in range(0, 9, bucket or 9):
        part, code = row[start : start + (bucket or 9)].astype(np.float64), sent[start : start + (bucket or 9)]
        scale = np.abs(part).mean()
        assert np.allclose(code, np.where(part < 0, -scale, scale), rtol=1e-6)
        left = np.square(part).sum() - np.abs(part).sum() ** 2 / len(part)
        assert np.isclose(np.square(code - part).sum(), left, rtol=1e-4, atol=1e-3)


# -- nothing left out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [TopK(share=1.0), RandomK(share=1.0), Sign(bucket=1), COMPRESSIONS.of("none")])
def test_with_everything_sent_the_update_stays_as_it_is(compression):
    rows = vectors(2, 4, 33)
    assert np.array_equal(compression.client(rows, jobs(4), STREAMS), rows)


def test_more_bits_are_nearer():
    rows = vectors(3, 4, 100)
    errors = [np.abs(Quantise(bits=bits).client(rows, jobs(4), STREAMS) - rows).max() for bits in (2, 4, 8, 16)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-3
