"""What edges have done, in a run's tables: every row has its edge, and clients have their numbers in the scenario."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import EdgeRound
from simfl.core.certificate_words import AND
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import is_foreign
from simfl.core.types import SERVER, Arrays, Integers, JobId
from simfl.privacy.accountant import History
from simfl.results.run_files import message_rows, read_messages, read_table
from simfl.results.tables import TableWriter
from simfl.runs.accounting import accounts, facts_of, history_of, of_clients
from simfl.runs.observers import Columns, ObserverRecords, as_lists, only_sums, worst
from simfl.runs.views import Told, Views
from simfl.scenario import Scenario
from simfl.scenario.edge_scenarios import edge_groups, edge_scenario
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.transcript import Transcript
from simfl.topology.base import StarTopology


def aggregator_of(edge: int) -> int:
    """The number of an edge in tables."""
    return SERVER - 1 - edge


def write_edge(tables: Mapping[str, TableWriter], edge: EdgeRound, round: int) -> None:
    """Writes an aggregation of an edge, whose model the cloud averages in a round."""
    who, done, members = aggregator_of(edge.edge), edge.done, edge.members
    rows = zip(members[done.clients].tolist(), done.weights.tolist(), strict=True)
    tables["participation.csv"].append((done.number, who, client, weight) for client, weight in rows)
    costs = done.row["time_s"], len(done.clients), done.row["bytes_down"], done.row["bytes_up"]
    tables["aggregations.csv"].append([(who, done.number, round, *costs)])
    if done.phases:
        tables["phases.csv"].append([(*phase, who) for phase in done.phases])
    if done.jobs:
        tables["jobs.csv"].append([_whole_job(job, members) for job in done.jobs])
    transcripts = done.transcripts and [each._replace(clients=members[each.clients]) for each in done.transcripts]
    tables["messages.csv"].append((*row, who) for row in message_rows(done.number, transcripts))
    facts = ((i, name, value) for i, each in enumerate(done.facts) for name, value in each.items())
    if done.facts:
        tables["facts.csv"].append((done.number, *fact, who) for fact in facts)


def _whole_job(job: Any, members: NDArray[np.int32]) -> Any:
    client = int(members[job.client])
    return job._replace(job=int(JobId.of(JobId(job.job).selection, client)), client=client)


class EdgeRecords(ObserverRecords):
    """What a run's tables say of its edges.

    An edge has the sums of its own clients, aggregation by aggregation, and the averages that the cloud sends. The
    cloud has the edges' models, and so of each edge's clients one combination of sums a round, if the server's step is
    a plain one; else everybody is taken to have all that all edges have.
    """

    def __init__(self, scenario: Scenario, folder: Path, rounds: int, samples: Integers | None) -> None:
        super().__init__(scenario, folder, rounds, samples)
        self.groups = edge_groups(scenario)
        self.participation = read_table(folder / "participation.csv")
        self.aggregations = read_table(folder / "aggregations.csv")

    def _rows_of(self, name: str, who: int) -> Any:
        """An aggregator's rows of a table; empty without one."""
        path = self.folder / name
        if not path.exists():
            return ()
        table = read_table(path)
        return table[table.aggregator == who]

    def numbers(self, edge: int) -> Integers:
        """The round in which each aggregation of an edge was averaged, ascending, (aggregations,); the number of rounds
        where its model came too late for any.
        """
        local = self.aggregations[self.aggregations.aggregator == aggregator_of(edge)]
        return local.sort_values("number")["round"].to_numpy(np.int64)

    def history(self, edge: int) -> History:
        """What an edge has seen, aggregation by aggregation."""
        rounds, local = len(self.numbers(edge)), edge_scenario(self.scenario, len(self.groups[edge]))
        matrix, tolerated = self._matrix(self.groups[edge], rounds, aggregator_of(edge)), np.full(rounds, np.inf)
        phases = self._rows_of("phases.csv", aggregator_of(edge))
        for row in phases[phases.tolerated.notna()].itertuples() if len(phases) else ():
            tolerated[row.round] = min(tolerated[row.round], float(row.tolerated))
        rows = self._facts(aggregator_of(edge))
        events = Told(lambda: {SERVER: matrix}, lambda: tolerated, lambda: self._messages(edge))
        return history_of(local, Views(local, rounds, events), facts_of(rows, local, rounds), self._samples(edge))

    def _facts(self, who: int) -> Iterable[tuple[int, int, str, float]]:
        facts = self._rows_of("facts.csv", who)
        return facts[["round", "stage", "name", "value"]].itertuples(index=False, name=None) if len(facts) else ()

    @cached_property
    def _noised(self) -> tuple[Scenario, History]:
        """What is seen of the averages that the cloud has noised."""
        local = replace(self.scenario, topology=StarTopology(), secagg=PROTOCOLS.of("ideal"))
        matrix = self._matrix(np.arange(self.scenario.clients, dtype=np.int32), self.rounds, SERVER)
        events = Told(lambda: {SERVER: matrix}, lambda: np.full(self.rounds, np.inf), lambda: iter(()))
        facts = facts_of(self._facts(SERVER), local, self.rounds)
        return local, history_of(local, Views(local, self.rounds, events), facts, self.samples)

    def _columns_of_models(self, edge: int) -> Columns:
        """Columns of sums against whoever has an edge's models apart, each of which is taken for one of its sums."""
        rows = len(self.numbers(edge))
        return self._by_round(self.numbers(edge), self._columns_of_sums(self.groups[edge], rows, aggregator_of(edge)))

    def _columns_of_sums(self, members: NDArray[np.int32], rows: int, who: int) -> Columns:
        local = replace(edge_scenario(self.scenario, len(members)), secagg=PROTOCOLS.of("ideal"))
        matrix, tolerated = self._matrix(members, rows, who), np.full(rows, np.inf)
        events = Told(lambda: {SERVER: matrix}, lambda: tolerated, lambda: iter(()))
        samples = None if self.samples is None else self.samples[members]
        seen = history_of(local, Views(local, rows, events), tuple({} for _ in local.privacy.stages), samples)
        return only_sums({name: list(each) for name, each in local.privacy.accounts(seen).items()})

    def _samples(self, edge: int) -> Integers | None:
        return None if self.samples is None else self.samples[self.groups[edge]]

    def _matrix(self, members: NDArray[np.int32], rows: int, who: int) -> Any:
        from scipy.sparse import csr_array

        table = self.participation
        local = table[(table.aggregator == who) & table.client.isin(members)]
        places = local["round"].to_numpy(np.int64), np.searchsorted(members, local.client.to_numpy(np.int64))
        return csr_array((local.weight.to_numpy(np.float64), places), shape=(rows, len(members)))

    def _messages(self, edge: int) -> Iterator[tuple[int, Transcript | None]]:
        members, path = self.groups[edge], self.folder / "messages.csv"
        for t, transcript in read_messages(path, len(members), aggregator_of(edge)):
            yield (
                t,
                transcript
                and transcript._replace(clients=np.searchsorted(members, transcript.clients).astype(np.int32)),
            )

    # -- columns -------------------------------------------------------------------------------------

    @cached_property
    def _edge_columns(self) -> list[Columns]:
        """The accountants' columns against each edge, of its own clients, by name: a value a round of the run."""
        columns: list[Columns] = []
        for edge, group in enumerate(self.groups):
            values = accounts(edge_scenario(self.scenario, len(group)), self.history(edge))
            here = np.minimum(self.numbers(edge), self.rounds - 1)  # in the end it has also what is in no average
            columns.append(self._by_round(here, {name: list(each) for name, each in values.items()}))
        return columns

    def _by_round(self, numbers: Integers, rows: Columns) -> Columns:
        """Values of an edge's aggregations as values of the run's rounds; None before its first."""
        here = (numbers.searchsorted(np.arange(self.rounds), "right") - 1).tolist()
        return {name: [None if i < 0 else each[i] for i in here] for name, each in rows.items()}

    @cached_property
    def _has_several(self) -> bool:
        """Whether a buffer of the cloud may have had several models of an edge in one round: it has them apart."""
        topology, table = self.scenario.topology, self.aggregations[self.aggregations["round"] < self.rounds]
        if topology.cloud_buffer in (None, 1) or not len(table):
            return False
        of_model = 1 if topology.own_edges else topology.edge_rounds
        return int(table.groupby(["aggregator", "round"]).size().max()) > of_model

    @property
    def _adds_up(self) -> bool:
        """Whether an edge's change is a combination of its sums."""
        rule = self.scenario.training
        plain = not (is_foreign(rule) or rule.start(1))  # what a plugin's step does nobody knows
        return self.scenario.topology.aggregates_once or plain

    @cached_property
    def of_root(self) -> Columns:
        """Against the cloud, which has each edge's models; or against the worst of several servers."""
        least = worst(self._edge_columns)
        if self.scenario.topology.noise == "cloud":
            least = {**as_lists(accounts(*self._noised)), **only_sums(least)}
        return {**least, **self.together(frozenset(), root=True)} if self.scenario.topology.has_root else least

    def together(self, edges: frozenset[int], root: bool) -> Columns:
        """Columns of sums against some edges together, perhaps with the cloud.

        An edge has its own clients' sums. Of each other edge's clients the cloud, and each of several servers, has the
        sum of a round; edges without it have the average of all of them. Clients have one edge, so that nothing that is
        known of one edge's says more of another's.
        """
        away = [edge for edge in range(len(self.groups)) if edge not in edges]
        others = [self.groups[edge] for edge in away]
        inside = [only_sums(self._edge_columns[edge]) for edge in sorted(edges)]
        if others and not self._adds_up:
            return worst([only_sums(columns) for columns in self._edge_columns])
        if self._has_several and (root or not self.scenario.topology.has_root):
            return worst([*inside, *map(self._columns_of_models, away)])
        if others and self.scenario.topology.has_root and not root:
            others = [np.sort(np.concatenate(others))]
        return worst([*inside, *(self._columns_of_sums(each, self.rounds, SERVER) for each in others)])

    def of_coalition(self, names: Sequence[str]) -> Columns:
        edges = frozenset(int(name.partition("/")[2]) for name in names if name != "server")
        return self.together(edges, root="server" in names)

    def _against(self, edge: int) -> Columns:
        """Against an edge, or one of several servers."""
        return {**self._edge_columns[edge], **self.together(frozenset({edge}), root=False)}

    @property
    def observers(self) -> dict[str, Columns]:
        """Each observer's columns, by its name."""
        topology = self.scenario.topology
        named = {f"{topology.aggregator}/{edge}": self._against(edge) for edge in range(len(self.groups))}
        return {"server": self.of_root, **named} if topology.has_root else named

    def disclosure(self, describe: Callable[[Scenario, History], JsonObject]) -> JsonObject:
        """What reaches an edge besides sums, and how many colluders each tolerates."""
        said = [describe(edge_scenario(self.scenario, len(group)), self.history(edge))
                for edge, group in enumerate(self.groups)]  # fmt: skip
        together = {name: value for each in said for name, value in each.items()}
        premises = together.get("privacy_assumes"), self.scenario.topology.premise
        together["privacy_assumes"] = AND.join(filter(None, premises))
        tolerated = [int(each["tolerated_colluders"]) for each in said if "tolerated_colluders" in each]
        if len(tolerated) < len(said):
            together.pop("tolerated_colluders", None)
        else:
            together["tolerated_colluders"] = min(tolerated)
        return together

    def of_clients(self) -> Arrays:
        """What the accountants say of each client against its edge, by name, (clients,)."""
        if self.scenario.topology.noise == "cloud":
            return of_clients(*self._noised)
        whole: Arrays = {}
        for edge, members in enumerate(self.groups):
            for name, values in of_clients(edge_scenario(self.scenario, len(members)), self.history(edge)).items():
                whole.setdefault(name, np.zeros(self.scenario.clients, dtype=values.dtype))[members] = values
        return whole
