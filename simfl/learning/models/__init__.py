"""Models: one file a family. torch is imported only when one is built."""

from simfl.learning.models.base import MODELS, Model

__all__ = ["MODELS", "Model"]
