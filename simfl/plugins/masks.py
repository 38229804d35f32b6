"""What protocols with masks are made of: a prime field, keys, a grid of whole numbers, costs."""

from simfl.secagg.crypto.field import Elements, Q, to_signed
from simfl.secagg.crypto.keys import (
    ELEMENT,
    KEY,
    ProtocolViolation,
    agree,
    derive,
    elements,
    public_key,
    secret,
    stretch_seed,
)
from simfl.secagg.crypto.quantise import Grid
from simfl.secagg.masked_protocol import FINEST, CryptoRates, MaskedProtocol, beyond, clipped_row

__all__ = [
    "CryptoRates", "ELEMENT", "Elements", "FINEST", "Grid", "KEY", "MaskedProtocol", "ProtocolViolation", "Q",
    "agree", "beyond", "clipped_row", "derive", "elements", "public_key", "secret", "stretch_seed", "to_signed",
]  # fmt: skip
