"""What noise and its accounting cost.

    python benchmarks/dp.py

Noising: a stage's part in an aggregation of 100 updates of 10^5 coordinates, over drawing as many normal numbers as it
draws: one a coordinate, and with XNoise, whose parts have seeds of their own, one a coordinate and part. Accounting:
the epsilons of 10^5 clients, each with weights of its own over 100 rounds, over one composition by privacy loss
distributions (dp-accounting, the extra dp). The best of three or five; processor seconds.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import random_array

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.accountant import history_of_log
from simfl.privacy.dp.accountants.pld_and_rdp import Pld
from simfl.privacy.dp.losses import epsilon_timeline
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import STAGES, Members

CLIENTS, DIMENSION = 100, 10**5
STREAMS = Streams(0)
KEYS = {
    "adaptive_gaussian": {"bit_std": 5.0},
    "discrete_laplace": {"fraction_bits": 16, "sharers": CLIENTS},
    "laplace_shares": {"sharers": CLIENTS},
    "output_perturbation": {"epsilon": 1.0, "samples": 100},
    "xnoise": {"tolerance": 3, "bits": 20, "sharers": CLIENTS},
}


def best(work: Callable[[], Any], times: int = 5) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def normals(rows: int, dimension: int) -> None:
    """Normal numbers, from a stream a row."""
    for i in range(rows):
        STREAMS("normal", i).normal(size=dimension)


def noising(name: str) -> tuple[float, float]:
    """Seconds that noise takes beside the same stage without any, and those of as many normal numbers."""
    jobs = tuple(Job(i, i, 0, 0.0) for i in range(CLIENTS))
    members = Members(0, jobs, np.ones(CLIENTS), float(CLIENTS))
    vectors = STREAMS("vectors").normal(size=(CLIENTS, DIMENSION)).astype(np.float32)
    shared = {"bits": 20, "sharers": CLIENTS} if STAGES[name].whole and name not in KEYS else {}
    stage = STAGES.of({"name": name} | shared | KEYS.get(name, {}))
    at_server = STAGES[name].observer == "outside" and name != "laplace_shares"
    state = stage.start(DIMENSION)
    mean = np.zeros(stage.length(DIMENSION), dtype=np.float32)
    if at_server:
        seconds = best(lambda: stage.server(mean, members, state, STREAMS))
        return seconds, best(lambda: STREAMS("normal").normal(size=DIMENSION))
    if STAGES[name].whole:
        to = DIMENSION if name == "discrete_laplace" else stage.grid.points(DIMENSION)
        seconds = best(lambda: [stage.noise(job, to, STREAMS) for job in jobs], 3)
        return seconds, best(lambda: normals(CLIENTS * (1 + stage.seeds), stage.length(DIMENSION)), 3)
    order = 1 if "laplace" in name else 2
    clip = best(lambda: STAGES.of({"name": "clipping", "order": order}).client(vectors, jobs, {}, STREAMS), 3)
    seconds = best(lambda: stage.client(vectors, jobs, state, STREAMS), 3) - clip
    return seconds, best(lambda: normals(CLIENTS, DIMENSION), 3)


def main() -> None:
    for name, cls in STAGES.items():
        if cls.observer:
            mine, normal = noising(name)
            print(f"{name:<20} {mine:8.4f} s  normals {normal:8.4f} s  {mine / normal:5.2f} x")
    mu = STREAMS("mu").random(10**5) * 5
    clients = best(lambda: gaussian.epsilon(mu, 1e-5))
    pld = best(lambda: Pld(delta=1e-5).of_events(np.array([0.1]), np.array([100])))
    print(f"epsilon of 10^5 clients {clients:.4f} s, one PLD composition {pld:.4f} s, {clients / pld:.2f} x")
    P = random_array((100, 10**5), density=0.01, rng=STREAMS("P"), format="csr")
    seen = history_of_log(STAGES.of("central_gaussian"), P, 1)
    print(
        f"the whole course: 100 rounds of 1,000 of 10^5 clients {best(lambda: epsilon_timeline(seen, 1e-5), 3):.3f} s"
    )


if __name__ == "__main__":
    main()
