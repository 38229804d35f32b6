"""How updates are added up without showing them: one file per protocol."""

from simfl.secagg import basecagg, lightsecagg, oblivious, pairwise_ratchet, plain, secagg, secagg_plus
from simfl.secagg.base import PROTOCOLS, Protocol

__all__ = [
    "PROTOCOLS",
    "Protocol",
    "basecagg",
    "lightsecagg",
    "oblivious",
    "pairwise_ratchet",
    "plain",
    "secagg",
    "secagg_plus",
]
