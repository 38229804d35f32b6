"""What a privacy metric is: the privacy columns of ``rounds.csv`` out of who was aggregated, after the last round."""

from typing import Any, Protocol

from simfl.registry import Registry

__all__ = ["PRIVACY", "COLUMNS", "Privacy"]

PRIVACY = Registry("privacy", default="multi_round")

COLUMNS = ("privacy_strong", "privacy_semi_strong", "privacy_weak_lower", "privacy_weak_upper")
"""The columns of ``rounds.csv`` that belong to this family."""


class Privacy(Protocol):
    """A frozen dataclass whose fields are its YAML keys."""

    def columns(self, P: Any) -> dict[str, list[float | int | None]]:
        """The values of :data:`COLUMNS` for every round; None = does not apply or was not evaluated.

        Args:
            P: weights of the clients in each aggregate, shape (J, N), zero rows for skipped rounds; dense or
                scipy-sparse.
        """
        ...
