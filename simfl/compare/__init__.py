"""Choices side by side under the same draws: means, paired differences, their confidence intervals."""

import sys

from simfl.api import CallableModule

sys.modules[__name__].__class__ = CallableModule
