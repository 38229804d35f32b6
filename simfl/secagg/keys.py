"""Keys and what is made of them: agreements, derived keys, streams of field elements, sealed messages.

X25519 (RFC 7748), HKDF with SHA-256 (RFC 5869), ChaCha20 and its AEAD (RFC 8439), all of the package cryptography.
Every seed has 32 bytes.
"""

from functools import lru_cache

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from simfl.rng import Streams
from simfl.secagg.field import Elements, Q

__all__ = [
    "ELEMENT",
    "ID",
    "KEY",
    "TAG",
    "Refused",
    "agree",
    "derive",
    "elements",
    "opened",
    "public_key",
    "sealed",
    "secret",
    "stretched",
]

KEY, TAG, ID, ELEMENT = 32, 16, 4, 4
"""Bytes on the wire of a key, an AEAD's tag, a client's number and a field element."""

SEED = 32
WORDS = 1 << 15
"""Words of a stream that are made at a time."""


class Refused(Exception):
    """A client does not do what would expose somebody; or a message is not what it should be."""


def secret(streams: Streams, purpose: str, *key: int) -> bytes:
    """32 bytes that only their owner knows: they come from the run's stream of this address."""
    return streams(purpose, *key).bytes(SEED)


@lru_cache(maxsize=4096)
def _private(private: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(private)


def public_key(private: bytes) -> bytes:
    """The public half of an X25519 key."""
    return _private(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes) -> bytes:
    """What two clients share, 32 bytes.

    Raises:
        Refused: the other's key is a point of low order, with which anybody would know what is shared.
    """
    try:
        return _private(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise Refused(f"a public key is of no use: {error}") from None


def derive(shared: bytes, info: bytes) -> bytes:
    """A key of 32 bytes for one purpose."""
    return HKDF(algorithm=SHA256(), length=KEY, salt=None, info=info).derive(shared)


def elements(seed: bytes, count: int) -> Elements:
    """``count`` uniform field elements: the words of a ChaCha20 stream that are below q, in order.

    Args:
        seed: 32 bytes that are used for nothing else.
        count: how many.

    Raises:
        Refused: the seed has not 32 bytes.
    """
    found = np.zeros(count, dtype=np.int64)
    mix(found, seed, 1)
    return found


def mix(total: NDArray[np.int64], seed: bytes, sign: int) -> None:
    """Adds :func:`elements` to whole numbers in place, or subtracts them, without reducing modulo q.

    Args:
        total: (count,); room for 2^31 times that.
        seed: 32 bytes.
        sign: 1 or -1.
    """
    if len(seed) != SEED:
        raise Refused(f"a seed has {len(seed)} bytes instead of {SEED}")
    stream, have = Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor(), 0
    put = np.add if sign > 0 else np.subtract
    while have < len(total):
        words = below(np.frombuffer(stream.update(bytes(4 * min(WORDS, len(total) - have))), dtype="<u4"))
        part = total[have : have + len(words)]
        put(part, words, out=part)
        have += len(words)


def stretched(seed: bytes, count: int) -> tuple[bytes, Elements]:
    """Another seed and ``count`` uniform field elements, of which neither tells anything of the other.

    Args:
        seed: 32 bytes that are used for nothing else.
        count: how many elements.
    """
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor()
    following, words = stream.update(bytes(SEED)), below(np.frombuffer(stream.update(bytes(4 * count)), dtype="<u4"))
    while len(words) < count:
        more = below(np.frombuffer(stream.update(bytes(4 * (count - len(words)))), dtype="<u4"))
        words = np.concatenate([words, more])
    return following, words.astype(np.int64)


def below(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Those of 32-bit words that are field elements; five in 2^32 are not."""
    return words if not len(words) or words.max() < Q else words[words < Q]


def sealed(key: bytes, message: bytes, about: bytes) -> bytes:
    """A message that only who has the key can read or make; 16 bytes longer. A key seals one message.

    Args:
        key: 32 bytes, of one pair, direction and aggregation.
        message: what is hidden.
        about: what is not hidden, but cannot be changed either.
    """
    return ChaCha20Poly1305(key).encrypt(bytes(12), message, about)


def opened(key: bytes, message: bytes, about: bytes) -> bytes:
    """What :func:`sealed` was given.

    Raises:
        Refused: key, message or ``about`` are not those of then.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), message, about)
    except InvalidTag:
        raise Refused("a sealed message has been changed") from None
