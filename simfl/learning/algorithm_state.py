"""The arrays that a client algorithm keeps: the server's, and each client's own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import ClientAlgorithm
from simfl.clients.local_values import LocalResult
from simfl.core.types import Arrays


def add_arrays(total: Arrays, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Adds arrays to those of the same names, in float64."""
    for name, value in arrays.items():
        if name in total:
            total[name] += value
        else:
            total[name] = np.array(value, dtype=np.float64)


class AlgorithmState:
    """Keeps an algorithm's arrays between jobs, besides ``common`` ones of the server; a client that has never finished
    a job takes no room.

    What clients upload for the server's arrays reaches them when a job of a later version is trained, so that all jobs
    of one version meet the same ones.
    """

    def __init__(self, algorithm: ClientAlgorithm, clients: int, common: Arrays) -> None:
        self.algorithm, self.clients, self.common = algorithm, clients, common
        self._clients: dict[int, Arrays] = {}
        self._reported: Arrays = {}
        self._version = -1

    def client(self, client: int) -> Mapping[str, NDArray[Any]]:
        """A client's state."""
        return self._clients.get(client, {})

    def begin_version(self, version: int) -> None:
        """Jobs of this version are about to train."""
        if version > self._version:
            if self._reported:
                self.common = self.algorithm.update_common(self.common, self._reported, self.clients)
                self._reported = {}
            self._version = version

    def keep_result(self, client: int, result: LocalResult) -> None:
        """Keeps the state that a client's work ends with."""
        if result.state is not None:
            self._clients[client] = result.state

    def add_uploads(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Adds up arrays that clients have uploaded."""
        add_arrays(self._reported, arrays)

    def keep(self, client: int, state: Arrays) -> None:
        """A client's arrays from now on."""
        self._clients[client] = state

    def state(self) -> Arrays:
        """For checkpoints."""
        named: dict[str, dict[int, NDArray[Any]]] = {}
        for client in sorted(self._clients):
            for name, value in self._clients[client].items():
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
        self._clients = {}
        holders, arrays = under("holders/"), under("own/")
        for name in {**holders, **arrays}:  # in a sound checkpoint they are the same
            for client, value in zip(holders[name].tolist(), np.array(arrays[name]), strict=True):
                self._clients.setdefault(client, {})[name] = value
