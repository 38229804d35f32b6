"""Multi-round privacy: what the server can learn by combining the aggregates of many rounds."""

from simfl.privacy import guarantees, none, pld, rdp, stages, zero_out  # noqa: F401  (registers the plugins)
from simfl.privacy.base import PRIVACY, Privacy
from simfl.privacy.metrics import MultiRound, multi_round
from simfl.privacy.study import Trace, trace
from simfl.privacy.witness import Witness

__all__ = ["PRIVACY", "Privacy", "MultiRound", "multi_round", "Trace", "trace", "Witness"]
