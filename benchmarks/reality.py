"""Simulated time against real time: twelve throttled client processes, FedAvg and FedBuff, 60 rounds each.

    python benchmarks/reality.py [--shared] [--repeats 3] [--rounds 60] [--out results/reality]

Each client is a process that is throttled (simfl.deployment.remote.throttle) to a device of its own: its line lets so
many bytes a second through, and its work is waited for, so that twelve fit on a few cores. What it learns is a
quadratic function.
FedAvg is ``simfl serve`` itself, with 6 of 12 clients a round. Its clock is simulated, so that it cannot say what an
asynchronous server would do in real time: for FedBuff, this file has a small server in real time on the same HTTP
server and log, with all 12 clients at work and a buffer of 6.

Then ``simfl serve calibrate`` is given the jobs of the first third of the rounds, without each client's first one,
while others still start. The rounds are simulated with its profiles, and the other two thirds are compared: mean and
90th percentile of the rounds' durations, and Kendall's tau of the order in which the updates of one round (under
FedBuff: twelve successive ones) arrive. Writes reality.csv (every round of every repeat), summary.csv, log.csv and
devices.csv (of FedAvg's first repeat) and reality.svg.

With --shared all transfers also pass one line of the server, 400 kB/s down and 150 kB/s up: a fair queue in real time
(benchmarks/shared_line.py). Calibration and simulation are told these two numbers and nothing else of it. For
comparison each log is also calibrated and simulated without them. Nobody begins before all processes have started, so
that all jobs of the first third count. Its tables are in results/reality/shared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
CLIENTS, SELECTED, BUFFER = 12, 6, 6
TOKEN = "only-on-this-machine"
DOWN_BYTES_PER_S, UP_BYTES_PER_S = 4e5, 1.5e5
SHARED = f"network={{name: star, server: {{down_bytes_per_s: {DOWN_BYTES_PER_S}, up_bytes_per_s: {UP_BYTES_PER_S}}}}}"
SCENARIO = f"""
clients: {CLIENTS}
selection: {{name: random, k: {SELECTED}}}
training: {{name: fedavg, rounds: 60, batch_size: 20}}
learning:
  data: digits
  model: mlp
  evaluate: {{every: 0}}
  backend: {{name: external, clients: [{", ".join(map(str, range(CLIENTS)))}]}}
privacy: none
"""
RULES = {
    "fedavg": "training={{name: fedavg, rounds: {rounds}, batch_size: 20}}",
    "fedbuff": f"training={{{{name: fedbuff, concurrency: {CLIENTS}, buffer: {BUFFER}, rounds: {{rounds}}, "
    "batch_size: 20}}",
}


def be_client(address: str, slot: int, samples: int, throttle: str, line: int) -> None:
    """One client: a light process, which imports neither torch nor the scenario; ``line``: port of the shared one."""
    from dataclasses import asdict

    import numpy as np
    from shared_line import SharedThrottle, crossing

    from simfl.deployment.remote.client import ClientError, join
    from simfl.deployment.remote.throttle import parse_throttle

    device = parse_throttle(throttle, slot)
    if line:
        device = SharedThrottle(**asdict(device), cross=crossing(line))
    client = join(address, TOKEN, f"client {slot}", slot, 300.0, device)
    aim = np.random.default_rng(slot).normal(size=1).astype(np.float32)[0]
    try:
        for job in client.jobs():
            model = client.model(job)
            delta = 0.1 * (aim - model)
            client.pretend_work(job, samples)
            client.send(job, delta, float((delta**2).mean()))
    except ClientError as error:  # the server goes when it has what it wants
        print(f"client {slot}: {error}", file=sys.stderr)


@contextmanager
def processes(address: str, samples: list[int], throttle: Path, shared: bool) -> Iterator[None]:
    """The twelve client processes, and the line that they share, for as long as the context lasts."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
    line, started = "0", []
    if shared:
        command = [sys.executable, HERE / "benchmarks/shared_line.py", CLIENTS, DOWN_BYTES_PER_S, UP_BYTES_PER_S]
        started = [subprocess.Popen(map(str, command), env=environment, stdout=subprocess.PIPE, text=True)]
        line = started[0].stdout.readline().strip()
    started += [
        subprocess.Popen(
            [sys.executable, __file__, "--client", address, str(slot), str(samples[slot]), str(throttle), line],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        for slot in range(CLIENTS)
    ]
    try:
        yield
    finally:
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# -- in real time ----------------------------------------------------------------------------------------


def true_devices(path: Path, seed: int) -> None:
    """Twelve devices: speeds over a factor of 5, bandwidths of 3, latency, and work that varies by a tenth."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = ["client,samples_per_s,work_sigma,down_bytes_per_s,up_bytes_per_s,latency_s"]
    for client in range(CLIENTS):
        speed, down, up = (low * span ** rng.random() for low, span in ((80, 5), (6e4, 3), (4e4, 3)))
        rows.append(f"{client},{speed:.1f},0.1,{down:.0f},{up:.0f},{rng.uniform(0.01, 0.08):.3f}")
    path.write_text("\n".join(rows) + "\n")


def real_fedavg(scenario: Any, folder: Path, samples: list[int], throttle: Path, shared: bool) -> None:
    """A run of ``simfl serve``; its log is ``job_times.csv``."""
    from shutil import copy

    from simfl.deployment.remote.job_server import serve

    running = []

    def ready(address: str, token: str) -> None:
        running.append(processes(address, samples, throttle, shared))
        running[0].__enter__()

    finished = serve(scenario, folder / "served", token=TOKEN, ready=ready)
    running[0].__exit__(None, None, None)
    copy(finished.path / "job_times.csv", folder / "job_times.csv")


def real_fedbuff(
    scenario: Any, folder: Path, samples: list[int], throttle: Path, rounds: int, shared: bool
) -> list[float]:
    """An asynchronous server in real time: when each aggregation was done, seconds since 1970."""
    from queue import Queue
    from threading import Thread

    import numpy as np

    from simfl.core.types import Job, JobRequest
    from simfl.deployment.remote.job_server import project, serve_jobs
    from simfl.deployment.remote.jobs import RemoteJobs
    from simfl.deployment.remote.wall_clock import WallClock
    from simfl.results.client_updates import UpdateStore

    out = folder / "asynchronous"
    out.mkdir(parents=True)
    jobs = RemoteJobs(range(CLIENTS), UpdateStore(out), TOKEN, 600.0, project(scenario))
    arrivals: Queue[tuple[int, Any]] = Queue()
    clock, model, buffer, done = WallClock(), np.zeros(dimension(scenario), np.float32), [], []
    started = 0

    def start(client: int) -> None:
        nonlocal started
        request = JobRequest(Job.of(started, client, len(done), 0.0), model, samples[client])
        started += 1
        jobs.request([request])
        Thread(target=lambda: arrivals.put((client, jobs.collect([request])[0])), daemon=True).start()

    with serve_jobs(jobs) as address, processes(address, samples, throttle, shared):
        for client in range(CLIENTS):
            start(client)
        while len(done) < rounds:
            buffer.append(arrivals.get())
            if len(buffer) == BUFFER:
                model = model + np.mean([update.delta for _, update in buffer], axis=0)
                done.append(clock.now_s())
                for client, _ in buffer:  # as in simfl, a client begins again when its update has been aggregated
                    start(client)
                buffer = []
        jobs.end()
    (out / "job_times.csv").replace(folder / "job_times.csv")
    return done


def dimension(scenario: Any) -> int:
    """Coordinates of the scenario's model."""
    from simfl.core.rng import Streams

    return len(scenario.learning.build(scenario, Streams(scenario.seed)).initial())


# -- simulated, and compared -----------------------------------------------------------------------------


def simulate(scenario: Any, folder: Path) -> tuple[list[float], list[tuple[float, int]]]:
    """The end of each round, and when whose update arrived, simulated seconds."""
    import pandas

    from simfl.runs.run import run

    path = run(scenario, folder / "simulated").path
    ends = pandas.read_csv(path / "rounds.csv").time_s.tolist()
    events = map(json.loads, (path / "events.jsonl").read_text().splitlines())
    updates = [(event["arrives_s"], event["from"]) for event in events if event.get("kind") == "update"]
    return ends, sorted(updates)


def kendall(real: list[tuple[float, int]], simulated: list[tuple[float, int]], skip: int, size: int) -> float:
    """Mean tau within groups of ``size`` successive real arrivals, without the first ``skip``.

    An arrival is known by its client and by how many of that client's came before.
    """
    import numpy as np
    from scipy.stats import kendalltau

    when, counts = {}, dict.fromkeys(range(CLIENTS), 0)
    for moment, client in simulated:
        when[client, counts[client]] = moment
        counts[client] += 1
    counts, groups = dict.fromkeys(range(CLIENTS), 0), []
    for position, (_, client) in enumerate(sorted(real)):
        if position % size == 0:
            groups.append([])
        groups[-1].append(when.get((client, counts[client])))
        counts[client] += 1
    taus = [
        kendalltau(range(size), group).statistic
        for group in groups[skip // size :]
        if len(group) == size and None not in group
    ]
    return float(np.mean(taus))


def tau_by_chance(rule: str, repeat: int, rounds: int, folder: Path, shared: bool) -> float:
    """Tau of two simulations of the true devices whose work is drawn differently: no prediction can do better."""
    from simfl.scenario import Scenario

    if rule == "fedavg":  # another seed would select other clients
        return float("nan")
    true_devices(folder / "true.csv", repeat)
    orders = []
    for seed in (repeat, 100 + repeat):
        changes = [f"seed={seed}", RULES[rule].format(rounds=rounds), "trace=events", "devices.profiles=true.csv"]
        changes += [SHARED] * shared
        scenario = Scenario.parse(SCENARIO, f"{rule}{seed}", [*changes, "learning.backend=auto"], folder)
        orders.append(simulate(scenario, folder)[1])
    return kendall(orders[0], orders[1], rounds // 3 * BUFFER, CLIENTS)


def round_ends(rule: str, rows: list[Any], done: list[float]) -> list[float]:
    """The begin of the first round and the end of each: when the next one asked for its first job."""
    if rule == "fedbuff":
        return [min(row.requested_s for row in rows), *done]
    begins: dict[int, float] = {}
    for row in rows:
        begins[row.version] = min(row.requested_s, begins.get(row.version, row.requested_s))
    return [*(begins[version] for version in sorted(begins)), max(row.received_s for row in rows)]


def one(rule: str, repeat: int, rounds: int, folder: Path, shared: bool) -> dict[str, Any]:
    """One real run, its calibration and its simulation."""
    import numpy as np

    from simfl.core.rng import Streams
    from simfl.deployment.remote.job_times import job_times_bytes, read_job_times
    from simfl.scenario import Scenario

    folder.mkdir(parents=True)
    true_devices(folder / "true.csv", repeat)
    changes = [f"seed={repeat}", RULES[rule].format(rounds=rounds)]
    scenario = Scenario.parse(SCENARIO, rule, changes, folder)
    samples = scenario.learning.build(scenario, Streams(repeat)).samples.tolist()
    done: list[float] = []
    if rule == "fedavg":
        real_fedavg(scenario, folder, samples, folder / "true.csv", shared)
    else:
        done = real_fedbuff(scenario, folder, samples, folder / "true.csv", rounds, shared)
    load = os.getloadavg()[0]
    rows, _ = read_job_times(folder / "job_times.csv")
    ends = round_ends(rule, rows, done)
    third = rounds // 3
    first = [row for row in (rows if shared else warm(rows)) if row.received_s <= ends[third]]
    (folder / "log.csv").write_bytes(job_times_bytes(first))
    expected, updates = calibrated(first, changes, folder, shared)
    unaware = calibrated(first, changes, folder / "unaware", False)[0] if shared else []
    arrived = [(row.received_s, row.client) for row in rows]
    return {
        "real": np.diff(ends), "simulated": np.diff([0.0, *expected]), "third": third,
        "unaware": np.diff([0.0, *unaware]), "load": load,
        "tau": kendall(arrived, updates, third * BUFFER, SELECTED if rule == "fedavg" else CLIENTS),
        "overhead": overhead(rule, rows, ends),
    }  # fmt: skip


def calibrated(
    rows: list[Any], changes: list[str], folder: Path, shared: bool
) -> tuple[list[float], list[tuple[float, int]]]:
    """What a simulation with the profiles of a log says; with ``shared`` both know of the server's line."""
    from simfl.deployment.remote.calibration import calibrate_shared, calibration_text, profiles_bytes
    from simfl.network.shared_edges import ServerLink
    from simfl.scenario import Scenario

    line = ServerLink(down_bytes_per_s=DOWN_BYTES_PER_S, up_bytes_per_s=UP_BYTES_PER_S) if shared else ServerLink()
    calibration = calibrate_shared(rows, line)
    folder.mkdir(exist_ok=True)
    (folder / "devices.csv").write_bytes(profiles_bytes(calibration))
    print(calibration_text(calibration))
    changes = [*changes, *[SHARED] * shared, "learning.backend=auto", "trace=events", "devices.profiles=devices.csv"]
    return simulate(Scenario.parse(SCENARIO, "simulated", changes, folder), folder)


def warm(rows: list[Any]) -> list[Any]:
    """The rows without each client's first job, during which other clients' processes still start."""
    seen: set[int] = set()
    return [row for row in sorted(rows, key=lambda row: row.received_s) if row.client in seen or seen.add(row.client)]


def overhead(rule: str, rows: list[Any], ends: list[float]) -> float:
    """Mean real seconds of a round in which no client was at work: what the simulation leaves out."""
    import numpy as np

    if rule == "fedbuff":
        return float("nan")
    last: dict[int, float] = {}
    for row in rows:
        last[row.version] = max(row.received_s, last.get(row.version, 0.0))
    waits = {version: min(row.handed_s for row in rows if row.version == version) for version in last}
    gaps = [waits[v + 1] - last[v] for v in sorted(last) if v + 1 in waits]
    return float(np.mean(gaps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shared", action="store_true", help="all transfers pass one line of the server")
    parser.add_argument("--client", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        address, slot, samples, throttle, line = options.client
        be_client(address, int(slot), int(samples), throttle, int(line))
        return
    options.out = options.out or HERE / "results" / "reality" / ("shared" if options.shared else ".")
    measure(options)


def measure(options: argparse.Namespace) -> None:
    """All repeats; the tables are written after each, so that what was measured stays."""
    import numpy as np
    import pandas

    rounds, summary = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for repeat in range(options.repeats):
            for rule in RULES:
                folder = Path(scratch, f"{rule}{repeat}")
                found = one(rule, repeat, options.rounds, folder, options.shared)
                real, simulated, third = found["real"], found["simulated"], found["third"]
                rounds += [
                    {"rule": rule, "repeat": repeat, "round": t, "real_s": round(real[t], 4),
                     "simulated_s": round(simulated[t], 4), "calibrated_on": t < third}
                    | ({"unaware_s": round(found["unaware"][t], 4)} if options.shared else {})
                    for t in range(len(real))
                ]  # fmt: skip
                ends = [(np.mean(part[third:]), np.quantile(part[third:], 0.9))
                        for part in (real, simulated, *[found["unaware"]] * options.shared)]  # fmt: skip
                summary.append({
                    "rule": rule, "repeat": repeat, "rounds": len(real) - third,
                    "real_mean_s": ends[0][0], "simulated_mean_s": ends[1][0],
                    "mean_error": ends[1][0] / ends[0][0] - 1,
                    "real_p90_s": ends[0][1], "simulated_p90_s": ends[1][1], "p90_error": ends[1][1] / ends[0][1] - 1,
                    "kendall_tau": found["tau"],
                    "tau_of_two_simulations": tau_by_chance(rule, repeat, options.rounds, folder, options.shared),
                    "between_rounds_s": found["overhead"],
                    "real_mean_before_s": real[1:third].mean(),
                    "load": found["load"], "cores": os.cpu_count(),
                })  # fmt: skip
                if options.shared:
                    summary[-1] |= {"unaware_mean_error": ends[2][0] / ends[0][0] - 1,
                                    "unaware_p90_error": ends[2][1] / ends[0][1] - 1}  # fmt: skip
                print(summary[-1], flush=True)
                options.out.mkdir(parents=True, exist_ok=True)
                pandas.DataFrame(summary).round(4).to_csv(options.out / "summary.csv", index=False)
                pandas.DataFrame(rounds).to_csv(options.out / "reality.csv", index=False)
                if rule == "fedavg" and repeat == 0:
                    for name in ("log.csv", "devices.csv"):
                        (options.out / name).write_bytes((folder / name).read_bytes())
    draw(pandas.DataFrame(rounds), options.out)


def draw(table: Any, out: Path) -> None:
    """Real against simulated durations, each sorted, of the rounds that were not calibrated on."""
    from matplotlib import pyplot

    from simfl.report import style
    from simfl.report.saving import save

    with style.settings():
        figure, axes = pyplot.subplots(1, 2, figsize=(7, 3.4))
        for axis, (rule, rows) in zip(axes, table[~table["calibrated_on"]].groupby("rule", sort=False), strict=True):
            largest = max(rows["real_s"].max(), rows["simulated_s"].max()) * 1.05
            axis.plot([0, largest], [0, largest], color="0.7", linewidth=1)
            for marker, (repeat, each) in zip("os^", rows.groupby("repeat")):
                axis.plot(sorted(each["real_s"]), sorted(each["simulated_s"]), marker, markersize=3,
                          label=f"repeat {repeat + 1}")  # fmt: skip
            axis.set(title={"fedavg": "FedAvg", "fedbuff": "FedBuff"}[rule], xlabel="real duration of a round, s",
                     ylabel="simulated, s", xlim=(0, largest), ylim=(0, largest))  # fmt: skip
        axes[0].legend(frameon=False, fontsize=7)
        save(figure, table, out / "reality.svg")


if __name__ == "__main__":
    main()
