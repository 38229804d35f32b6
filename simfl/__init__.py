"""simfl: an agent-based discrete-event simulator of federated learning.

From Python: :func:`load` a scenario, :func:`run` it, :func:`sweep` its keys, :func:`compare` configurations,
:func:`search` for the best values, :func:`open` what they have left on disk, :func:`plot` or :func:`attack` it, and
:func:`verify` that it can be repeated; :func:`theory` says what is known before the first round. :func:`forecast` says
what a real deployment's log leads to, and :func:`advise` which policy should come next.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simfl.core.errors import StopRun
from simfl.core.version import VERSION as __version__

if TYPE_CHECKING:
    from simfl.api.functions import attack, compare, load, open, plot, run, search, sweep, verify
    from simfl.api.theory import theory
    from simfl.deployment import audit as audit
    from simfl.deployment import flower as flower
    from simfl.deployment.forecasting.log_functions import advise as advise
    from simfl.deployment.forecasting.log_functions import forecast as forecast

__all__ = ["StopRun", "__version__", "attack", "compare", "load", "open", "plot", "run", "search", "sweep", "theory",
           "verify"]  # fmt: skip

PACKAGES = ("plugins", "report")
"""Public packages, imported when they are asked for: ``simfl.plugins.selection``."""
OF_DEPLOYMENT = ("advise", "audit", "flower", "forecast")
"""What packages offer (entry points ``simfl.python``), and the package simfl.deployment where it is installed."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"simfl.api.{'theory' if name == 'theory' else 'functions'}"), name)
    if name in PACKAGES:
        return import_module(f"simfl.{name}")
    if name.startswith("_"):  # asked for by Python itself
        raise AttributeError(f"module 'simfl' has no attribute {name!r}")
    from simfl.core.registration.packages import lacking, python_object

    if (value := python_object(name)) is None:
        missing = name in OF_DEPLOYMENT
        raise AttributeError(lacking(f"simfl.{name}") if missing else f"module 'simfl' has no attribute {name!r}")
    return value


def __dir__() -> list[str]:
    from simfl.core.registration.packages import python_names

    names = (name for name in globals() if name.startswith("__"))
    return sorted({*names, *__all__, *PACKAGES, *python_names()})
