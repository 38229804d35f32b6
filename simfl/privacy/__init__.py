"""What the server can learn over many rounds."""

from simfl.privacy import none
from simfl.privacy.base import PRIVACY

__all__ = ["PRIVACY", "none"]
