"""What secure aggregation costs in processor time, in ratios of one run, so that the machine's speed cancels out.

    python benchmarks/secagg.py [--repeats 3] [--out DIR]

* all of SecAgg (n = 100 clients, d = 10^5 elements: keys, shares, masks, server) to its bare stream, which is ChaCha20
  over as many bytes as it draws masks of;
* the updates of a round (K = 12 clients, cnn_mnist, d = 1,663,370) masked and unmasked, and also rounded, to their
  training (500 samples a client, one epoch);
* LightSecAgg's server with 30 of 100 clients dropped to none, and its decoding (U = 70, T = 50, d = 10^6) to the same
  product in float64;
* runs with execute: cost_only to runs with plain, 10^5 clients in every sum;
* seconds of the server by dropouts, three protocols. ``--out`` writes these as server.csv and server.svg.

Variants are timed in turn; the least time of each counts, for other load on the machine only ever adds to it.
"""

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import csv  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable, Iterable  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from time import process_time  # noqa: E402
from typing import Any  # noqa: E402

import local_rounds  # noqa: E402
import numpy as np  # noqa: E402
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # noqa: E402

from simfl.core.rng import Streams  # noqa: E402
from simfl.core.types import Job  # noqa: E402
from simfl.runs.run import run  # noqa: E402
from simfl.scenario import Scenario  # noqa: E402
from simfl.secagg import pairwise  # noqa: E402
from simfl.secagg.base import PROTOCOLS  # noqa: E402
from simfl.secagg.coded_session import MaskCode, decode_sum  # noqa: E402
from simfl.secagg.crypto import keys  # noqa: E402
from simfl.secagg.crypto.field import Q, inverse, matmul, vandermonde  # noqa: E402
from simfl.secagg.neighbours import circle, degree_and_threshold  # noqa: E402
from simfl.secagg.pairwise_session import PairwiseClient, PairwisePlan, PairwiseServer, Secrets  # noqa: E402
from simfl.secagg.sessions import ClientUpdates, Cohort  # noqa: E402
from simfl.training.aggregates import Mean  # noqa: E402

N, D = 100, 10**5
DIMENSION = 1_663_370
DROPPED = (0, 10, 20, 30)
CODE = {"survivors": 70, "private": 50}

COSTS = """
name: cost_only
clients: 100000
network: {{name: star, latency_s: {{name: log_normal, median: 0.05, sigma: 0.5}}, bandwidth_bytes_per_s: 1.0e+6}}
devices:
  computation: {{name: random, distribution: {{name: half_normal, sigma: 2.0}}}}
  failure: {{name: bernoulli, probability: 0.05}}
selection: all
learning: {{name: none, parameters: 1000000}}
training: {{name: fedavg, rounds: 20, weighting: equal}}
privacy: none
secagg: {secagg}
"""
CHEAP = {
    "secagg": "{name: secagg, threshold: 0.3, execute: cost_only}",
    "secagg_plus": "{name: secagg_plus, execute: cost_only}",
    "lightsecagg": "{name: lightsecagg, execute: cost_only}",
}


def least(variants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least processor seconds of each."""
    found = dict.fromkeys(variants, float("inf"))
    for _ in range(repeats):
        for name, variant in variants.items():
            begin = process_time()
            variant()
            found[name] = min(found[name], process_time() - begin)
    return found


def show(what: str, seconds: float, other: float, bar: float | None = None) -> None:
    aim = "" if bar is None else f" of at most {bar:g}"
    print(f"{what:<68}{seconds:>9.3f} s{seconds / other:>8.2f}{aim}", flush=True)


# -- the sessions ---------------------------------------------------------------------------------------


def everybody_answers(talk: Any) -> Any:
    try:
        ask = next(talk)
        while True:
            ask = talk.send(np.ones(len(ask.to), dtype=bool))
    except StopIteration as end:
        return end.value


def session(n: int, d: int) -> tuple[Any, Any, Streams]:
    """SecAgg, and the end of a session in which nobody fails."""
    protocol = PROTOCOLS.of({"name": "secagg", "min_sum": 2, "weight_channel": False})
    streams = Streams(0)
    cohort = Cohort(0, np.arange(n, dtype=np.int32)[:, None], d, n, 1.0)
    prepared = everybody_answers(protocol.prepare(cohort, streams))
    return (
        protocol,
        everybody_answers(protocol.recover(cohort, np.ones((n, 1), dtype=bool), [prepared.secret], streams)),
        streams,
    )


def whole_sum(n: int, d: int) -> Callable[[], Any]:
    """Everything that clients and server compute for one sum of whole numbers."""
    _, done, streams = session(n, d)
    vectors = {c: np.random.default_rng(c).integers(-(2**20), 2**20, d) for c in range(n)}

    def summed() -> None:
        keys.forget()
        pairwise.replay_sessions(done.secret, vectors, streams)

    return summed


def whole_round(n: int, d: int) -> Callable[[], Any]:
    """The same for updates: they are rounded to whole numbers before, and their sum is made a mean."""
    protocol, done, streams = session(n, d)
    vectors = np.random.default_rng(0).normal(0, 0.01, (n, d)).astype(np.float32)
    jobs = tuple(Job(c, c, 0, 0.0) for c in range(n))
    given = ClientUpdates(jobs, vectors, None, np.ones(n), np.ones(n), np.sum, Mean().combine)

    def added() -> None:
        keys.forget()
        protocol.add(done, given, streams)

    return added


def streams_of(count: int, d: int) -> None:
    """So many streams of d words, and nothing done with them."""
    zeros, room = memoryview(bytes(4 << 15)), bytearray(4 << 15)
    for i in range(count):
        cipher = Cipher(algorithms.ChaCha20(i.to_bytes(32, "little"), bytes(16)), None).encryptor()
        for begin in range(0, 4 * d, len(zeros)):
            cipher.update_into(zeros[: 4 * d - begin], room)


def pairwise_server(k: int, threshold: int, dropped: int) -> Callable[[], Any]:
    """The server of SecAgg or SecAgg+ once all answers are there: sum, secrets, masks."""
    plan = PairwisePlan(0, circle(N, k, np.random.default_rng(0)), threshold, np.arange(N), 2)
    clients = [PairwiseClient(plan, u, Secrets.of(Streams(0), 0, u)) for u in range(N)]
    server = PairwiseServer(plan)
    published = server.publish({u: client.advertise() for u, client in enumerate(clients)})
    forwarded = server.forward({u: client.share(published[u]) for u, client in enumerate(clients)})
    for u, client in enumerate(clients):
        client.receive(forwarded[u])
    vectors = {u: clients[u].mask(np.zeros(D, dtype=np.int64)) for u in range(dropped, N)}
    answers = {u: clients[u].unmask([v for v in clients[u].received_shares if v in vectors]) for u in vectors}
    assert not server.unmask(vectors, range(N), answers).any(), "a sum of zeros"
    return partial(server.unmask, vectors, range(N), answers)


def coded_server(d: int, dropped: int) -> Callable[[], Any]:
    """LightSecAgg's server once all answers are there: sum, decoding."""
    code, rng = MaskCode(**CODE, length=d), np.random.default_rng(0)
    uploads = [rng.integers(0, Q, d) for _ in range(N - dropped)]
    answers = {j: rng.integers(0, Q, code.piece) for j in range(dropped, N)}
    return lambda: (np.sum(uploads, axis=0) - decode_sum(code, answers)) % Q


# -- the parts of the benchmark -------------------------------------------------------------------------


def sums(repeats: int) -> None:
    masks = N * N + N
    found = least({"sum": whole_sum(N, D), "stream": partial(streams_of, masks, D)}, repeats)
    show(f"SecAgg, n = {N}, d = {D:,}, to its bare stream", found["sum"], found["stream"], 3)


def rounds(repeats: int) -> None:
    from simfl.learning.backends.base import BACKENDS

    model, shape, held, *_ = local_rounds.CASES["cnn_mnist"]
    task, works = local_rounds.prepare(model, shape, held)
    engine = BACKENDS.of("sequential").build(task)
    assert len(works[0].start) == DIMENSION
    variants = {
        "masks": whole_sum(local_rounds.K, DIMENSION),
        "all": whole_round(local_rounds.K, DIMENSION),
        "training": lambda: engine.train(works),
    }
    found = least(variants, repeats)
    what = f"a round's masks, K = {local_rounds.K}, d = {DIMENSION:,}, to its training"
    show(what, found["masks"], found["training"], 0.25)
    show("the same with rounding before and the mean after it", found["all"], found["training"])


def one_shot(repeats: int) -> None:
    found = least({f"{dropped}": coded_server(D, dropped) for dropped in (0, 30)}, max(repeats, 5))
    show("LightSecAgg's server, 30 % dropped, to none", found["30"], found["0"], 1.2)
    code, rng = MaskCode(**CODE, length=10**6), np.random.default_rng(1)
    points = np.arange(code.survivors) + 31
    answers = dict(zip((points - 1).tolist(), rng.integers(0, Q, (code.survivors, code.piece)), strict=True))
    wanted = inverse(vandermonde(points, code.survivors))[: code.survivors - code.private]
    left, right = rng.random(wanted.shape), rng.random((code.survivors, code.piece))
    assert np.array_equal(matmul(wanted, np.stack(list(answers.values()))).ravel(), decode_sum(code, answers))
    found = least({"decoding": lambda: decode_sum(code, answers), "product": lambda: left @ right}, max(repeats, 5))
    show("decoding, U = 70, d = 10^6, to the product in float64", found["decoding"], found["product"], 10)


def cost_only(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plays = {
            name: partial(run, Scenario.parse(COSTS.format(secagg=secagg)), Path(folder), force=True)
            for name, secagg in {"plain": "plain", **CHEAP}.items()
        }
        found = least(plays, repeats)
    for name in CHEAP:
        show(f"cost_only, 10^5 clients in a sum: {name} to plain", found[name], found["plain"], 1.3)


def server_times(repeats: int) -> list[dict[str, Any]]:
    """Seconds of each protocol's server by dropouts."""
    k, t = degree_and_threshold(N, 0.1, DROPPED[-1] / N, 40.0, 30.0) or (0, 0)
    servers = {
        "secagg": partial(pairwise_server, N - 1, N // 2),
        f"secagg_plus (k = {k}, t = {t})": partial(pairwise_server, k, t),
        "lightsecagg (U = 70, T = 50)": partial(coded_server, D),
    }
    table = []
    for name, server in servers.items():
        found = least({str(dropped): server(dropped) for dropped in DROPPED}, repeats)
        table += [{"protocol": name, "dropped": int(dropped), "seconds": s} for dropped, s in found.items()]
        print(f"{'server of ' + name:<44}" + "".join(f"{s:>9.3f} s" for s in found.values()), flush=True)
    return table


def draw(table: Iterable[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
    names = list(dict.fromkeys(row["protocol"] for row in table))
    for name, colour, dash in zip(names, ("#d55e00", "#0072b2", "#009e73"), ("-", "--", ":"), strict=True):
        mine = [(row["dropped"], row["seconds"]) for row in table if row["protocol"] == name]
        axes.plot(*zip(*mine, strict=True), dash, marker=".", color=colour, label=name)
    axes.set(xlabel=f"clients of {N} that dropped out", ylabel=f"seconds of the server, d = {D:,}", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for part in (one_shot, sums, rounds, cost_only):
        part(options.repeats)
    print(f"{'dropped of ' + str(N):<44}" + "".join(f"{dropped:>11}" for dropped in DROPPED))
    table = server_times(options.repeats)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        with open(options.out / "server.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, "seconds": f"{row['seconds']:.4g}"} for row in table)
        draw(table, options.out / "server.svg")


if __name__ == "__main__":
    main()
