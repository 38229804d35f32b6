"""simfl: an agent-based discrete-event simulator of federated learning.

From Python: :func:`load` a scenario, :func:`run` it, :func:`sweep` its keys, :func:`compare` configurations,
:func:`search` for the best values, :func:`open` what they have left on disk, and :func:`verify` that it can be
repeated. :func:`forecast` says what a real deployment's log leads to, and :func:`advise` which policy should
come next.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simfl.core.errors import StopRun
from simfl.core.version import VERSION as __version__

if TYPE_CHECKING:
    from simfl.api.functions import advise, compare, forecast, load, open, run, search, sweep, verify

__all__ = ["StopRun", "__version__", "advise", "compare", "forecast", "load", "open", "run", "search", "sweep",
           "verify"]  # fmt: skip


PACKAGES = {"audit": "deployment.audit", "flower": "deployment.flower", "plugins": "plugins", "report": "report"}
"""Public packages, imported when they are asked for: ``simfl.audit.audit``."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("simfl.api.functions"), name)
    if name in PACKAGES:
        return import_module(f"simfl.{PACKAGES[name]}")
    raise AttributeError(f"module 'simfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *PACKAGES})
