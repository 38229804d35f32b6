"""Who has observed a run, and what some of them know together."""

from collections.abc import Sequence
from pathlib import Path

from simfl.core.errors import SimflError, suggestion
from simfl.core.types import Integers
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import read_table
from simfl.runs.edge_tables import EdgeRecords
from simfl.runs.gossip_tables import GossipRecords, PeerRecords
from simfl.runs.observers import Columns, ObserverRecords, OneObserver
from simfl.scenario import Scenario
from simfl.scenario.edge_scenarios import edge_groups
from simfl.scenario.plugin_files import Trust


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
