"""Clients' validation and test samples."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.clients.client_agents import AttackRun
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.validation import checked_pair, checked_vectors
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import Split, apportion


class Holdings(NamedTuple):
    """Every client's own samples.

    The positions of ``test`` lie in the data's training part or, where it is ``foreign``, in its test part.
    """

    training: Split
    validation: Split
    test: Split
    foreign: bool


@dataclass(frozen=True)
class Holdout:
    """Each client splits what it holds into training, validation and test samples, class by class."""

    validation: Annotated[float, Field(ge=0, lt=1, description="share of each client's samples for validation")] = 0.0
    test: Annotated[float, Field(ge=0, lt=1, description="share of each client's samples for its own tests")] = 0.0
    test_samples: Annotated[
        int | None,
        Field(ge=1, description="so many of the data's test part instead, in the mixture of the client's classes"),
    ] = None

    test_column: Annotated[
        str | None,
        Field(min_length=1, description="all of the data's test part instead that has a client's values of this"),
    ] = None

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    @property
    def tests(self) -> bool:
        """Whether clients have test samples of their own."""
        return bool(self.test or self.foreign)

    @property
    def foreign(self) -> bool:
        """Whether these are of the data's test part."""
        return bool(self.test_samples or self.test_column)

    def split(self, data: Dataset, whole: Split, rng: np.random.Generator) -> Holdings:
        """The samples of each client, by role.

        Test samples of the data's test part are drawn for each client anew, so that two clients may be tested on the
        same image; a client has at most what there is of its classes. With ``test_column`` (as of the partition
        ``natural``) they are those of the client's own writers, and a client may have none.

        Raises:
            ScenarioError: validation and test leave nothing for training; the test part has no such column, or two
                clients hold samples of one value of it; two ways are named.
        """
        if self.validation + self.test >= 1:
            raise ScenarioError(
                "holdout.test", f"is {self.test}, which with validation {self.validation} leaves nothing"
            )
        if self.test_column is not None and self.test_samples is not None:
            raise ScenarioError("holdout.test_column", "and test_samples are two ways; leave one of them out")
        owners = np.repeat(np.arange(len(whole)), whole.sizes)
        part = self._parts(owners * data.classes + data.y_train[whole.indices], rng)
        training, validation, test = (
            Split.by_owner(whole.indices[part == kind], owners[part == kind], len(whole)) for kind in range(3)
        )
        if self.test_column is not None:
            return Holdings(training, validation, self._own_test(data, whole, owners, self.test_column), True)
        if self.test_samples is None:
            return Holdings(training, validation, test, False)
        return Holdings(training, validation, self._draw_test(data, training, rng), True)

    def _parts(self, group: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """0 = training, 1 = validation, 2 = test, of samples that belong to groups (client and class), (n,)."""
        order = np.lexsort((rng.random(len(group)), group))
        _, begins, sizes = np.unique(group[order], return_index=True, return_counts=True)
        rank = np.empty(len(group), dtype=np.int64)
        rank[order] = np.arange(len(group)) - np.repeat(begins, sizes)
        size = np.empty_like(rank)
        size[order] = np.repeat(sizes, sizes)
        validation = np.floor(self.validation * size + 0.5)
        test = np.floor((self.validation + self.test) * size + 0.5)
        return np.select([rank < validation, rank < test], [1, 2], 0)

    def _own_test(self, data: Dataset, whole: Split, owners: NDArray[np.int64], column: str) -> Split:
        """The test samples of the values that each client holds; ``owners`` are the clients of ``whole.indices``."""
        if column not in data.test_columns:
            known = ", ".join(data.test_columns) or "none"
            why = f"is '{column}', which the data's test part does not have; it has: {known}"
            raise ScenarioError("holdout.test_column", why)
        parts = [data.columns[column], data.test_columns[column]]
        values, code = np.unique(np.concatenate(parts), return_inverse=True)
        training, test = code[whole.indices], code[len(parts[0]) :]
        client_of = np.full(len(values), -1)
        client_of[training] = owners
        if (shared := client_of[training] != owners).any():
            why = f"several clients hold samples of {column} '{values[training[shared][0]]}'"
            raise ScenarioError("holdout.test_column", f"{why}; use learning.partition: natural")
        positions = np.flatnonzero(client_of[test] >= 0)
        return Split.by_owner(positions, client_of[test[positions]], len(whole))

    def _draw_test(self, data: Dataset, training: Split, rng: np.random.Generator) -> Split:
        pools = [np.flatnonzero(data.y_test == label) for label in range(data.classes)]
        tests = []
        for client in range(len(training)):
            counts = np.bincount(data.y_train[training[client]], minlength=data.classes)
            wanted = apportion(self.test_samples or 0, counts) if counts.any() else counts
            parts = [rng.choice(pool, min(n, len(pool)), replace=False) for pool, n in zip(pools, wanted, strict=True)]
            tests.append(np.sort(np.concatenate(parts)))
        return Split.of(tests)


def poison(
    setting: ScenarioView, data: Dataset, holdings: Holdings, origins: NDArray[np.int64], streams: Streams
) -> tuple[Dataset, Holdings, NDArray[np.int64]]:
    """The same, and of which sample each one is, (n,), where agents of the setting's clients have them train on others;
    these stand behind all samples of the training part, so that who shares one holds it as it is.

    Raises:
        ScenarioError: samples are not of classes, or change over time.
    """
    groups = AttackRun(setting, streams).groups(range(setting.clients), "poisons")
    if not groups:
        return data, holdings, origins
    training, (agent, _) = holdings.training, groups[0]
    data.require_classes("agents.client", f"{agent.name} poisons samples of classes")
    if type(training) is not Split:
        why = "gives clients other samples over time"
        raise ScenarioError("partition", f"{why}, and agents.client: {agent.name} changes those that they begin with")
    parts = [training[client] for client in range(len(training))]
    x, y, at = [data.x_train], [data.y_train], np.empty(0, dtype=np.int64)
    for agent, client in [(agent, client) for agent, clients in groups for client in clients.tolist()]:
        mine = parts[client]
        true = data.x_train[mine], data.y_train[mine]
        changed = agent.poisons(*true, data.classes, streams("agents/poison", client))
        if changed is not None:
            checked_pair(changed, f"agent '{agent.name}'", "poisons", "(x, y)")
            for new, old in zip(changed, true, strict=True):
                checked_vectors(new, old.shape, f"agent '{agent.name}'", "poisons gives")
            x, y = [*x, changed[0]], [*y, changed[1]]
            parts[client] = len(origins) + len(at) + np.arange(len(mine))
            at = np.append(at, mine)
    columns = {name: np.append(values, values[at]) for name, values in data.columns.items()}
    samples: Any = np.concatenate(x).astype(data.x_train.dtype)
    data = replace(data, x_train=samples, y_train=np.concatenate(y).astype(data.y_train.dtype), columns=columns)
    return data, holdings._replace(training=Split.of(parts)), np.append(origins, origins[at])
