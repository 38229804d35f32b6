"""Who learns what where clients do not all talk with one server, against accuracy and time; and what retries change.

    python results/topology/topology.py [edges | gossip | retries] [--seeds 5]

Writes beside this file edges.csv, gossip.csv and retries.csv: one row a configuration, means and standard deviations
over the seeds; and edges_seeds.csv, gossip_seeds.csv and retries_seeds.csv: one row a run. Finished runs are used
again. Prints the tables as results/topology/README.md has them.
"""

from pathlib import Path

import pandas

import simfl
from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
BASE = HERE / "topology.yaml"
WEAK = "privacy_weak_lower"

EDGES = {
    "one server, batches of 5": {"topology": "star", "selection": "{name: batch_partition, k: 20, T: 5}"},
    "batches inside edges": {"topology": "{name: tree, edges: 4, latency_s: 0.5}",
                             "selection": "{name: batch_partition, k: 5, T: 5}"},
    "batches inside edges, 4 sums a round": {"topology": "{name: tree, edges: 4, edge_rounds: 4, latency_s: 0.5}",
                                             "selection": "{name: batch_partition, k: 5, T: 5}"},
    "batches across edges": {"topology": "{name: tree, edges: ['0-7', '8-19', '20-31', '32-39'], selects: cloud, "
                                         "latency_s: 0.5}",
                             "selection": "{name: batch_partition, k: 20, T: 5}"},
    "random": {"topology": "{name: tree, edges: 4, latency_s: 0.5}", "selection": "{name: random, k: 5}"},
    "random, 4 sums a round": {"topology": "{name: tree, edges: 4, edge_rounds: 4, latency_s: 0.5}",
                               "selection": "{name: random, k: 5}"},
    "cloud with a buffer of 2, batches inside edges": {
        "topology": "{name: tree, edges: 4, cloud_buffer: 2, latency_s: 0.5}",
        "selection": "{name: batch_partition, k: 5, T: 5}", "training.rounds": "80"},
}  # fmt: skip
GOSSIP = {
    f"{graph}, {exchange}": {
        "clients": "16", "selection": "all", "training": "{name: gossip, rounds: 20, batch_size: 20, weighting: equal}",
        "topology": f"{{name: gossip, graph: {graph}, degree: 4, exchange: {exchange}{peers}}}",
    }
    for graph in ("ring", "regular", "complete")
    for exchange, peers in (("push", ""), ("pull", ""), ("push_pull", ", peers: 1"))
}  # fmt: skip
RETRIES = {
    f"{agent}, loss {loss}": {"network.loss": str(loss), "agents.client": agent, "training.deadline_s": "12",
                              "selection": "{name: batch_partition, k: 20, T: 5}"}
    for loss in (0.05, 0.1, 0.2)
    for agent in ("standard", "patient")
}  # fmt: skip
STUDIES = {"edges": EDGES, "gossip": GOSSIP, "retries": RETRIES}


def measures(result: Result) -> dict[str, float]:
    """What one run came to; of each kind of observer the guarantee against the one that learns most."""
    summary = result.summary
    learned: dict[str, float] = {}
    if "observers" in summary:
        table = pandas.read_csv(result.path / "observers.csv")
        table["kind"] = table.observer.str.partition("/")[0]
        for kind, rows in table.groupby("kind"):
            learned[f"{kind}_weak"] = rows[rows["round"] == rows["round"].max()][WEAK].min()
            learned[f"{kind}_alone"] = first_alone(rows)
    else:
        learned = {"server_weak": summary[WEAK], "server_alone": first_alone(result.rounds.assign(observer="server"))}
    taken = ("test_accuracy", "time_s", "bytes_up", "bytes_sent_up", "mean_cardinality", "fairness_gap", "skipped")
    return learned | {name: summary[name] for name in taken if name in summary}


def first_alone(rows: pandas.DataFrame) -> float:
    """The round, from 1, after which half of these observers know an update by itself; infinite = not in this run."""
    known = (rows.set_index("round")[WEAK] <= 1).groupby("round").mean() >= 0.5
    return float(known.idxmax()) + 1 if known.any() else float("inf")


def runs(study: str, seeds: int) -> dict[tuple[str, int], Scenario]:
    """The runs of a study, by configuration and seed."""
    return {(name, seed): runner.scenario(BASE, keys, seed) for name, keys in STUDIES[study].items()
            for seed in range(seeds)}  # fmt: skip


def table(folders: dict[tuple[str, int], Path]) -> pandas.DataFrame:
    """One row a configuration: means and standard deviations; of rounds that may be infinite the median."""
    rows = []
    for name in dict.fromkeys(name for name, _ in folders):
        found = pandas.DataFrame(
            [measures(simfl.open(folder)) for (known, _), folder in folders.items() if known == name]
        )
        alone = [column for column in found if column.endswith("_alone")]
        row = {"configuration": name, "seeds": len(found), **found[alone].median().to_dict()}
        rows.append(row | runner.spread(found.drop(columns=alone)))
    return pandas.DataFrame(rows)


COLUMNS = {
    "edges": {"server_weak": "cloud: weak", "server_alone": "cloud: alone", "edge_weak": "edge: weak",
              "edge_alone": "edge: alone", "mean_cardinality": "clients", "test_accuracy": "accuracy",
              "time_s": "seconds"},
    "gossip": {"client_alone": "alone", "test_accuracy": "accuracy", "time_s": "seconds", "bytes_up": "MB"},
    "retries": {"mean_cardinality": "clients", "skipped": "skipped", "fairness_gap": "fairness gap",
                "test_accuracy": "accuracy", "time_s": "seconds", "bytes_sent_up": "MB sent"},
}  # fmt: skip
"""What the page shows of each study."""


def markdown(study: str) -> str:
    """A study's table as the page shows it."""
    known, columns = pandas.read_csv(HERE / f"{study}.csv"), COLUMNS[study]
    lines = [f"| {' | '.join(['configuration', *columns.values()])} |", f"|---|{'---|' * len(columns)}"]
    for row in known.to_dict("records"):
        cells = [_cell(row, name) for name in columns]
        lines.append(f"| {' | '.join([row['configuration'], *cells])} |")
    return "\n".join(lines)


def _cell(row: dict[str, float], name: str) -> str:
    value, deviation = row[name], row.get(f"{name}_sd")
    if value != value:
        return ""
    if name.endswith("_alone"):
        return "never" if value == float("inf") else f"{value:g}"
    scale, digits = 1e-6 if name.startswith("bytes") else 1, 3 if name in ("test_accuracy", "fairness_gap") else 1
    text = f"{value * scale:.{digits}f}"
    return f"{text} ± {deviation * scale:.{digits}f}" if deviation else text


def main() -> None:
    """Runs the studies that are named, or all."""
    parser = runner.parser(__doc__ or "", seeds=5)
    parser.add_argument("study", nargs="?", choices=list(STUDIES), help="one only")
    options = parser.parse_args()
    for study in [options.study] if options.study else STUDIES:
        folders = runner.run_all(runs(study, options.seeds), options, seconds=20)
        table(folders).to_csv(HERE / f"{study}.csv", index=False)
        seeds = runner.by_seed(("configuration", "seed"), folders, lambda folder: measures(simfl.open(folder)))
        seeds.to_csv(HERE / f"{study}_seeds.csv", index=False)
        print(markdown(study))


if __name__ == "__main__":
    main()
