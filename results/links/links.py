"""What a shared link of the server changes: policies, FedAvg against FedBuff, secure aggregation against plain sums.

    python results/links/links.py [--out results]

Runs results/links/links.yaml in ten ways over four links of the server and three seeds (120 runs; finished ones are
used again). Writes beside this file links.csv, one row a way and link, and links.svg.
"""

from pathlib import Path

import pandas

import simfl
from simfl.experiments import runner
from simfl.report import style
from simfl.report.saving import save
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SEEDS = 3
LINKS = {"own": None, "10 Gbit/s": 1.25e9, "1 Gbit/s": 1.25e8, "0.3 Gbit/s": 3.75e7}
"""Bytes per second of the server's link in each direction; None: every message has its path for itself."""

BUFFERED = "training={{name: fedbuff, rounds: 100, buffer: 10, concurrency: {0}, weighting: equal}}"
QUORUM = ["selection={name: random, k: 130}", "training.quorum=100"]
WAYS = {
    "random": ("policy", []),
    "batch_partition, T=10": ("policy", ["selection={name: batch_partition, k: 100, T: 10}"]),
    "random 130, quorum 100": ("policy", QUORUM),
    "fedcs, 300 s": ("policy", ["selection={name: fedcs, k: 100, deadline_s: 300}"]),
    "FedBuff, 100 at work": ("rule", [BUFFERED.format(100)]),
    "FedBuff, 30 at work": ("rule", [BUFFERED.format(30)]),
    "secagg": ("protocol", ["secagg={name: secagg, execute: cost_only}"]),
    "secagg_plus": ("protocol", ["secagg={name: secagg_plus, execute: cost_only}"]),
    "lightsecagg": ("protocol", ["secagg={name: lightsecagg, execute: cost_only}"]),
    "plain": ("protocol", []),
}


def scenario(way: str, link: str, seed: int) -> Scenario:
    """One run."""
    rate = LINKS[link]
    server = [] if rate is None else [f"network.server={{down_bytes_per_s: {rate!r}, up_bytes_per_s: {rate!r}}}"]
    return Scenario.load(HERE / "links.yaml", [*WAYS[way][1], *server, f"seed={seed}"])


def table(folders: dict[tuple[str, str, int], Path]) -> pandas.DataFrame:
    """One row a way and link: means over the seeds."""
    rows = []
    for way, (kind, _) in WAYS.items():
        for link, bytes_per_s in LINKS.items():
            found = []
            for folder in (folders[way, link, seed] for seed in range(SEEDS) if (way, link, seed) in folders):
                result = simfl.open(folder)
                summary, updates = result.summary, int(result.rounds["cardinality"].sum())
                found.append({
                    "s_per_100_updates": 100 * summary["time_s"] / updates,
                    "updates_a_step": updates / len(result.rounds),
                    "GB_per_100_updates": (summary["bytes_down"] + summary["bytes_up"]) / updates / 1e7,
                    "use_down": summary["bytes_down"] / summary["time_s"] / (bytes_per_s or float("inf")),
                    "use_up": summary["bytes_up"] / summary["time_s"] / (bytes_per_s or float("inf")),
                })  # fmt: skip
            means = pandas.DataFrame(found).mean().round(3).to_dict()
            rows.append({"kind": kind, "way": way, "link": link, "seeds": len(found), **means})
    return pandas.DataFrame(rows)


def draw(table: pandas.DataFrame) -> None:
    """Writes the table and its picture: seconds per 100 updates against the link."""
    from matplotlib import pyplot

    with style.settings():
        figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.2), sharey=True)
        for axis, kinds in zip(axes, (["policy"], ["random", "rule"], ["protocol"]), strict=True):
            shown = table[table["kind"].isin(kinds) | table["way"].isin(kinds)]
            for marker, (way, rows) in zip("os^Dv", shown.groupby("way", sort=False), strict=False):
                axis.plot(rows["link"], rows["s_per_100_updates"], marker=marker, label=way)
            axis.set(xlabel="server's link", yscale="log")
            axis.legend(frameon=False, fontsize=7)
        axes[0].set_ylabel("simulated seconds per 100 updates")
        axes[0].yaxis.set_major_formatter("{x:g}")
        save(figure, table, HERE / "links.svg")


def main() -> None:
    options = runner.parser(__doc__).parse_args()
    runs = {(way, link, seed): scenario(way, link, seed) for way in WAYS for link in LINKS for seed in range(SEEDS)}
    draw(table(runner.run_all(runs, options, seconds=2)))


if __name__ == "__main__":
    main()
