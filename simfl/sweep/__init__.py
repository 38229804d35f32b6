"""Many runs of one scenario: a grid of values, played side by side, resumable, with one table."""

import sys

from simfl.api import CallableModule

sys.modules[__name__].__class__ = CallableModule
