"""A bridge to Flower: any selection policy chooses the nodes of a real server (extra ``flower``)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simfl.plugins import MissingError

if TYPE_CHECKING:
    from simfl.deployment.flower.policy_strategy import PolicyStrategy
    from simfl.deployment.flower.secure_workflow import PolicySecAgg

__all__ = ["PolicySecAgg", "PolicyStrategy"]

MODULES = {"PolicyStrategy": "policy_strategy", "PolicySecAgg": "secure_workflow"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'simfl.deployment.flower' has no attribute {name!r}")
    try:
        module = import_module(f"simfl.deployment.flower.{MODULES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        raise MissingError(f'{name} needs the extra "flower": pip install "simfl[flower]"') from None
    return vars(module)[name]
