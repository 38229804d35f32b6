"""Multi-round privacy: what the server can learn by combining the aggregates of many rounds."""

from simfl.privacy.base import PRIVACY, Privacy

__all__ = ["PRIVACY", "Privacy"]
