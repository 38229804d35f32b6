"""Compressed updates as real bytes, and back: that a message has as many bytes as is charged, and says all of it."""

from typing import Any

import numpy as np


def message(compression: dict[str, Any], entered: np.ndarray, read: np.ndarray, public: np.ndarray | None) -> bytes:
    """What a client puts on the wire.

    Args:
        compression: the scenario's, as plain data.
        entered: what was to be compressed, float32 (d,); scales are computed of it.
        read: what the server is to read, float32 (d,).
        public: the coordinates that everybody knows to be sent, int64 (k,), or None.
    """
    match compression["name"]:
        case "top_k":
            coded = _sparse(compression["share"], read)
        case "random_k":
            return read[public].tobytes()
        case "quantise" | "sign" as name:
            bits = compression["bits"] if name == "quantise" else 1
            parts = [_levels(name, bits, entered[cut], read[cut]) for cut in _cuts(len(read), compression["bucket"])]
            scales, codes = zip(*parts, strict=True)
            coded = np.concatenate(scales).tobytes() + _packed(np.concatenate(codes), bits)
        case _:
            coded = read.tobytes()
    return coded if len(coded) < 4 * len(read) else read.tobytes()


def decoded(compression: dict[str, Any], sent: bytes, d: int, public: np.ndarray | None) -> np.ndarray:
    """What the server reads of it, float32 (d,)."""
    name = compression["name"]
    read = np.zeros(d, dtype=np.float32)
    if name == "random_k":
        read[public] = np.frombuffer(sent, dtype=np.float32)
        return read
    if len(sent) == 4 * d:
        return np.frombuffer(sent, dtype=np.float32)
    if name == "top_k":
        k, bits = _k(compression["share"], d), max(d - 1, 0).bit_length()
        read[_unpacked(sent[4 * k :], bits, k)] = np.frombuffer(sent[: 4 * k], dtype=np.float32)
        return read
    cuts, bits = _cuts(d, compression["bucket"]), compression["bits"] if name == "quantise" else 1
    scales = np.frombuffer(sent[: 4 * len(cuts)], dtype=np.float32)
    codes = _unpacked(sent[4 * len(cuts) :], bits, d)
    signs, levels = np.where(codes & 1, np.float32(-1), np.float32(1)), codes >> 1
    for scale, cut in zip(scales, cuts, strict=True):
        read[cut] = signs[cut] * (scale * (levels[cut] / (2 ** (bits - 1) - 1)) if name == "quantise" else scale)
    return read


def _k(share: float, d: int) -> int:
    return int(np.ceil(round(share * d, 6)))


def _cuts(d: int, bucket: int | None) -> list[slice]:
    return [slice(i, min(d, i + (bucket or d))) for i in range(0, d, bucket or d)]


def _sparse(share: float, read: np.ndarray) -> bytes:
    d = len(read)
    there = np.flatnonzero(read)
    spare = np.setdiff1d(np.arange(d), there)[: _k(share, d) - len(there)]  # zeros fill up where fewer are not 0
    places = np.concatenate([there, spare])
    return read[places].tobytes() + _packed(places, max(d - 1, 0).bit_length())


def _levels(name: str, bits: int, entered: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide, signs = entered.astype(np.float64), np.signbit(read).astype(np.int64)
    if name == "sign":
        return np.array([np.abs(wide).mean()], dtype=np.float32), signs
    norm = np.float32(np.sqrt(np.square(wide).sum()))
    norm = np.nextafter(norm, np.float32(np.inf)) if norm < np.sqrt(np.square(wide).sum()) else norm
    levels = np.rint(np.abs(read) / norm * (2 ** (bits - 1) - 1)).astype(np.int64) if norm else np.zeros_like(signs)
    return np.array([norm], dtype=np.float32), signs + 2 * levels


def _packed(values: np.ndarray, bits: int) -> bytes:
    assert (values >> bits == 0).all()
    return np.packbits(values[:, None] >> np.arange(bits) & 1).tobytes()


def _unpacked(sent: bytes, bits: int, count: int) -> np.ndarray:
    flat = np.unpackbits(np.frombuffer(sent, dtype=np.uint8))[: bits * count].reshape(count, bits)
    return (flat.astype(np.int64) << np.arange(bits)).sum(axis=1)
