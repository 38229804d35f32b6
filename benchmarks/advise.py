"""Holds `simfl advise` to what then happens: worlds of known law, in which every policy of its grid is played.

    python benchmarks/advise.py --worlds 200 [--out results/advise]
    python benchmarks/advise.py --table [--out results/advise]
    python benchmarks/advise.py --units [--out results/advise]

Each world is a deployment of a policy of ``benchmarks/forecast.py``, with 4 to 20 past rounds. The advice gets its log
and nothing else. Then every policy of the grid is played in ``TRUE`` further futures of the true devices, the same for
all; as now is the true policy, whatever the log was taken for. A policy keeps the promise if somebody else is exposed
in at most 5 % of these; one that has broken it is not played further. Finished worlds are stored in OUT/worlds.jsonl,
and a second call goes on. ``--table`` sums them up.
"""

import argparse
import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from forecast import HOUR_S, WORLDS, World
from scipy.sparse import csr_array
from scipy.stats import binomtest

from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.core.types import View
from simfl.deployment.audit.log import Log
from simfl.deployment.forecasting import futures as simulating
from simfl.deployment.forecasting.future_span import exposures
from simfl.deployment.forecasting.past import past_of
from simfl.deployment.forecasting.policies import PolicyChoice, policy_of
from simfl.deployment.forecasting.policy_advice import advise, order_by_availability

FAMILIES = "all", "random", "weighted", "batch_partition T=2", "batch_partition T=4", "partition", "half_partition"
PAST = 4, 8, 12, 20
HORIZON = 20
TRUE = 20
"""Futures in which each policy is played; at most one of them may expose somebody else."""


class AdvisedWorld(World):
    """A deployment whose log ends, and whose devices go on."""

    def __init__(self, number: int, family: str | None = None) -> None:
        super().__init__(family or FAMILIES[number % len(FAMILIES)], number)
        self.past_rounds = int(self.rng.choice(PAST))

    def devices(self, rounds: int, rng, start=None):
        """Who is available, bool (rounds, N), when rounds end in hours, and how it goes on from there."""
        on, now_h = start or (rng.random(self.clients) < self.rate, 0.0)
        rows, times_h = np.zeros((rounds, self.clients), dtype=bool), np.zeros(rounds)
        for t in range(rounds):
            now_h += 2 + rng.exponential(1.0)
            day = (now_h - self.dawn) % 24 < self.day
            rate = self.rate * np.where(day, 1.0, self.night)[self.group]
            on = rng.random(self.clients) < rate * (1 - self.memory) + self.memory * on
            rows[t] = on & (rng.random(len(self.away)) >= self.away)[self.group]
            times_h[t] = now_h
        return rows, times_h, (on, now_h)

    def log(self):
        """The past, and where its devices are at its end."""
        policy, rng = policy_of(self.text, self.clients), self.rng
        there, times_h, end = self.devices(self.past_rounds, rng)
        rows, used = np.zeros(there.shape, dtype=bool), np.zeros(self.clients, np.int64)
        for t, on in enumerate(there):
            units = policy.select(View(t, on, used), self.k, rng)
            rows[t, units[(rng.random(units.shape) >= self.failing).all(axis=1)].ravel()] = True
            used += rows[t]
        log = Log(csr_array(rows.astype(float)), range(len(rows)), range(self.clients))
        return past_of(log, times_h * HOUR_S if self.availability == "time_of_day" else None), end


def play(number: int, futures: int) -> dict[str, object]:
    """One world: the advice, and what each policy of the grid leads to in the true devices."""
    world = AdvisedWorld(number)
    about = {"world": number, "policy": world.text, "availability": world.availability, "clients": world.clients,
             "past_rounds": world.past_rounds}  # fmt: skip
    try:
        past, end = world.log()
        advice = advise(past, horizon=HORIZON, futures=futures, seed=number)
    except SimflError as error:
        return about | {"refused": str(error)}
    table, ranking, plan = advice.table(), advice.ranking(), advice.plan
    now = PolicyChoice(world.text, np.arange(world.clients), world.k)
    plan = replace(plan, policies=(now, *advice.choices[1:]))
    truth_lost, truth_safe = np.full((2, len(advice.grid), TRUE), np.nan)
    for future in range(TRUE):
        rng = np.random.default_rng([9, number, future])
        there, times_h, _ = world.devices(HORIZON, rng, end)
        failing = rng.random(there.shape) < world.failing
        for place in np.flatnonzero(np.nansum(truth_safe == 0, axis=1) <= 1):  # the others have broken it
            devices = simulating._World(now, there, failing, times_h * HOUR_S)
            rows, _ = simulating._rounds(plan, devices, place, Streams(number), 10**7 + future)
            since, _ = exposures(plan.span, rows, rng)
            truth_lost[place, future] = (~rows.any(axis=1)).sum()
            truth_safe[place, future] = not ((since >= 0) & (since < HORIZON)).any()
    grid = [{"policy": each.text, "order": each.order, "holds": bool(table["holds"][place]),
             "lost": float(table["lost"][place]), "true_lost": float(np.nanmean(truth_lost[place])),
             "true_safe": float(np.nanmean(truth_safe[place]))} for place, each in enumerate(advice.grid)]  # fmt: skip
    return about | {"exposed_already": advice.exposed_already, "first": ranking[0] if ranking else None, "grid": grid}


def units(out: Path) -> None:
    """Writes OUT/units.csv: batches, half-batches and guards of 2 whose units are runs of the log's order, or are made
    by availability from 40 rounds of uniform selection; 300 further rounds, a row for each world, seed and policy.
    """
    lines = [("world", "seed", "clients", "k", "policy", "units", "lost_share", "clients_a_round", "theory_clients")]
    for name in WORLDS:
        numbers = (number for number in range(10_000, 20_000)
                   if (w := AdvisedWorld(number, "random")).availability == name and w.clients % 2 == 0)  # fmt: skip
        for seed, number in enumerate(itertools.islice(numbers, 5)):
            world = AdvisedWorld(number, "random")
            world.past_rounds, k = 40, 2 * max(2, round(world.k / 2))
            past, end = world.log()
            likely = simulating.available_clients(simulating.plan(past, horizon=40, seed=seed)[0], range(60))
            there, _, _ = world.devices(300, np.random.default_rng([11, number]), end)
            usual = world.rate if name in ("constant", "per_client") else None
            for text in (f"batch_partition:k={k},T=2,mode=fair", f"half_partition:k={k},T=2,mode=fair",
                         f"guarded:T=2,mode=fair,inner={{name: random, k: {k}}}"):  # fmt: skip
                size = 1 if text.startswith("half") else 2
                for kind in ("as_logged", "availability"):
                    whole = np.arange(world.clients)
                    order = whole if kind == "as_logged" else order_by_availability(likely, size)
                    rows, family = played(text, k, order, there), policy_of(text, world.clients).family(world.clients)
                    theory = "" if usual is None or family is None else f"{family.cardinality(usual[order]):.4f}"
                    lines.append((name, seed, world.clients, k, text, kind, f"{(~rows.any(axis=1)).mean():.4f}",
                                  f"{rows.sum(axis=1).mean():.4f}", theory))  # fmt: skip
    with open(out / "units.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def played(text: str, k: int, order: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The rows of a policy whose units are runs of an order, bool as ``there``, without a past."""
    policy, rows, used = policy_of(text, len(order)), np.zeros_like(there), np.zeros(len(order), np.int64)
    history: list[np.ndarray] = []
    for t, on in enumerate(there[:, order]):
        chosen = policy.select(View(t, on, used, history=tuple(history)), k, np.random.default_rng([3, t])).ravel()
        if chosen.size and policy.admits(View(t, on, used, history=tuple(history)), np.sort(chosen)):
            history.append(np.sort(chosen))
            rows[t, order[chosen]] = True
            used[chosen] += 1
    return rows


def share(count: int, of: int) -> str:
    """``93 of 100 (exact 95 % interval 86.1 to 97.1 %)``"""
    if not of:
        return "none of none"
    low, high = binomtest(count, of).proportion_ci()
    return f"{count} of {of}, {count / of:.1%} (exact 95 % interval {low:.1%} to {high:.1%})"


def table(rows: list[dict]) -> str:
    """What all worlds say together."""
    some = [row for row in rows if "grid" in row]
    least = 0.95 - 1e-9
    kept, broken, lost, best, worse, open_worlds = 0, 0, [], [], 0, 0
    for row in some:
        holding = [each["true_lost"] for each in row["grid"] if each["true_safe"] >= least]
        if row["first"] is None:
            broken += bool(holding)
            continue
        first = row["grid"][row["first"]]
        kept += first["true_safe"] >= least
        open_worlds += row["exposed_already"] < row["clients"]
        if holding:
            lost.append(first["true_lost"])
            best.append(min(holding))
            worse += first["true_lost"] > 1.1 * min(holding) + 1 / TRUE
    lines = [f"{len(rows)} worlds, {len(rows) - len(some)} of them refused (policies that are not forecast)",
             f"the first advice keeps the promise in {share(kept + 0, len(some))}",
             f"no advice where one of the grid keeps it: {broken}",
             f"worlds in which somebody was not exposed already: {open_worlds}",
             f"lost rounds of {HORIZON}: first advice {np.mean(lost):.3f}, best of the grid {np.mean(best):.3f}, "
             f"ratio {np.sum(lost) / np.sum(best):.3f}",
             f"more than 10 % above it in {share(worse, len(lost))}"]  # fmt: skip
    for name in WORLDS:
        part = [row for row in some if row["availability"] == name and row["first"] is not None]
        if part:
            good = sum(row["grid"][row["first"]]["true_safe"] >= least for row in part)
            lines.append(f"{name:>12}: promise kept in {good} of {len(part)}")
    return "\n".join(lines)


def main() -> None:
    """Plays the worlds that are missing, and sums all up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/advise"))
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--futures", type=int, default=100)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--units", action="store_true", help="compare ways to make units")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.units:
        return units(arguments.out)
    file = arguments.out / "worlds.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {row["world"] for row in rows}
    for number in [] if arguments.table else range(arguments.worlds):
        if number not in done:
            rows.append(play(number, arguments.futures))
            with open(file, "a") as stored:
                stored.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
