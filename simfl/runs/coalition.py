"""Who has observed a run, and what some of them know together."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError, suggestion
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.scenario_view import tolerated_colluders
from simfl.core.types import Arrays, Integers
from simfl.privacy.accountant import History
from simfl.privacy.multiround.guarantee_trace import evaluation_rounds
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.privacy.multiround.participation_matrix import of_others
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import participation_matrices, read_table
from simfl.runs.accounting import MEASURED, accounts, history, history_of, of_clients
from simfl.runs.edge_tables import EdgeRecords
from simfl.runs.observers import Columns, ObserverRecords, OneObserver, as_lists, only_sums, worst
from simfl.runs.views import Told, Views
from simfl.scenario import Scenario
from simfl.scenario.edge_scenarios import edge_groups
from simfl.scenario.plugin_files import Trust
from simfl.topology.base import StarTopology
from simfl.topology.gossip import GossipTopology
from simfl.training.fedavg import Gossip, Serverless


def records_of(scenario: Scenario, folder: Path, rounds: int, samples: Integers | None) -> ObserverRecords:
    """What the tables of a run say of all its observers."""
    kind: type[ObserverRecords] = PeerRecords if scenario.training.many_aggregators else OneObserver
    if scenario.topology.own_models:
        kind = GossipRecords
    if edge_groups(scenario):
        kind = EdgeRecords
    return kind(scenario, folder, rounds, samples)


def coalition(folder: Path, names: Sequence[str]) -> tuple[Columns, str]:
    """What observers of a run know together: the columns of sums, a value a round; and what is taken for granted.

    Raises:
        SimflError: the run has one observer, or none of these; or all of its clients are named.
    """
    results = ResultsFolder.open(folder)
    results.check()
    scenario = Scenario.load(folder / SCENARIO, trust=Trust(False))
    samples = read_table(results.file(results.table("clients.csv"))).samples.to_numpy()
    records = records_of(scenario, folder, int(results.summary["rounds"]), samples)
    if not (observers := list(records.observers)):
        why = "has no edges, servers or clients that aggregate and could tell one another what they know"
        raise SimflError(f"{folder}: {why}; --colluder names a client who tells the server")
    for name in names:
        if name not in observers:
            known = ", ".join([*observers[:5], *(["..."] if observers[5:] else [])])
            hint = suggestion(name, observers)
            raise SimflError(f"--colluders {name}: the run has no such observer, but {known}{hint}")
    if sum(name.startswith("client/") for name in names) == scenario.clients:
        raise SimflError(f"--colluders: {scenario.clients} leave none of {scenario.clients} clients")
    return records.of_coalition(names), results.summary.get("privacy_assumes", "")


# -- What each client has seen of the others where there is no server ------------------------------------------
# Where all send their updates to all, each has the same sums, and knows its own part of them. Where models go from
# neighbour to neighbour, a model that a client receives is a combination of what its neighbours have summed, of what
# their neighbours had summed a round before, and so on: of one-step sums, each of which was made at most so many rounds
# ago as its maker is away. The client is taken to have each of these by itself, which is at least what it has.


class PeerRecords(OneObserver):
    """What a run's tables say of its clients, each of which aggregates."""

    @cached_property
    def observers(self) -> dict[str, Columns]:  # type: ignore[override]
        """Each client's columns, by its name: what sums tell it, and what is known of anybody's else."""
        scenario, seen = self.scenario, self.history(0)
        names = {client: f"client/{client}" for client in range(scenario.clients)}
        bare = {name: values for name, values in as_lists(self.of_root).items() if name not in MEASURED}
        if not isinstance(scenario.privacy, Guarantees):
            return dict.fromkeys(names.values(), bare)
        nothing = replace(seen.any_view, rows=seen.any_view.rows * 0)
        views = {client: seen.views.get(client, nothing) for client in names}
        alone = {client: replace(seen, views={client: view}) for client, view in views.items()}
        return {
            name: {**bare, **only_sums(as_lists(accounts(scenario, alone[client])))} for client, name in names.items()
        }

    def of_coalition(self, names: Sequence[str]) -> Columns:
        """They have what any of them has, and know their own parts of it."""
        if not isinstance(self.scenario.privacy, Guarantees):
            return {}
        seen, clients = self.history(0), [client_of(name) for name in names]
        rows = seen.any_view.rows * 0
        for view in (seen.views[client] for client in clients if client in seen.views):
            rows = rows.maximum(view.rows)  # whoever aggregates in a round has the same sum
        tolerated = np.maximum(seen.any_view.tolerated - (len(clients) - 1), -1)
        view = replace(seen.any_view, rows=of_others(rows, clients), tolerated=tolerated)
        return only_sums(as_lists(accounts(self.scenario, replace(seen, views={clients[0]: view}))))


def client_of(observer: str) -> int:
    """The number of a client that observes."""
    return int(observer.partition("/")[2])


class GossipRecords(ObserverRecords):
    """What a run's tables say of what its clients have received."""

    def __init__(self, scenario: Scenario, folder: Path, rounds: int, samples: Integers | None) -> None:
        super().__init__(scenario, folder, rounds, samples)
        self.neighbours = scenario.topology.neighbours(scenario.clients, Streams(scenario.seed))
        matrices = participation_matrices(folder / "participation.csv", rounds, scenario.clients)
        self.sums: dict[int, NDArray[np.float64]] = {who: matrix.toarray() for who, matrix in matrices.items()}

    def history(self, number: int) -> History:
        """What is known of anybody's sums; of each neighbour's model where these are seen one by one."""
        return history(self.scenario, self.folder, self.rounds, self.samples)

    @cached_property
    def _bare(self) -> Columns:
        """Against whoever sees each neighbour's model by itself."""
        return {name: list(values) for name, values in accounts(self.scenario, self.history(0)).items()}

    @property
    def _hides_models(self) -> bool:
        """Whether a client certainly has sums of its neighbours' models only, by a rule that is simfl's own."""
        scenario = self.scenario
        builtin = type(scenario.training) is Gossip and type(scenario.topology) is GossipTopology
        known = builtin and isinstance(scenario.privacy, Guarantees)
        return known and not scenario.secagg.shows_updates

    @cached_property
    def _clients(self) -> dict[str, Columns]:
        names = [f"client/{client}" for client in range(self.scenario.clients)]
        if not self._hides_models:
            return dict.fromkeys(names, self._bare)
        return {name: {**self._bare, **self._against([client])} for client, name in enumerate(names)}

    def of_coalition(self, names: Sequence[str]) -> Columns:
        return self._against([client_of(name) for name in names]) if self._hides_models else only_sums(self._bare)

    @property
    def observers(self) -> dict[str, Columns]:
        """Each client's columns, by its name."""
        return self._clients

    @property
    def of_root(self) -> Columns:
        """Against the worst of them."""
        return {**self._bare, **worst([only_sums(columns) for columns in self._clients.values()])}

    def of_clients(self) -> Arrays:
        """Against anybody."""
        return of_clients(self.scenario, self.history(0))

    def disclosure(self, describe: Callable[[Scenario, History], JsonObject]) -> JsonObject:
        """What reaches a neighbour besides sums."""
        return describe(self.scenario, self.history(0))

    def _against(self, clients: Sequence[int]) -> Columns:
        """Columns of sums against clients together, round by round: they have what has reached any of them."""
        away = np.min([self._hops(client) for client in clients], axis=0)
        every = evaluation_rounds(self.rounds, self.scenario.privacy.every)
        columns: dict[str, list[Any]] = {}
        for t in range(self.rounds):
            values = self._last_of(clients, self._sums_within_reach(away, t)) if every[t] else {}
            for name in values:
                columns.setdefault(name, [None] * t)
            for name, cells in columns.items():
                cells.append(values.get(name))
        return columns

    def _hops(self, client: int) -> Integers:
        """How far everybody is away, (clients,); the number of clients where there is no way."""
        away = np.full(self.scenario.clients, self.scenario.clients)
        away[client], last = 0, [client]
        while last:
            near = {int(other) for each in last for other in self.neighbours[each]}
            last = sorted(other for other in near if away[other] == self.scenario.clients)
            away[last] = away.max(initial=0, where=away < self.scenario.clients) + 1
        return away

    def _sums_within_reach(self, away: Integers, t: int) -> NDArray[np.float64]:
        """The one-step sums that can have reached somebody by the end of round t, each once, (rows, clients)."""
        rows = [sums[: max(0, t + 1 - away[who])] for who, sums in self.sums.items()]
        known = np.unique(np.concatenate([np.zeros((0, self.scenario.clients)), *rows]), axis=0)
        return known[known.any(axis=1)]

    def _last_of(self, clients: Sequence[int], rows: NDArray[np.float64]) -> dict[str, Any]:
        from scipy.sparse import csr_array

        shared = {each.name for each in fields(Serverless)}
        rule = Serverless(**{name: getattr(self.scenario.training, name) for name in shared})
        privacy = replace(self.scenario.privacy, every=0)
        local = replace(self.scenario, training=rule, privacy=privacy, topology=StarTopology())
        matrix = csr_array(rows if len(rows) else np.zeros((1, self.scenario.clients)))
        members = {*np.diff(matrix.indptr).tolist()} - {0}
        others = clients[1:]
        least = min([np.inf, *(tolerated_colluders(self.scenario, size) for size in members if others)])
        tolerated = np.full(matrix.shape[0], max(least - len(others), -1))
        matrix = of_others(matrix, others)
        events = Told(lambda: {clients[0]: matrix}, lambda: tolerated, lambda: iter(()))
        seen = history_of(local, Views(local, matrix.shape[0], events), (), self.samples)
        return {name: list(values)[-1] for name, values in only_sums(as_lists(accounts(local, seen))).items()}
