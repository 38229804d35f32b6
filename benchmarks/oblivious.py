"""A round of oblivious noise among 5,000 clients against the time that its random words alone take.

    python benchmarks/oblivious.py [--clients 5000] [--elements 105] [--senders 20]

A round is the same work for every sender: it deals masked noise to all others, the server swaps and randomises it, all
receivers take one of two, and the sender steps the ratchet of its pairs and adds their masks. So some senders are timed
in full, with all n - 1 receivers and half of their pairs each (a pair is worked out once), and the time of the round is
n times theirs. The bare time is that of the same field elements from the same generator: n d for masks and n d for the
server's random numbers a sender, d a pair. Processor time, so that other programs do not count. Exits with 1 if the
round takes more than three times the bare time. Key agreements come before the first round and are not in it.
"""

import argparse
import sys
from time import process_time

import numpy as np

from simfl.core.rng import Streams
from simfl.papers.oblivious.noise_messages import GridNoise, ObliviousPlan, Party, choices, forward
from simfl.secagg.crypto.keys import elements, secret, stretch_seed

MOST = 3.0


def round_s(plan: ObliviousPlan, senders: int, pairs: int, streams: Streams) -> float:
    """Seconds of the senders' part in a round, with ``pairs`` pairs each."""
    n, d = plan.parties, plan.elements
    total, random = np.zeros((n, d), dtype=np.int64), np.zeros(d, dtype=np.int64)
    seeds = [secret(streams, "pair", j) for j in range(pairs)]
    began = process_time()
    for i in range(senders):
        dealt = Party(plan, i, streams).draw_noise()
        passed = forward(plan, i, dealt.sent, streams)
        total += np.where(choices(plan, 0, i, streams), passed.pair[1], passed.pair[0])
        total[i] += dealt.zero_share
        random += passed.random
        for j, seed in enumerate(seeds):
            seeds[j], shared = stretch_seed(seed, d)
            total[i] += shared
            total[-1 - j] -= shared
    return process_time() - began


def bare_s(plan: ObliviousPlan, senders: int, pairs: int, streams: Streams) -> float:
    """Seconds that the random words of the same take."""
    n, d = plan.parties, plan.elements
    seeds = [secret(streams, "pair", j) for j in range(pairs)]
    began = process_time()
    for _ in range(senders):
        elements(seeds[0], n * d)
        elements(seeds[1], n * d)
        for seed in seeds:
            elements(seed, d)
    return process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--elements", type=int, default=105)
    parser.add_argument("--senders", type=int, default=20)
    options = parser.parse_args()
    n, pairs = options.clients, (options.clients - 1) // 2
    noise = GridNoise(1 / n, 2 / (n * 200 * 5e-4) * 2**13)
    plan, streams = ObliviousPlan(0, np.arange(n, dtype=np.int32), options.elements, noise), Streams(0)
    bare = bare_s(plan, options.senders, pairs, streams)
    whole = round_s(plan, options.senders, pairs, streams)
    factor = n / options.senders
    print(f"{n} clients, {options.elements} elements: round {factor * whole:.1f} s, its bare random words "
          f"{factor * bare:.1f} s: {whole / bare:.2f} times (at most {MOST:g})")  # fmt: skip
    return int(whole > MOST * bare)


if __name__ == "__main__":
    sys.exit(main())
