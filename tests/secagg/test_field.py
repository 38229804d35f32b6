"""Arithmetic modulo 2^32 - 5, shares, keys and whole numbers, held against Python's integers and published vectors."""

import numpy as np
import pytest
from scipy.stats import chi2, hypergeom

from simfl.secagg.crypto import keys, shamir
from simfl.secagg.crypto.field import Q, inverse, lagrange, matmul, mul, reduce_whole, spread, to_signed, vandermonde
from simfl.secagg.crypto.keys import (
    ProtocolViolation,
    agree,
    below,
    derive,
    elements,
    public_key,
    seal,
    sum_masked,
    unseal,
)
from simfl.secagg.crypto.quantise import HALF, Grid, grid, round_stochastically
from simfl.secagg.neighbours import circle, degree_and_threshold

EXTREMES = np.array([0, 1, 2, 2**16 - 1, 2**16, 2**31, Q // 2, Q // 2 + 1, Q - 2, Q - 1])


def test_products_of_elements_are_those_of_whole_numbers():
    found = mul(EXTREMES[:, None], EXTREMES)
    assert [[int(a) * int(b) % Q for b in EXTREMES] for a in EXTREMES] == found.tolist()


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 31, 5), (2, 32, 7), (4, 33, 3), (5, 100, 9), (2, 1025, 3), (2, 65, 40_000)]
)
@pytest.mark.parametrize("largest", [None, (Q - 1, Q - 1), (2**31 - 2**15, Q // 2), (2**31 + 2**15, Q // 2 + 1)])
def test_matrix_products_are_exact(shape, largest):
    """With elements of the largest limbs everywhere the partial sums are as large as they get."""
    m, k, n = shape
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, Q, (m, k)), rng.integers(0, Q, (k, n))
    if largest:
        a[:], b[:] = largest
    columns = range(n) if n < 100 else (0, 1, 4095, 4096, n - 1)
    found = matmul(a, b)
    for i in range(m):
        for j in columns:
            assert found[i, j] == sum(int(x) * int(y) for x, y in zip(a[i], b[:, j], strict=True)) % Q


def test_matrices_are_inverted():
    rng = np.random.default_rng(1)
    for n in (1, 2, 5, 40):
        matrix = rng.integers(0, Q, (n, n))
        assert np.array_equal(matmul(inverse(matrix), matrix), np.eye(n, dtype=np.int64))
    swapped = np.array([[0, 1], [1, 0]])
    assert np.array_equal(inverse(swapped), swapped)
    with pytest.raises(ZeroDivisionError):
        inverse(np.array([[1, 2], [2, 4]]))


def test_polynomials_are_interpolated():
    rng = np.random.default_rng(2)
    for degree in (0, 1, 6, 12):
        coefficients = rng.integers(0, Q, (degree + 1, 3))
        points = rng.choice(10**6, degree + 3, replace=False) + 1
        values = matmul(vandermonde(points, degree + 1), coefficients)
        few = slice(0, degree + 1)
        assert np.array_equal(matmul(lagrange(points[few])[None], values[few])[0], coefficients[0])
        assert not matmul(spread(points)[None], values).any()
    with pytest.raises(ZeroDivisionError):
        lagrange(np.array([3, 4, 3]))


def test_whole_numbers_are_reduced():
    for numbers in ([], [-Q, -1, 0, Q - 1, Q, 2 * Q - 1], [-Q - 1, 5], [2 * Q, -3], [2**62, -(2**62)]):
        assert reduce_whole(np.array(numbers, dtype=np.int64)).tolist() == [number % Q for number in numbers]


def test_signed_numbers_come_back():
    numbers = np.array([0, 1, -1, HALF, -HALF])
    assert to_signed(numbers % Q).tolist() == numbers.tolist()


# -- shares ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret", [bytes(32), b"\xff" * 32, bytes(range(32)), b"\x80" + bytes(31), bytes(31) + b"\x80"]
)
@pytest.mark.parametrize("holders, threshold", [(1, 1), (5, 1), (5, 3), (5, 5)])
def test_any_t_shares_give_the_secret_back(secret, holders, threshold):
    points = np.arange(holders) + 1
    made = shamir.shares([secret, bytes(32)], points, threshold, b"\x01" * 32)
    assert made.shape == (holders, 2, 9) and (made >= 0).all() and (made < Q).all()
    for first in range(holders - threshold + 1):
        some = slice(first, first + threshold)
        assert shamir.combine_shares(made[some], points[some], threshold) == [secret, bytes(32)]
    assert shamir.combine_shares(made, points, threshold) == [secret, bytes(32)]
    with pytest.raises(ProtocolViolation, match="needed"):
        shamir.combine_shares(made[: threshold - 1], points[: threshold - 1], threshold)


def test_a_wrong_share_is_noticed_by_a_spare_one():
    points = np.arange(6) + 1
    for wrong in range(6):
        made = shamir.shares([bytes(range(32))], points, 4, b"\x02" * 32)
        made[wrong, 0, 3] = (made[wrong, 0, 3] + 1) % Q
        with pytest.raises(ProtocolViolation, match="contradict"):
            shamir.combine_shares(made, points, 4)


@pytest.mark.parametrize("points", [[0, 1, 2], [1, 1, 2]])
def test_no_share_lies_at_0_or_twice_at_one_place(points):
    with pytest.raises(ProtocolViolation):
        shamir.shares([bytes(32)], np.array(points), 2, b"\x03" * 32)


def buckets(values, count=16):
    return np.bincount((values.ravel() * count // Q).astype(np.int64), minlength=count)


def alike(one, other):
    """p-value of two histograms' being draws of one distribution; cells that nothing falls into say nothing."""
    one, other = (counts[one + other > 0] for counts in (one, other))
    both = one + other
    expected = [both * counts.sum() / both.sum() for counts in (one, other)]
    found = sum(((counts - mean) ** 2 / mean).sum() for counts, mean in zip((one, other), expected, strict=True))
    return chi2.sf(found, len(one) - 1)


def even(counts):
    mean = counts.sum() / len(counts)
    return chi2.sf(((counts - mean) ** 2 / mean).sum(), len(counts) - 1)


def test_fewer_than_t_shares_of_two_secrets_look_alike():
    found = []
    for secret in (bytes(32), b"\xff" * 32):
        seen = [
            shamir.shares([secret], np.arange(4) + 1, 3, i.to_bytes(31, "big") + secret[:1])[:2] for i in range(1500)
        ]
        found.append(buckets(np.array(seen)))
    assert alike(*found) > 0.001 and min(map(even, found)) > 0.001


# -- published vectors ----------------------------------------------------------------------------------


def test_x25519():
    """RFC 7748, 5.2."""
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert agree(scalar, point).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    k = u = bytes([9]) + bytes(31)
    for i in range(1000):
        k, u = agree(k, u), k
        if i == 0:
            assert k.hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    assert k.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"
    private = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f92ebc099772af8f9a4ee2cbeda")
    assert public_key(private) == agree(private, bytes([9]) + bytes(31)), "9 is the base point"


def test_what_both_ends_agree_on_is_computed_once(monkeypatch):
    """Either end first; and once it is forgotten, again."""
    one, other, exchanges = b"\x31" * 32, b"\x32" * 32, []

    class Counting(keys.X25519PublicKey):
        @staticmethod
        def from_public_bytes(public):
            exchanges.append(public)
            return real.from_public_bytes(public)

    real = keys.X25519PublicKey
    monkeypatch.setattr(keys, "X25519PublicKey", Counting)
    keys.forget()
    shared = agree(one, public_key(other))
    assert agree(other, public_key(one)) == shared != agree(one, public_key(one))
    assert len(exchanges) == 2
    keys.forget()
    assert agree(other, public_key(one)) == shared and len(exchanges) == 3


LOW_ORDER = [
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.mark.parametrize("point", LOW_ORDER)
def test_points_of_low_order_are_refused(point):
    with pytest.raises(ProtocolViolation, match="of no use"):
        agree(b"\x05" * 32, bytes.fromhex(point))


def test_hkdf():
    """RFC 5869, A.1, through the library that derive() uses; and derive() is HKDF without salt (A.3's extraction)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    made = HKDF(SHA256(), 42, bytes(range(13)), bytes(range(0xF0, 0xFA))).derive(b"\x0b" * 22)
    assert made.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
    assert derive(b"\x0b" * 22, b"").hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"


def test_chacha20_stream():
    """RFC 8439, A.1, test vectors 1 and 2: key, nonce and counter 0, then counter 1; in words below q."""
    stream = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    words = np.frombuffer(stream, dtype="<u4")
    assert words.max() < Q and elements(bytes(32), 32).tolist() == words.tolist()


SUNSCREEN = (
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    b"sunscreen would be it."
)  # fmt: skip


def test_chacha20_cipher():
    """RFC 8439, 2.4.2, through the library that the streams come from."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    counter_and_nonce = bytes([1]) + bytes(10) + b"\x4a" + bytes(4)
    made = Cipher(algorithms.ChaCha20(bytes(range(32)), counter_and_nonce), None).encryptor().update(SUNSCREEN)
    assert made.hex() == (
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )


def test_aead():
    """RFC 8439, 2.8.2."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    box = ChaCha20Poly1305(bytes(range(0x80, 0xA0)))
    about = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    assert box.encrypt(bytes.fromhex("070000004041424344454647"), SUNSCREEN, about).hex() == (
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
        "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
        "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        "3ff4def08e4b7a9de576d26586cec64b6116"
        "1ae10b594f09e26a7e902ecbd0600691"
    )
    hidden = seal(bytes(32), b"a share", b"1 to 2")
    assert len(hidden) == len(b"a share") + keys.TAG and unseal(bytes(32), hidden, b"1 to 2") == b"a share"
    for key, message, about in (
        (b"\1" * 32, hidden, b"1 to 2"),
        (bytes(32), hidden, b"2 to 1"),
        (bytes(32), hidden[:-1] + bytes([hidden[-1] ^ 1]), b"1 to 2"),
    ):
        with pytest.raises(ProtocolViolation):
            unseal(key, message, about)


def test_words_that_are_no_elements_are_left_out():
    words = np.array([0, Q - 1, Q, Q + 1, 2**32 - 1, 7], dtype=np.uint32)
    assert below(words).tolist() == [0, Q - 1, 7]


def test_a_stream_goes_on_where_words_were_left_out(monkeypatch):
    """With half of all words refused, the stream still gives as many as are asked for: the others, in order."""
    whole = elements(b"\x09" * 32, 4000)
    monkeypatch.setattr(keys, "below", lambda words: words[words < 2**31])
    assert elements(b"\x09" * 32, 1000).tolist() == whole[whole < 2**31][:1000].tolist()


def test_streams_are_added_and_taken_away():
    """More of them than a byte can count, and vectors of several pieces."""
    rng = np.random.default_rng(6)
    for count, streams in ((3, 300), (keys.WORDS + 5, 3)):
        vectors = [rng.integers(-(2**40), 2**40, count) for _ in range(3)]
        seeds = [i.to_bytes(32, "little") for i in range(streams)]
        made = [elements(seed, count) for seed in seeds]
        for cut in (0, 1, streams // 2, streams):
            exact = sum(vectors) + sum(made[:cut], np.zeros(count, dtype=np.int64)) - sum(made[cut:], 0)
            assert np.array_equal(sum_masked(vectors, seeds[:cut], seeds[cut:]), exact % Q)


def test_sums_of_the_largest_words_are_those_of_whole_numbers(monkeypatch):
    monkeypatch.setattr(keys._Stream, "read", lambda self, count, room: np.full(count, Q - 1, dtype=np.uint32))
    start = np.array([0, 1, Q - 1, Q // 2])
    for times in (1, 2, 126, 127, 128, 300):
        some = [bytes(32)] * times
        assert sum_masked([start], some, []).tolist() == ((start + times * (Q - 1)) % Q).tolist()
        assert sum_masked([start], [], some).tolist() == ((start - times * (Q - 1)) % Q).tolist()
        assert np.array_equal(sum_masked([start], some, some), start)


def test_streams_are_even_and_long():
    assert even(buckets(elements(b"\x0a" * 32, 300_000))) > 0.001
    assert len(elements(b"\x0a" * 32, 0)) == 0
    with pytest.raises(ProtocolViolation, match="instead of 32"):
        elements(b"\x0a" * 4, 10)


# -- whole numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [0.01, 1.0, 4.0, 1000.0])
@pytest.mark.parametrize("weight", [1, 7, 12, 60_000, 10**6])
def test_no_sum_can_wrap_and_the_grid_is_as_fine_as_it_can_be(clip, weight):
    found = grid(clip, weight)
    if found is None:
        assert weight * (np.floor(clip) + 1) > HALF
        return
    most = np.ceil(clip * found.scale)
    assert weight * most <= HALF < weight * (np.floor(2 * clip * found.scale) + 1)
    extreme = round_stochastically(np.full(5, -1e30, dtype=np.float32), found, np.random.default_rng(0))
    assert (np.abs(extreme.values) <= most).all() and extreme.clipped == 5


def test_rounding_is_unbiased_and_as_exact_as_promised():
    """E|Q(x) - x|^2 = d / (6 c^2) for fractions that are uniform."""
    x, on = np.random.default_rng(3).uniform(-1, 1, 200_000), Grid(64.0, 4.0)
    error = round_stochastically(x, on, np.random.default_rng(4)).values / on.scale - x
    assert abs(error.mean()) < 4 / 64 / np.sqrt(6 * len(x))
    assert (error**2).mean() == pytest.approx(1 / (6 * 64**2), rel=0.02)
    assert round_stochastically(np.array([0.5, -0.25]), on, np.random.default_rng(5)).values.tolist() == [32, -16]


def test_what_is_no_number_counts_as_clipped():
    found = round_stochastically(np.array([np.nan, np.inf, -np.inf, 1.0]), Grid(4.0, 2.0), np.random.default_rng(0))
    assert found.values.tolist() == [0, 8, -8, 4] and found.clipped == 3


# -- neighbours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "corrupted, dropped, n, expected",
    [
        (0.05, 0.05, 100, (22, 6)), (0.05, 0.05, 1000, (34, 18)), (0.05, 0.05, 10_000, (38, 21)),
        (0.1, 0.1, 100, (32, 11)), (0.1, 0.1, 1000, (52, 28)), (0.1, 0.1, 10_000, (60, 32)),
        (0.2, 0.05, 100, (38, 21)), (0.2, 0.05, 1000, (58, 39)), (0.2, 0.05, 10_000, (68, 46)),
        (1 / 3, 1 / 3, 100, None), (1 / 3, 1 / 3, 1000, (318, 163)),
    ],
)  # fmt: skip
def test_neighbours_and_threshold(corrupted, dropped, n, expected):
    assert degree_and_threshold(n, corrupted, dropped, 40.0, 30.0) == expected
    if expected:
        k, t = expected
        bad = int(corrupted * n + 1e-9)
        assert n * hypergeom.sf(t - 1, n - 1, bad, k) <= 2.0**-40 < n * hypergeom.sf(t - 2, n - 1, bad, k)


@pytest.mark.parametrize("n, k", [(2, 1), (5, 2), (7, 4), (7, 6), (12, 4), (9, 20)])
def test_circles(n, k):
    import networkx

    rng = np.random.default_rng(n)
    around = circle(n, k, rng)
    graph = networkx.Graph([(u, int(v)) for u in range(n) for v in around.of(u)])
    assert all(len(around.of(u)) == min(k, n - 1) == around.degree == graph.degree(u) for u in range(n))
    for _ in range(60):
        members = rng.random(n) < 0.5
        inside = set(np.flatnonzero(members).tolist())
        assert around.counts(members).tolist() == [len(inside & set(around.of(u).tolist())) for u in range(n)]
        assert around.is_connected(members) == (bool(inside) and networkx.is_connected(graph.subgraph(inside)))
