"""Keys and what is made of them: agreements, derived keys, streams of field elements, sealed messages.

X25519 (RFC 7748), P-256 (FIPS 186-4), HKDF with SHA-256 (RFC 5869), ChaCha20 and its AEAD (RFC 8439), all of the
package cryptography. Every seed has 32 bytes.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.secagg.crypto.field import Elements, Q, reduce_whole

KEY, TAG, ID, ELEMENT = 32, 16, 4, 4
"""Bytes on the wire of a key, an AEAD's tag, a client's number and a field element."""

SEED = 32
Point = tuple[int, int]
WORDS = 1 << 15
"""Words of a stream that are made at a time."""
ZEROS = memoryview(bytes(4 * WORDS))
TURNS = 127
"""Streams that are added up before a byte that counts their turns could be full."""


class ProtocolViolation(Exception):
    """A client does not do what would expose somebody; or a message is not what it should be."""


def secret(streams: Streams, purpose: str, *key: int) -> bytes:
    """32 bytes that only their owner knows: they come from the run's stream of this address."""
    return streams(purpose, *key).bytes(SEED)


@lru_cache(maxsize=4096)
def _private(private: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(private)


@lru_cache(maxsize=4096)
def public_key(private: bytes) -> bytes:
    """The public half of an X25519 key."""
    return _private(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes) -> bytes:
    """What two clients share, 32 bytes. Both ends come to the same, so that a simulation of both computes it once.

    Raises:
        ProtocolViolation: the other's key is a point of low order, with which anybody would know what is shared.
    """
    cached = _agreement_cache(*sorted((public_key(private), public)))
    if not cached:
        try:
            cached.append(_private(private).exchange(X25519PublicKey.from_public_bytes(public)))
        except ValueError as error:
            raise ProtocolViolation(f"a public key is of no use: {error}") from None
    return cached[0]


@lru_cache(maxsize=1 << 15)
def _agreement_cache(one: bytes, other: bytes) -> list[bytes]:
    """Where the agreement of two public keys is kept."""
    return []


@lru_cache(maxsize=1 << 15)
def derive(shared: bytes, info: bytes) -> bytes:
    """A key of 32 bytes for one purpose; both ends come to it, and a simulation of both computes it once."""
    return HKDF(algorithm=SHA256(), length=KEY, salt=None, info=info).derive(shared)


def base_multiple(scalar: int) -> Point:
    """A multiple, not 0, of the base point of P-256."""
    numbers = derive_private_key(scalar, SECP256R1()).public_key().public_numbers()
    return numbers.x, numbers.y


def channel(private: bytes, public: bytes, label: str) -> bytes:
    """The key of what the label says, between two clients; both ends come to it."""
    return derive(agree(private, public), label.encode())


def forget() -> None:
    """Forgets what was agreed on and derived, so that the next time it is computed: for whoever measures."""
    _agreement_cache.cache_clear()
    derive.cache_clear()


def elements(seed: bytes, count: int) -> Elements:
    """``count`` uniform field elements: the words of a ChaCha20 stream that are below q, in order.

    Raises:
        ProtocolViolation: the seed, which is used for nothing else, has not 32 bytes.
    """
    return sum_masked([np.zeros(count, dtype=np.int64)], [seed], [])


def sum_masked(vectors: Sequence[NDArray[np.int64]], plus: Iterable[bytes], minus: Iterable[bytes]) -> Elements:
    """The sum of vectors and of the :func:`elements` of seeds, minus those of other seeds, modulo q.

    The vectors are of whole numbers, at least one, (d,) each; their sum must fit into 64 bits.

    Raises:
        ProtocolViolation: a seed has not 32 bytes.
    """
    seeds = [*((seed, True) for seed in plus), *((seed, False) for seed in minus)]
    for first in range(0, len(seeds) or 1, TURNS):
        vectors = [_sum_streams(vectors, [(_Stream(seed), added) for seed, added in seeds[first : first + TURNS]])]
    return vectors[0]


def _sum_streams(vectors: Sequence[NDArray[np.int64]], streams: Sequence[tuple["_Stream", bool]]) -> Elements:
    """The same with at most 127 streams, piece by piece, which stay in the processor's cache."""
    total = np.empty(len(vectors[0]), dtype=np.int64)
    buffer = bytearray(4 * min(WORDS, len(total)))
    for begin in range(0, len(total), WORDS):
        place = slice(begin, begin + WORDS)
        total[place] = _add_streams(
            reduce_whole(reduce(np.add, (vector[place] for vector in vectors))), streams, buffer
        )
    return total


def _add_streams(total: Elements, streams: Sequence[tuple["_Stream", bool]], buffer: bytearray) -> Elements:
    """Sums of four bytes and, in one more, how often they pass 2^32, which is 5 modulo q: faster than eight bytes."""
    low, turns = total.astype(np.uint32), np.zeros(len(total), dtype=np.int8)
    for stream, added in streams:
        words = stream.read(len(low), buffer)
        if added:
            low += words
            turns += (low < words).view(np.int8)
        else:
            turns -= (low < words).view(np.int8)
            low -= words
    return reduce_whole(low + 5 * turns.astype(np.int64))


class _Stream:
    """The :func:`elements` of a seed, one after the other."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED:
            raise ProtocolViolation(f"a seed has {len(seed)} bytes instead of {SEED}")
        self.cipher = Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor()

    def read(self, count: int, buffer: bytearray) -> NDArray[np.uint32]:
        """The next ones, (count,); they lie in the room until it is used again."""
        self.cipher.update_into(ZEROS[: 4 * count], buffer)
        words = below(np.frombuffer(buffer, dtype="<u4", count=count))
        missing = count - len(words)
        return np.concatenate([words, self.read(missing, bytearray(4 * missing))]) if missing else words


def stretch_seed(seed: bytes, count: int) -> tuple[bytes, Elements]:
    """Of a seed of 32 bytes another and ``count`` uniform field elements, neither of which tells of the other."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor()
    following, words = stream.update(bytes(SEED)), below(np.frombuffer(stream.update(bytes(4 * count)), dtype="<u4"))
    while len(words) < count:
        more = below(np.frombuffer(stream.update(bytes(4 * (count - len(words)))), dtype="<u4"))
        words = np.concatenate([words, more])
    return following, words.astype(np.int64)


def below(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Those of 32-bit words that are field elements; five in 2^32 are not."""
    return words if not len(words) or words.max() < Q else words[words < Q]


def seal(key: bytes, message: bytes, about: bytes) -> bytes:
    """A message that only who has the key can read or make; 16 bytes longer.

    A key of 32 bytes, of one pair, direction and aggregation, seals one message. What it is ``about`` is not hidden,
    but cannot be changed either.
    """
    return ChaCha20Poly1305(key).encrypt(bytes(12), message, about)


def unseal(key: bytes, message: bytes, about: bytes) -> bytes:
    """What :func:`seal` was given.

    Raises:
        ProtocolViolation: key, message or ``about`` are not those of then.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), message, about)
    except InvalidTag:
        raise ProtocolViolation("a sealed message has been changed") from None
