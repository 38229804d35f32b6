"""Bare SimPy, the one base of processor times: a process a job with three timeouts, started by a process that reads a
store in which jobs put their numbers when they end; nothing is sampled, selected or written.

    python benchmarks/bare_simpy.py [ROUNDS] [--scenario million_clients|fedbuff_scale]... [--repeats 3]
                                    [--engine auto|processes|arrays]

Prints processor seconds of the shipped scenarios (10^6 clients of which 10^3 work at a time; 10^5 clients of which 10^4
do) without start-up, those of bare SimPy for as many jobs, of which as many work at a time, and their ratio. Both are
the least of some repeats, which are played alternately, each in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import simpy

HERE = Path(__file__).resolve().parent.parent
ROUNDS, UPDATES = 1000, 1000
"""Of the shipped scenarios, and in one of their rounds."""

SCENARIOS = {"million_clients": (1000, True), "fedbuff_scale": (10_000, False)}
"""How many clients work at a time, and whether all of them end before others begin."""

PLAYED = """
import sys
from pathlib import Path
from time import process_time
from simfl.runs.run import run
from simfl.scenario import Scenario
scenario = Scenario.load(sys.argv[1], [f"training.rounds={sys.argv[2]}", f"agents.engine={sys.argv[4]}"])
begin = process_time()
run(scenario, Path(sys.argv[3]))
print(process_time() - begin)
"""


def bare_s(jobs: int, at_a_time: int, in_rounds: bool) -> float:
    """Processor seconds of bare SimPy.

    Args:
        jobs: that end in all.
        at_a_time: how many clients work.
        in_rounds: whether the server waits for all of them before it starts others; else each that ends is replaced.
    """
    env = simpy.Environment()
    ended = simpy.Store(env)

    def job(number: int) -> Iterator[simpy.Event]:
        yield env.timeout(0.1)
        yield env.timeout(1 + number % 997 / 997)
        yield env.timeout(0.1)
        ended.put(number)

    def server() -> Iterator[simpy.Event]:
        started = at_a_time
        for number in range(at_a_time):
            env.process(job(number))
        for count in range(1, jobs + 1):
            yield ended.get()
            more = at_a_time * (count % at_a_time == 0) if in_rounds else 1
            for number in range(started, min(started + more, jobs)):
                env.process(job(number))
            started += more

    begin = process_time()
    env.run(env.process(server()))
    return process_time() - begin


def played_s(name: str, rounds: int, engine: str) -> float:
    """Processor seconds of a shipped scenario, without start-up."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = str(HERE / f"scenarios/{name}.yaml")
        return float(output_of("-c", PLAYED, scenario, str(rounds), folder, engine))


def alone_s(jobs: int, at_a_time: int, in_rounds: bool) -> float:
    """:func:`bare_s` in a process of its own."""
    return float(output_of(__file__, "--bare", json.dumps([jobs, at_a_time, in_rounds])))


def output_of(*arguments: str) -> str:
    """What Python prints."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def least(one: Callable[[], float], other: Callable[[], float], repeats: int = 3) -> tuple[float, float]:
    """The least of each, which are called alternately."""
    pairs = [(one(), other()) for _ in range(repeats)]
    first, second = zip(*pairs)
    return min(first), min(second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", choices=("auto", "processes", "arrays"), default="auto")
    parser.add_argument("--bare", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        print(bare_s(*options.bare))
        return
    for name in options.scenario or SCENARIOS:
        jobs = options.rounds * UPDATES
        ours, bare = least(
            lambda name=name: played_s(name, options.rounds, options.engine),
            lambda name=name, jobs=jobs: alone_s(jobs, *SCENARIOS[name]),
            options.repeats,
        )
        print(
            f"{name}, {options.engine}, {jobs:,} jobs: {ours:.2f} s, bare SimPy {bare:.2f} s, ratio {ours / bare:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
