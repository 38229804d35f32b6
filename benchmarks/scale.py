"""A cost model of simfl on this machine: fitted to small runs, checked against larger ones, and carried on to 10^9.

    python benchmarks/scale.py [runs] [protocols] [--repeats 2] [--out DIR]

* runs: processor seconds (from the interpreter's start), peak memory and bytes on disk of three scenarios, each run a
  process of its own: scenarios/million_clients.yaml (rounds, nothing learned), fedbuff_scale.yaml (a buffered server,
  nothing learned) and million_learning.yaml (logistic regression). The least of some repeats counts: other load on the
  machine only ever adds to it.
* protocols: bytes of each phase of an aggregation, seconds of each phase by counted operations and by rates measured
  here, and processor seconds of whole aggregations, masks included, for all clients and the server together.

Coefficients are not negative and make the sum of squares of relative errors least. ``--out`` writes the models as JSON,
the phases and the checks as CSV.
"""

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import process_time
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

HERE = Path(__file__).resolve().parent.parent
PLAYED = """
import json, re, resource, sys
from pathlib import Path
from simfl.runs.run import run
from simfl.scenario import Scenario
folder = Path(sys.argv[2])
run(Scenario.load(sys.argv[1], sys.argv[3:]), folder)
used = resource.getrusage(resource.RUSAGE_SELF)  # whose ru_maxrss may be the parent's
memory = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)
tables = sum(path.stat().st_size for name in ("rounds.csv", "participation.csv", "jobs.csv")
             for path in folder.rglob(name))
print(json.dumps({"seconds": used.ru_utime + used.ru_stime, "memory": 1024 * int(memory), "disk": tables}))
"""
TERMS = {
    "seconds": ("start", "client", "slot", "round", "client_round", "job"),
    "memory": ("start", "client", "slot", "job"),
    "disk": ("start", "round", "job", "job_digit"),
}
"""What a quantity is a sum of. A slot is a client at work at the same time; the tables hold the digits of names."""

RUNS = {
    "million_clients": (
        [(2 * 10**5, 100, 10), (2 * 10**5, 1000, 100), (2 * 10**5, 3000, 30), (2 * 10**5, 100, 300)]
        + [(10**6, 1000, 10), (10**6, 100, 300), (10**6, 3000, 100)]
        + [(3 * 10**6, 100, 30), (3 * 10**6, 3000, 10), (10**7, 1000, 20), (10**7, 100, 60), (3 * 10**7, 1000, 10)],
        [(10**6, 1000, 1000), (6 * 10**7, 1000, 20)],
    ),
    "fedbuff_scale": (
        [(2 * 10**5, 1000, 10), (2 * 10**5, 3000, 60), (2 * 10**5, 10**4, 30), (2 * 10**5, 1000, 100)]
        + [(10**6, 1000, 60), (10**6, 3000, 10), (10**6, 10**4, 100), (3 * 10**6, 10**4, 30)],
        [(10**5, 10**4, 1000), (10**7, 3 * 10**4, 60)],
    ),
    "million_learning": (
        [(2 * 10**5, 100, 10), (2 * 10**5, 1000, 30), (2 * 10**5, 300, 60)]
        + [(5 * 10**5, 1000, 10), (5 * 10**5, 100, 60), (5 * 10**5, 300, 30)],
        [(10**6, 1000, 100), (10**7, 1000, 10)],
    ),
}
"""Clients, slots and rounds of the runs that the model is fitted to, and of those it is checked against."""

FAR = [(10**7, 10**4, 1000), (10**9, 10**4, 1000), (10**9, 10**6, 1000)]

FEW = [(n, d) for n in (20, 40, 60) for d in (10**3, 10**4, 5 * 10**4)]
PROTOCOL_SIZES = {
    "secagg": (FEW, [(100, 10**5), (200, 10**4)]),
    "secagg_plus": ([(2 * n, d) for n, d in FEW], [(300, 10**5)]),
    "lightsecagg": (FEW, [(100, 10**5), (150, 10**4)]),
    "basecagg": (FEW, [(100, 10**5), (150, 10**4)]),
    "pairwise_ratchet": (FEW, [(100, 10**5), (200, 10**4)]),
}
"""Clients in a sum and coordinates of an update, likewise."""


def fit(rows: list[list[float]], values: list[float]) -> np.ndarray:
    """Coefficients >= 0 with the least sum of squared relative errors."""
    from scipy.optimize import nnls

    x, y = np.array(rows, dtype=float), np.array(values, dtype=float)
    x = x / y[:, None]
    scale = np.maximum(np.linalg.norm(x, axis=0), 1e-300)
    found = nnls(x / scale, np.ones(len(y)))[0]
    return np.where(found > 1e-9 * found.max(), found, 0.0) / scale


def rounded(names: Iterable[str], cost: np.ndarray) -> dict[str, float]:
    return {name: float(f"{each:.4g}") for name, each in zip(names, cost, strict=True)}


def parts(scenario: str, size: tuple[int, int, int]) -> dict[str, float]:
    """How many there are of each term."""
    n, k, t = size
    jobs = 1000 * t + k if scenario == "fedbuff_scale" else k * t
    return {
        "start": 1,
        "client": n,
        "round": t,
        "client_round": n * t,
        "job": jobs,
        "job_digit": jobs * np.log10(n),
        "slot": k,
    }


def overrides(scenario: str, size: tuple[int, int, int]) -> list[str]:
    n, k, t = size
    entries = [f"training.concurrency={k}"] if scenario == "fedbuff_scale" else [f"selection.k={k}"]
    return [f"clients={n}", *entries, f"training.rounds={t}"]


def played(scenario: str, size: tuple[int, int, int], repeats: int) -> dict[str, float]:
    """What a run takes, the least of each."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            path = str(HERE / f"scenarios/{scenario}.yaml")
            command = [sys.executable, "-c", PLAYED, path, folder, *overrides(scenario, size)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return {what: min(each[what] for each in found) for what in TERMS}


def told(model: dict[str, dict[str, float]], scenario: str, size: tuple[int, int, int]) -> dict[str, float]:
    """What the model says that a run takes."""
    count = parts(scenario, size)
    return {what: sum(count[term] * cost for term, cost in terms.items()) for what, terms in model.items()}


def check(what: str, size: Any, quantity: str, measured: float, model: float) -> dict[str, Any]:
    row = {"what": what, "size": " x ".join(f"{each:g}" for each in size), "quantity": quantity}
    row |= {"measured": f"{measured:.4g}", "model": f"{model:.4g}", "error": f"{model / measured - 1:+.1%}"}
    print("  ".join(f"{value:>16}" for value in row.values()), flush=True)
    return row


def runs(repeats: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    models: dict[str, Any] = {}
    checks = []
    for scenario, (fitted, checked) in RUNS.items():
        found = {size: played(scenario, size, repeats) for size in fitted}
        models[scenario] = {}
        for what, terms in TERMS.items():
            rows = [[parts(scenario, size)[term] for term in terms] for size in fitted]
            cost = fit(rows, [found[size][what] for size in fitted])
            models[scenario][what] = rounded(terms, cost)
            worst = max(abs(told(models[scenario], scenario, size)[what] / found[size][what] - 1) for size in fitted)
            print(f"{scenario}, {what}: {models[scenario][what]}, fitted within {worst:.0%}", flush=True)
        for size in checked:
            found[size] = played(scenario, size, 1)
            for what, value in told(models[scenario], scenario, size).items():
                checks.append(check(scenario, size, what, found[size][what], value))
        for size in FAR:
            print(f"{scenario}, {size}:", {k: f"{v:.3g}" for k, v in told(models[scenario], scenario, size).items()})
    return models, checks


# -- protocols ------------------------------------------------------------------------------------------

SECONDS, BYTES = ("client", "client_holder", "coordinate", "coordinate_holder"), ("client", "holder", "d", "d_by_n")


def made(name: str, n: int, d: int, **settings: Any) -> tuple[Any, Any, Any]:
    """A protocol, a cohort for it, and streams."""
    from simfl.core.rng import Streams
    from simfl.secagg.base import PROTOCOLS
    from simfl.secagg.sessions import Cohort

    protocol = PROTOCOLS.of({"name": name, "min_sum": 2, "weight_channel": False, **settings})
    return protocol, Cohort(0, np.arange(n, dtype=np.int32)[:, None], d, n, 1.0), Streams(0)


def aggregation(name: str, n: int, d: int, repeats: int) -> float:
    """Processor seconds of a whole aggregation in which nobody fails, all parties together."""
    from secagg import everybody_answers

    from simfl.core.types import Job
    from simfl.secagg.crypto import keys
    from simfl.secagg.sessions import ClientUpdates
    from simfl.training.aggregates import Mean

    protocol, cohort, streams = made(name, n, d)
    vectors = np.random.default_rng(0).normal(0, 0.01, (n, d)).astype(np.float32)
    jobs, ones, there = tuple(Job(c, c, 0, 0.0) for c in range(n)), np.ones(n), np.ones((n, 1), dtype=bool)
    given = ClientUpdates(jobs, vectors, None, ones, ones, np.sum, Mean().combine)
    taken = []
    for _ in range(repeats):
        keys.forget()
        begin = process_time()
        everybody_answers(protocol.setup(cohort, streams))
        secret = everybody_answers(protocol.prepare(cohort, streams)).secret
        done = everybody_answers(protocol.recover(cohort, there, [secret], streams))
        total = protocol.add(done, given, streams)
        taken.append(process_time() - begin)
        assert np.allclose(total.vector, vectors.mean(0), atol=1e-3), "a wrong mean"
    return min(taken)


def holders(name: str, n: int) -> int:
    """Clients who hold something of a client."""
    protocol, cohort, _ = made(name, n, 1)
    return int(protocol.known(cohort).get("neighbours", n - 1))


def phases(name: str, n: int, d: int, rates: dict[str, float]) -> tuple[list[dict[str, Any]], float]:
    """Each phase's bytes and seconds of a client; seconds of the server."""
    from simfl.agents.aggregation.expected import costs

    protocol, cohort, streams = made(name, n, d, rates=rates)
    found = costs(protocol, cohort, False, (4 * d, 4 * d), streams)
    return found["phases"], found["server_s"]


def protocols(repeats: int) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    from simfl.cli.doctor import measure_rates

    rates = measure_rates(process_time)
    models: dict[str, Any] = {"rates": rates}
    checks, table = [], []
    for name, (fitted, checked) in PROTOCOL_SIZES.items():
        held = {n: holders(name, n) for n, _ in [*fitted, *checked]}
        work = {(n, d): [n, n * held[n], n * d, n * held[n] * d] for n, d in [*fitted, *checked]}
        size = {(n, d): [1, held[n], d, d / n] for n, d in [*fitted, *checked]}
        cost = fit([work[each] for each in fitted], [aggregation(name, *each, repeats) for each in fitted])
        models[name] = {"seconds": rounded(SECONDS, cost)}
        print(f"{name}: {models[name]['seconds']}", flush=True)
        asked = {each: phases(name, *each, rates)[0] for each in fitted}
        for i, row in enumerate(asked[fitted[0]]):
            for way in ("bytes_down", "bytes_up"):
                if row[way]:
                    amounts = fit([size[each] for each in fitted], [asked[each][i][way] for each in fitted])
                    models[name][f"{row['phase']} {way}"] = rounded(BYTES, amounts)
        for each in checked:
            took = aggregation(name, *each, repeats)
            checks.append(check(name, each, "seconds, fitted", took, float(np.dot(work[each], cost))))
            rows, server_s = phases(name, *each, rates)
            counted = server_s + sum(row["asked"] * row["seconds"] for row in rows)
            checks.append(check(name, each, "seconds, counted", took, counted))
            for row in rows:
                table.append({"protocol": name, "clients": each[0], "coordinates": each[1], **row})
                for way in ("bytes_down", "bytes_up"):
                    if (amounts := models[name].get(f"{row['phase']} {way}")) is not None:
                        value = float(np.dot(size[each], list(amounts.values())))
                        checks.append(check(name, each, f"{row['phase']} {way}", row[way], value))
            last = {"phase": "server", "times": 1, "seconds": server_s}
            table.append({"protocol": name, "clients": each[0], "coordinates": each[1], **last})
    return models, checks, table


def write(path: Path, table: list[dict[str, Any]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()} for row in table
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="runs, protocols; default both")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    which = options.which or ["runs", "protocols"]
    if unknown := set(which) - {"runs", "protocols"}:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose of runs, protocols")
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    for part in which:
        models, checks, *tables = (runs if part == "runs" else protocols)(options.repeats)
        if options.out:
            (options.out / f"{part}.json").write_text(json.dumps(models, indent=2) + "\n")
            write(options.out / f"{part}_checks.csv", checks)
            for table in tables:
                write(options.out / "phases.csv", table)


if __name__ == "__main__":
    main()
