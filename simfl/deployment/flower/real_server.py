"""What a strategy and a secure workflow of Flower share: who is there, who is selected, the log and the model."""

import io
import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any
from zipfile import BadZipFile

import numpy as np
from flwr.app import Array, ArrayRecord, MessageType
from flwr.serverapp import Grid

from simfl.api.files import read_regular, write_atomically
from simfl.deployment.flower.identity import Identity
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.deployment.flower.participation_file import Node
from simfl.plugins import SimflError

_log = logging.getLogger("flwr")


class Deployment:
    """A policy on a real server.

    Args:
        policy, nodes, seed, log, floor, past, past_options: as for
            :class:`simfl.deployment.flower.node_selection.NodeSelection`; nodes are devices, and paths absolute.
        identity: how a device is recognised when its node has another id: ``reported``, each client says which device
            it is (``ConfigRecord({"device": ...})`` in answer to a query); ``authenticated``, SuperNodes have
            registered keys; a mapping from ids to devices; or ``node_id``, if devices that restart may count as others.
        skipped_round_s: real seconds to wait before the round after a skipped one.
        query: type of the message with which clients are asked who they are.

    Attributes:
        selection: who has taken part, and ``stopped``: why training has ended, if the floor was reached.

    Raises:
        SimflError: one of them cannot be.
    """

    def __init__(
        self, policy: str, nodes: int | list[Node], *, seed: int = 0, identity: str | Mapping[int, str] = "",
        log: Path | str | None = None, floor: str | tuple[str, ...] = (), skipped_round_s: float = 10.0,
        past: Path | str | None = None, past_options: Mapping[str, Any] | None = None, query: str = MessageType.QUERY,
    ) -> None:  # fmt: skip
        for what, path in (("log", log), ("past", past)):
            if path is not None and not Path(path).is_absolute():
                raise SimflError(f"{what}: {str(path)!r} is relative to where Flower happens to start the server; give "
                                 f"an absolute path, e.g. {str(Path.home() / path)!r}")  # fmt: skip
        if log is not None and Path(log).suffix == ".npz":
            raise SimflError(f"log: {log}: the last model is kept in a file of this name; give another, e.g. "
                             f"{Path(log).with_suffix('.csv').name}")  # fmt: skip
        self.identity, self.skipped_round_s = Identity(identity, query), skipped_round_s
        self.selection = NodeSelection(policy, nodes, seed, log, floor, past, past_options)
        if self.selection.log and self.selection.log.taken_out:
            _log.warning(self.selection.log.taken_out)
        self.model = None if log is None else Path(log).with_suffix(".npz")
        self.device_at: dict[int, Node] = {}

    def choose(self, grid: Grid) -> list[int]:
        """The ids of the nodes that train in this round; none if it is skipped, which is waited for and said."""
        before = self.selection.stopped
        here = self.identity.devices(grid)
        nodes = [here[device] for device in self.selection.select(here)]
        self.device_at = {node: device for device, node in here.items()}
        self.identity.warn(here, self.selection.unknown)
        if (stopped := self.selection.stopped) and not before:
            _log.warning("no further training: %s", stopped)
        elif not nodes and not stopped:
            name, known = self.selection.policy.name, len(here) - len(self.selection.unknown)
            _log.warning("round %s of the participation log is skipped: no available row of %s among %s of %s nodes",
                         self.selection.round, name, known, self.selection.clients)  # fmt: skip
            Event().wait(self.skipped_round_s)
        return nodes

    def keep(self, arrays: ArrayRecord, number: int) -> None:
        """Keeps the model of a round's sum beside the log."""
        if self.model is None:
            return
        file = io.BytesIO()
        values = {f"array_{place}": array.numpy() for place, array in enumerate(arrays.values())}
        np.savez(file, round=number, names=np.array([*arrays.keys()]), **values)
        write_atomically(self.model, file.getvalue())

    def resume(self, initial: ArrayRecord) -> ArrayRecord:
        """The model of the last sum, the initial one where there is none; which one it is, is said.

        Raises:
            SimflError: the file is no model of the initial one's arrays.
        """
        if not self.selection.history:
            return initial
        entries = self.selection.log.entries if self.selection.log else []
        last_round, path = entries[-1].round if entries else -1, self.model
        _log.info("round 1 is round %s of the participation log", self.selection.round)
        if path is None or not path.exists():
            _log.warning("rounds of before count, and their model is not here: training begins with the initial one")
            return initial
        try:
            with np.load(io.BytesIO(read_regular(path)), allow_pickle=False) as file:
                names, number = file["names"].tolist(), int(file["round"])
                arrays = {name: file[f"array_{place}"] for place, name in enumerate(names)}
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, BadZipFile) as error:
            wrong = f"cannot be read as a model ({error}); take it away to begin with the initial one"
            raise SimflError(f"{path}: {wrong}") from None
        shapes = [(name, tuple(array.shape)) for name, array in initial.items()]
        if [(name, array.shape) for name, array in arrays.items()] != shapes:
            raise SimflError(f"{path}: has other arrays than the initial model; take it away to begin with that one")
        if number < last_round:
            _log.warning("the model of round %s, the last in the log, was not kept; training continues with that of %s",
                         last_round, number)  # fmt: skip
        else:
            _log.info("training continues with the model of round %s (%s)", number, path)
        return ArrayRecord(array_dict={name: Array(array) for name, array in arrays.items()})

    def end(self, before: int, rounds: int) -> None:
        """Raises where no round has had a sum.

        Args:
            before: how many sums there were when the run began.
            rounds: how many it has had.

        Raises:
            SimflError: there is none more.
        """
        if rounds and len(self.selection.history) == before:
            why = self.selection.stopped or "see the warnings above"
            raise SimflError(f"none of {rounds} rounds had a sum, and the model is that of before: {why}")
