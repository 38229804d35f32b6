"""A bridge to Flower: any selection policy chooses the nodes of a real server (extra ``flower``)."""

from typing import TYPE_CHECKING, Any

from simfl.core.errors import MissingError

if TYPE_CHECKING:
    from simfl.flower.policy_strategy import PolicyStrategy

__all__ = ["PolicyStrategy"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'simfl.flower' has no attribute {name!r}")
    try:
        from simfl.flower.policy_strategy import PolicyStrategy
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        raise MissingError('PolicyStrategy needs the extra "flower": pip install "simfl[flower]"') from None
    return PolicyStrategy
