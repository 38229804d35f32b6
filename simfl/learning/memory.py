"""The arrays that a client variant keeps: the server's, and each client's own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.types import Arrays
from simfl.variant import ClientVariant, Done

__all__ = ["Memory"]


class Memory:
    """Keeps a variant's arrays between jobs; a client that has never finished a job takes no room.

    What clients upload for the server's arrays reaches them when a job of a later version is trained, so that all jobs
    of one version meet the same ones.

    Args:
        variant: whose arrays they are.
        clients: number of all clients, N.
        common: the server's arrays before the first job.
    """

    def __init__(self, variant: ClientVariant, clients: int, common: Arrays) -> None:
        self.variant, self.clients, self.common = variant, clients, common
        self._own: dict[int, Arrays] = {}
        self._reported: Arrays = {}
        self._version = -1

    def own(self, client: int) -> Mapping[str, NDArray[Any]]:
        """A client's own arrays."""
        return self._own.get(client, {})

    def begin(self, version: int) -> None:
        """Jobs of this version are about to train."""
        if version > self._version:
            if self._reported:
                self.common = self.variant.absorb(self.common, self._reported, self.clients)
                self._reported = {}
            self._version = version

    def end(self, client: int, done: Done) -> None:
        """A client's work counts: its arrays are kept."""
        if done.own is not None:
            self._own[client] = done.own

    def collect(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Adds up arrays that clients have uploaded."""
        for name, value in arrays.items():
            if name in self._reported:
                self._reported[name] += value
            else:
                self._reported[name] = np.array(value, dtype=np.float64)

    def keep(self, client: int, own: Arrays) -> None:
        """A client's arrays from now on."""
        self._own[client] = own

    def state(self) -> Arrays:
        """For checkpoints."""
        named: dict[str, dict[int, NDArray[Any]]] = {}
        for client in sorted(self._own):
            for name, value in self._own[client].items():
                named.setdefault(name, {})[client] = value
        return {
            "version": np.int64(self._version),
            **{f"common/{name}": value for name, value in self.common.items()},
            **{f"reported/{name}": value.copy() for name, value in self._reported.items()},
            **{f"holders/{name}": np.array(list(values), dtype=np.int64) for name, values in named.items()},
            **{f"own/{name}": np.stack(list(values.values())) for name, values in named.items()},
        }

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""

        def under(part: str) -> Arrays:
            return {key[len(part) :]: value for key, value in state.items() if key.startswith(part)}

        self._version = int(state["version"])
        self.common = {name: np.array(value) for name, value in under("common/").items()}
        self._reported = {name: np.array(value) for name, value in under("reported/").items()}
        self._own = {}
        holders = under("holders/")
        for name, values in under("own/").items():
            for client, value in zip(holders[name].tolist(), np.array(values), strict=True):
                self._own.setdefault(client, {})[name] = value
