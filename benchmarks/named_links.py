"""What shared links of a graph cost: processor time of a round or aggregation, and how many times that without.

    python benchmarks/named_links.py [fedavg] [fedbuff]

K clients in three regions behind one backbone: links of their own, one shared link of the server, and three named links
(the backbone, and two to the regions). Of these the two are in full use and the backbone is wide enough for both, or
("narrow") all three are. FedAvg: rounds of all K clients. FedBuff: K at work,
20,000 updates, a buffer of 10. Lines of 5 MB/s are equal, or log-normal (sigma 0.7). The
median of all rounds counts.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from simfl.runs.run import run
from simfl.scenario import Scenario

KINDS = ("no shared link", "the server's", "three", "three, narrow")
SIZES = {"fedavg": ((100, 40), (1000, 12)), "fedbuff": ((100, 2000), (1000, 2000))}


def network(clients: int, kind: str, lines: str) -> dict[str, Any]:
    """The graph, with capacities that grow with the clients."""
    spread = np.random.default_rng(1).lognormal(0.0, 0.7, clients) if lines == "unequal" else np.ones(clients)
    edges: list[Any] = [["server", "core", 0.01], *(["core", f"r{i}", 0.01] for i in range(3))]
    edges += [
        {"src": f"r{i % 3}", "dst": f"c{i}", "latency_s": 0.03, "bandwidth_bytes_per_s": 5e6 * float(spread[i])}
        for i in range(clients)
    ]
    graph = {"name": "graph", "edges": edges, "clients": [f"c{i}" for i in range(clients)]}
    whole = 1.25e6 * clients
    if kind == "the server's":
        return graph | {"server": {"name": "server", "down_bytes_per_s": whole, "up_bytes_per_s": whole}}
    shared = {
        "backbone": {"edges": [["server", "core"]], "bytes_per_s": 0.6 * whole if "narrow" in kind else whole},
        "east": {"edges": [["core", "r0"]], "bytes_per_s": 0.24 * whole},
        "west": {"edges": [["core", "r1"], ["core", "r2"]], "bytes_per_s": 0.48 * whole},
    }
    return graph | ({"shared": shared} if "three" in kind else {})


def round_ms(rule: str, clients: int, rounds: int, kind: str, lines: str) -> float:
    """Processor milliseconds of a round or aggregation; the median of a run's."""
    training: dict[str, Any] = {"name": rule, "rounds": rounds}
    scenario = {
        "clients": clients,
        "network": network(clients, kind, lines),
        "devices": {
            "computation": {"name": "random", "distribution": {"name": "log_normal", "median": 20, "sigma": 0.5}}
        },
        "selection": {"name": "random", "k": clients if rule == "fedavg" else 1},
        "training": training | ({} if rule == "fedavg" else {"concurrency": clients, "buffer": 10}),
        "learning": {"name": "none", "parameters": 11_000_000},
        "privacy": "none",
    }
    parsed = Scenario.parse(json.dumps(scenario), "benchmark")
    ends: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run(parsed, Path(folder), on_round=lambda _: ends.append(time.process_time()))
    return 1000 * float(np.median(np.diff(ends)))


def main() -> None:
    for rule in sys.argv[1:] or SIZES:
        for clients, rounds in SIZES[rule]:
            for lines in ("equal", "unequal"):
                times = [round_ms(rule, clients, rounds, kind, lines) for kind in KINDS]
                row = ", ".join(f"{kind} {each:.2f} ms ({each / times[0]:.1f})" for kind, each in zip(KINDS, times))
                print(f"{rule}, {clients} clients, {lines} lines: {row}", flush=True)


if __name__ == "__main__":
    main()
