"""Are runs true, do they survive kills, and is damage believed?

    python benchmarks/reliability.py [--scenarios 10000] [--kills 1000] [--damages 2000] [--seed 0] [--pages 20]

* Random scenarios over all families, a third of them full of exact ties: how many violate an invariant that is
  recomputed from their tables alone (``tests/invariants.py``).
* Kills at random steps and at every one of the last steps of random scenarios: how many give other bytes.
* Random damage to finished runs and to the cache, every reader asked: a damage is *believed* where a reader neither
  refuses nor says what it said before.

Exit code 1 if anything was found.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from damages import copied, damaged  # noqa: E402
from search import broken, impatient, killed  # noqa: E402

from simfl.audit.reading import read  # noqa: E402
from simfl.cache import cached  # noqa: E402
from simfl.errors import IntegrityError, SimflError  # noqa: E402
from simfl.opening import Result  # noqa: E402
from simfl.report import read_study  # noqa: E402
from simfl.report.live import Watched  # noqa: E402
from simfl.report.page import page  # noqa: E402
from simfl.report.study import Run  # noqa: E402
from simfl.run import run, verify  # noqa: E402
from simfl.scenario import Scenario  # noqa: E402
from simfl.sweep.folders import summary  # noqa: E402

SYNCHRONOUS = """
name: damaged
clients: 12
devices: {availability: {name: bernoulli, dropout: 0.2}, failure: {name: bernoulli, probability: 0.05}}
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedavg, rounds: 12, batch_size: 20, learning_rate: 0.2}
learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: logistic}
privacy: {stages: [{name: central_gaussian, max_weight: 1000}]}
attacks: [least_squares, {name: membership, candidates: 50}, {name: inversion, method: analytic}]
trace: events
"""
ASYNCHRONOUS = """
name: damaged
clients: 12
network: {name: star, latency_s: 0.1}
devices: {computation: {name: per_sample, seconds: 0.01}}
selection: {name: random, k: 1}
training: {name: fedbuff, concurrency: 4, buffer: 2, rounds: 12}
learning: {name: none, parameters: 100, samples: 10}
"""


def readers(text: str, folder: Path, pages: bool) -> dict:
    """Name -> what reads the folder: plain data that changes where a number changes."""

    def opened():
        found = Result.open(folder)
        return found.summary, found.rounds.to_csv(), found.participation.toarray().tolist(), found.scenario.digest

    def told():
        found = Run.open(folder)
        tables = [t.to_csv() for t in (found.rounds, found.jobs, found.clients_table, found.latency) if t is not None]
        events = found.events.read_bytes() if found.events else b""
        return tables, found.text, events, found.participation.toarray().tolist()

    def watched():
        (one,) = Watched(folder).look()["runs"]
        if one["state"] != "done":
            raise SimflError(str(one["error"]))
        return one["accuracy"], one["time_s"]

    def swept():
        if (found := summary(folder)) is None:
            raise SimflError("no run")
        return found

    asked = {
        "run": lambda: run(Scenario.parse(text, "s"), folder.parent.parent).summary,
        "sweep": swept,
        "open": opened,
        "report": told,
        "audit": lambda: read(folder).matrix.toarray().tolist(),
        "watch": watched,
    }
    if pages:
        asked["page"] = lambda: page(read_study([folder]))
        asked["verify"] = lambda: verify(folder)
    return asked


def folders(damages: int, pages: int, rng: np.random.Generator, scratch: Path) -> Counter:
    counts: Counter = Counter()
    texts = (SYNCHRONOUS, ASYNCHRONOUS)
    pairs = [
        [run(Scenario.parse(text, "s", [f"seed={seed}"]), scratch / f"runs-{k}").path for seed in (0, 1)]
        for k, text in enumerate(texts)
    ]
    truth = [{name: ask() for name, ask in readers(text, pair[0], True).items()} for text, pair in zip(texts, pairs)]
    while counts["damages"] < damages:
        k = int(rng.integers(len(texts)))
        folder = copied(pairs[k][0], scratch / "r" / "damaged" / pairs[k][0].name)
        if (what := damaged(folder, pairs[k][1], rng)) is None:
            continue
        counts["damages"] += 1
        for name, ask in readers(texts[k], folder, counts["damages"] <= pages).items():
            if name == "run" and what == (folder / "summary.json", "remove"):
                continue  # no finished run is left: it is played, not believed
            try:
                with redirect_stderr(StringIO()):
                    found = ask()
            except SimflError as error:
                counts["refused, exit 4" if isinstance(error, IntegrityError) else "refused"] += 1
            except Exception as error:
                counts["crashed"] += 1
                print(f"CRASHED: {name}, {what[0].name} {what[1]}: {type(error).__name__}: {error}")
            else:
                same = found == truth[k][name]
                counts["not concerned" if same else "believed"] += 1
                if not same:
                    print(f"BELIEVED: {name}, {what[0].name} {what[1]}")
    return counts


def cache(damages: int, rng: np.random.Generator, scratch: Path) -> Counter:
    os.environ["SIMFL_CACHE"] = str(scratch / "cache")
    arrays = {"x": np.arange(50_000, dtype=np.float32), "y": np.arange(50_000) % 7}
    cached("twin v1", [], lambda: {name: np.zeros_like(array) for name, array in arrays.items()})
    (twin,) = (scratch / "cache").iterdir()
    cached("some v1", [], lambda: arrays)
    entry = next(path for path in (scratch / "cache").iterdir() if path != twin)
    whole = copied(entry, scratch / "whole")
    counts: Counter = Counter()
    decoded: list[int] = []
    while counts["damages"] < damages:
        if damaged(copied(whole, entry), twin, rng) is None:
            continue
        counts["damages"] += 1
        decoded.clear()
        found = cached("some v1", [], lambda: decoded.append(1) or arrays)
        true = found.keys() == arrays.keys() and all((found[name] == arrays[name]).all() for name in arrays)
        counts[("decoded again" if decoded else "not concerned") if true else "believed"] += 1
    return counts


def scenarios(count: int, seed: int, scratch: Path) -> int:
    """Plays and judges so many random scenarios; how many violate something."""
    begin, wrong, ends = time.monotonic(), {}, Counter()
    for first in range(0, count, 100):
        found, ended = broken(range(first, min(first + 100, count)), scratch / "random", seed)
        wrong |= found
        ends += ended
        shutil.rmtree(scratch / "random", ignore_errors=True)
    for number, violated in sorted(wrong.items())[:20]:
        print(f"  scenario [{seed}, {number}]: {violated[0]}")
    told = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()))
    rate = len(wrong) / max(1, count)
    seconds = time.monotonic() - begin
    print(
        f"random scenarios: {count} ({told}); {len(wrong)} violate an invariant ({rate:.2%}); {seconds:.0f} s",
        flush=True,
    )
    return len(wrong)


def kills(count: int, seed: int, scratch: Path) -> int:
    """Kills random scenarios so often; how many kills changed a byte."""
    begin, done, number, wrong = time.monotonic(), 0, 0, []
    while done < count:
        died, found = killed(number, scratch / "killed", seed, tries=4, last=20 if number % 5 == 0 else 0)
        done, number = done + died, number + 1
        wrong += found
        shutil.rmtree(scratch / "killed")
    for each in wrong[:20]:
        print(f"  {each}")
    seconds = time.monotonic() - begin
    print(f"kills: {done} of {number} random scenarios; {len(wrong)} gave other bytes; {seconds:.0f} s", flush=True)
    return len(wrong)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--scenarios", type=int, default=10_000)
    options.add_argument("--kills", type=int, default=1_000)
    options.add_argument("--damages", type=int, default=2_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--pages", type=int, default=20, help="damages for which pages are drawn and runs verified")
    given = options.parse_args()
    rng = np.random.default_rng(given.seed)
    found, wrong = {}, 0
    with tempfile.TemporaryDirectory() as scratch:
        with impatient():
            wrong += scenarios(given.scenarios, given.seed, Path(scratch)) if given.scenarios else 0
            wrong += kills(given.kills, given.seed, Path(scratch)) if given.kills else 0
        if given.damages:
            found["finished runs"] = folders(given.damages * 3 // 4, given.pages, rng, Path(scratch))
            found["cache"] = cache(given.damages - given.damages * 3 // 4, rng, Path(scratch))
    for name, counts in found.items():
        told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if what != "damages")
        print(f"{name}: {counts['damages']} damages; readings: {told}")
    return int(wrong or any(counts["believed"] or counts["crashed"] for counts in found.values()))


if __name__ == "__main__":
    sys.exit(main())
