"""Holds forecasts to what then happens: worlds of known law, their logs cut in the middle.

    python benchmarks/forecast.py --worlds 100 --policy half_partition [--out results/forecast] [--futures 100]
    python benchmarks/forecast.py --worlds 30 --policy half_partition --wrong drift
    python benchmarks/forecast.py --table [--out results/forecast]

Each world is a deployment of one of ``FAMILIES`` under one of the five ``WORLDS`` of availability: simfl's own policy
selects among clients whose availability is drawn here. The forecast gets the first half of the log; the script looks
where the second half lies among the futures. Finished worlds are stored in OUT/FAMILY.jsonl, and a second call goes on.
``--table`` writes simfl/deployment/forecasting/coverage.csv, which forecasts print beside their numbers, and
OUT/reliability.svg.

Intervals are widened where those of 95 % of the futures held less: to the share of futures that holds 95 % of what
happened, with the correction for finite samples of conformal prediction (Papadopoulos et al., ECML 2002; Lei et al.,
JASA 113, 2018). How often intervals hold is judged in other deployments than those that they were widened by: of
worlds with even and odd numbers, each half by the other, and of many clients by those of few.

``--wrong`` has devices whose law the forecast's model does not hold: rates that move over the whole log to those of
other clients (``drift``), a third of the clients that leave for good (``leaving``), or clients that are away for two
rounds after they took part (``rest``). These are stored apart, and stand in no table of the package.

Where several futures give one value, the place of what happened among them is drawn at random within the tie; an
interval of discrete values otherwise holds more than its share.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import binomtest

from simfl.core.types import View
from simfl.deployment.audit.log import Log
from simfl.deployment.forecasting.forecast_result import Forecast
from simfl.deployment.forecasting.forecast_text import DRIFT, MISSING
from simfl.deployment.forecasting.future_span import exposures
from simfl.deployment.forecasting.futures import plan
from simfl.deployment.forecasting.parts import simulate_all
from simfl.deployment.forecasting.past import Past, past_of
from simfl.deployment.forecasting.policies import policy_of

QUANTITIES = ("cardinality", "skipped", "exposed_half", "exposed_end", "a_client", "rank_quarter", "rank_half",
              "fairness_gap")  # fmt: skip
"""What is compared: the mean of the clients in a round and rounds without a sum, clients exposed at half of and at the
whole horizon, when a client is, the rank, and the fairness gap."""
WORLDS = ("constant", "per_client", "sticky", "time_of_day", "groups")
FAMILIES = {"all": 1, "random": 1, "weighted": 1, "batch_partition T=2": 2, "batch_partition T=4": 4,
            "batch_partition T=8": 8, "partition": 8, "half_partition": 4}  # fmt: skip
"""Kinds of policies, and clients in a unit at most."""
WIDEST = 0.99
"""Share of futures in an interval, at most: the ends of 200 futures hold no more."""
WRONG = ("drift", "leaving", "rest")
HOUR_S = 3600.0


class World:
    """A deployment of known law: a policy, availability and failures, all from its number."""

    def __init__(self, family: str, number: int, large: bool = False, wrong: str | None = None) -> None:
        self.family, self.number, self.wrong = family, number, wrong
        self.rng = rng = np.random.default_rng([20261, list(FAMILIES).index(family), number, int(large)])
        name, unit = family.split()[0], FAMILIES[family]
        if name == "partition":
            unit = int(rng.choice([3, 4, 6, 8]))
        if name == "half_partition":
            unit = int(rng.choice([2, 4]))
        few, most = (60, 200) if large else (12, 40)
        sizes = [n for n in range(few, most + 1) if n % unit == 0 and n // unit >= 3]
        self.clients = n = int(rng.choice(sizes))
        self.k = (
            int(rng.integers(3, n // 4 + 1)) if unit == 1 else unit * int(rng.integers(1, max(2, n // unit // 3 + 1)))
        )
        self.k = unit if name == "partition" else self.k
        mode = f",mode={rng.choice(['uniform', 'fair'])}"
        self.text = {"all": "all", "random": f"random:k={self.k}", "weighted": f"weighted:k={self.k}",
                     "partition": f"partition:k={self.k}{mode}"}.get(
                         name, f"{name}:k={self.k},T={unit}{mode}")  # fmt: skip
        self.availability = str(rng.choice(WORLDS))
        self.rounds = int(rng.choice([24, 30, 40, 60]))
        least = {1: 0.25, 2: 0.5, 3: 0.55, 4: 0.6, 6: 0.7, 8: 0.75}[unit]
        rate = rng.uniform(least, 0.97, n)
        if name == "all":
            rate = rate / rng.choice([1, 3])  # sums of few clients, so that not all is known at once
        self.rate = np.full(n, rate[0]) if self.availability == "constant" else rate
        self.memory = rng.uniform(0.3, 0.9) if self.availability == "sticky" else 0.0
        groups = int(rng.integers(2, 5))
        self.group = np.arange(n) % groups if rng.random() < 0.5 else np.arange(n) * groups // n
        self.away = rng.uniform(0.05, 0.3, groups) * (self.availability == "groups")
        self.dawn, self.day = rng.uniform(0, 24, groups), rng.uniform(8, 14, groups)
        self.night = rng.uniform(0.2, 0.9) if self.availability == "time_of_day" else 1.0
        self.failing = float(rng.choice([0.0, 0.05])) * (name != "all") / unit

    def play(self) -> Past:
        """The whole log: twice as many rounds as it is given."""
        rng, policy = self.rng, policy_of(self.text, self.clients)
        odd, leaves = np.random.default_rng([8, self.number]), np.full(self.clients, np.inf)
        other, gone = odd.permutation(self.rate), odd.permutation(self.clients)[: self.clients // 3]
        if self.wrong == "leaving":
            leaves[gone] = odd.uniform(self.rounds / 4, self.rounds * 3 / 2, len(gone))
        rows, times_s = np.zeros((2 * self.rounds, self.clients), dtype=bool), np.zeros(2 * self.rounds)
        used, on, now_h = np.zeros(self.clients, np.int64), rng.random(self.clients) < self.rate, 0.0
        for t in range(len(rows)):
            now_h += 2 + rng.exponential(1.0)
            day = (now_h - self.dawn) % 24 < self.day
            moved = t / len(rows) if self.wrong == "drift" else 0.0
            rate = (self.rate * (1 - moved) + other * moved) * np.where(day, 1.0, self.night)[self.group]
            on = rng.random(self.clients) < rate * (1 - self.memory) + self.memory * on
            there = on & (rng.random(len(self.away)) >= self.away)[self.group] & (t < leaves)
            if self.wrong == "rest":
                there &= ~rows[max(0, t - 2) : t].any(axis=0)
            units = policy.select(View(t, there, used), self.k, rng)
            units = units[(rng.random(units.shape) >= self.failing).all(axis=1)]
            rows[t, units.ravel()] = True
            used += rows[t]
            times_s[t] = now_h * HOUR_S
        log = Log(csr_array(rows.astype(float)), range(len(rows)), range(self.clients))
        return past_of(log, times_s if self.availability == "time_of_day" else None, least=0)


def numbers(since, rank, cardinality, gap, client) -> dict[str, np.ndarray]:
    """One number a future for each quantity; arrays with a first axis of futures."""
    horizon = rank.shape[1]
    values = (cardinality.mean(axis=1), (cardinality == 0).sum(axis=1), (since < horizon // 2).sum(axis=1),
              (since < horizon).sum(axis=1), since[:, client], rank[:, horizon // 4], rank[:, horizon // 2],
              gap[:, -1])  # fmt: skip
    return dict(zip(QUANTITIES, (np.asarray(v, dtype=float) for v in values), strict=True))


def place(value: float, futures: np.ndarray, rng: np.random.Generator) -> float:
    """Where a value lies among futures, in [0, 1]; uniform if it is drawn as they are."""
    below, same = int((futures < value - 1e-9).sum()), int((np.abs(futures - value) <= 1e-9).sum())
    return (below + rng.random() * (same + 1)) / (len(futures) + 1)


def judge(world: World, futures: int = 100, model: str | None = None, wrong=None) -> dict[str, object] | None:
    """Where one world's second half lies among its futures; None where its first half has fewer than eight sums.

    ``exposures``: for each tenth of the probability of exposure its number, clients, those that were exposed, and the
    sum of the probabilities.

    Args:
        world: the deployment.
        futures: how many are simulated.
        model: of availability, instead of that of all parts.
        wrong: changes a plan, to see that wrong plans are noticed.
    """
    whole = world.play()
    past = whole.until(world.rounds)
    if np.count_nonzero(past.rows.any(axis=1)) < 8:
        return None
    right, seen, chosen = plan(past, horizon=world.rounds, seed=world.number, model=model)
    made = Forecast(past, right, seen, chosen, simulate_all(right if wrong is None else wrong(right), futures))
    rng, outcome = np.random.default_rng([7, world.number]), made.outcomes[0]
    hidden = np.flatnonzero(~right.span.exposed)
    client = int(rng.choice(hidden)) if len(hidden) else 0
    rows = whole.rows[world.rounds :]
    since, rank = exposures(right.span, rows, rng)
    gap = np.ptp(whole.rows.sum(axis=0)) / len(whole.rows)
    foretold = numbers(outcome.exposed, outcome.rank, outcome.cardinality, outcome.fairness_gap, client)
    happened = numbers(since[None], rank[None], rows.sum(axis=1)[None], np.array([[gap]]), client)
    chance = (outcome.exposed[:, hidden] < world.rounds).mean(axis=0)
    came, part = since[hidden] < world.rounds, np.minimum((chance * 10).astype(int), 9)
    return {"world": world.number, "family": world.family, "policy": world.text, "seen": seen.choice.text,
            "availability": world.availability, "clients": world.clients, "drift": chosen.drift, "left": chosen.left,
            "places": [place(float(happened[name][0]), foretold[name], rng) for name in QUANTITIES],
            "happened": [float(happened[name][0]) for name in QUANTITIES],
            "foretold": [float(foretold[name].mean()) for name in QUANTITIES],
            "exposures": [[int(i), int((part == i).sum()), int(came[part == i].sum()), float(chance[part == i].sum())]
                          for i in np.unique(part)]}  # fmt: skip


def short(value: object) -> object:
    """What is stored of a result: six digits of each number, whole ones as such."""
    if isinstance(value, dict):
        return {name: short(each) for name, each in value.items()}
    if isinstance(value, list):
        return [short(each) for each in value]
    if isinstance(value, float):
        return int(value) if float(value).is_integer() else float(f"{value:.6g}")
    return value


def held(places: np.ndarray, level: float | np.ndarray = 0.95) -> tuple[int, float, float, float]:
    """How many intervals held what happened, their share, and its exact 95 % interval (Clopper and Pearson)."""
    count = int((np.abs(places - 0.5) <= level / 2).sum())
    low, high = binomtest(count, len(places)).proportion_ci()
    return count, count / len(places), float(low), float(high)


def width(places: np.ndarray) -> float:
    """The share of futures, from 0.95 to 0.99, whose middle interval holds 95 % of what is to come, places as these."""
    rank = -(-19 * (len(places) + 1) // 20)
    widest = 2 * np.sort(np.append(np.abs(places - 0.5), 0.5))[rank - 1]
    return float(np.clip(np.ceil(1000 * widest) / 1000, 0.95, WIDEST))


def places_of(results: list[dict[str, object]]) -> np.ndarray:
    """The places of what happened, (worlds, quantities)."""
    return np.array([row["places"] for row in results])


def lines(results: list[dict[str, object]]) -> list[str]:
    """The coverage of each quantity, and of each model of availability."""
    said = [f"{'':>14} {'mean':>8} {'foretold':>8}  {'80 %':>6}  95 % intervals held"]
    for number, name in enumerate(QUANTITIES):
        places = places_of(results)[:, number]
        count, share, low, high = held(places)
        happened, foretold = (np.mean([row[key][number] for row in results]) for key in ("happened", "foretold"))
        said.append(f"{name:>14} {happened:8.3g} {foretold:8.3g}  {held(places, 0.8)[1]:6.1%}  {share:.1%} of "
                    f"{len(places)} ({low:.1%} to {high:.1%}){'' if low <= 0.95 <= high else '  <-'}")  # fmt: skip
    for name in WORLDS:
        places = places_of([row for row in results if row["availability"] == name])
        if len(places):
            said.append(
                f"{name:>14}: {(np.abs(places - 0.5) <= 0.475).mean():.1%} of all quantities in {len(places)} worlds"
            )
    return said


def rows(family: str, few: list[dict[str, object]], many: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Those of simfl/deployment/forecasting/coverage.csv, of worlds of few clients and of many."""
    lines = []
    for results in (few, many) if many else (few,):
        clients, places = [row["clients"] for row in results], places_of(results)
        odd = np.array([row["world"] for row in results]) % 2 == 1
        for name, here, known in zip(QUANTITIES, places.T, places_of(few).T, strict=True):
            level = np.full(len(here), width(known))
            if results is few:
                level[odd], level[~odd] = width(here[~odd]), width(here[odd])
            lines.append((family.split()[0], FAMILIES[family], name, len(here),
                          *(f"{share:.4f}" for share in held(here, level)[1:]), min(clients), max(clients),
                          f"{width(known):.3f}"))  # fmt: skip
    return lines


def reliability(results: list[dict[str, object]]) -> list[tuple[float, float, int]]:
    """For ten ranges of the probability of exposure: its mean, how often it came true, and of how many clients."""
    sums = np.zeros((10, 3))
    for row in results:
        for part, *counts in row["exposures"]:
            sums[part] += counts
    return [(chances / count, came / count, int(count)) for count, came, chances in sums if count]


def played(file: Path) -> list[dict[str, object]]:
    """The stored worlds that had sums enough."""
    stored = file.read_text().splitlines() if file.exists() else []
    return [row for row in map(json.loads, stored) if "places" in row]


def table(out: Path) -> None:
    """Writes what was measured: the package's table, and the reliability diagram."""
    from simfl.core.storage.disk import write_atomically
    from simfl.deployment.forecasting.measured_coverage import TABLE
    from simfl.report import style
    from simfl.report.saving import picture

    heading = ("policy", "unit", "quantity", "cases", "share", "low", "high", "fewest", "most", "level")
    lines, every = [heading], []
    for family in FAMILIES:
        few, many = (played(out / f"{family.replace(' ', '-')}{mark}.jsonl") for mark in ("", "-large"))
        if few:
            lines += rows(family, few, many)
            every += few
    parts = reliability(every)
    _, share, count = parts[-1]
    low, high = binomtest(round(share * count), count).proportion_ci()
    clients = [row["clients"] for row in every]
    lines.append(("every", 1, "certain", count, f"{share:.4f}", f"{low:.4f}", f"{high:.4f}", min(clients), max(clients),
                  0))  # fmt: skip
    with open(TABLE, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    with style.settings():
        fig, ((axes,),) = style.figure()
        axes.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.8, linestyle=":")
        axes.plot([row[0] for row in parts], [row[1] for row in parts], marker="o", **style.look(0))
        axes.set(xlabel="Probability of exposure, foretold", ylabel="Share that was exposed", xlim=(0, 1), ylim=(0, 1))
        write_atomically(out / "reliability.svg", picture(fig, "svg"))


def main() -> None:
    """Plays the worlds that are missing, and sums all up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/forecast"))
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--policy", choices=[*FAMILIES, "every"], default="every")
    parser.add_argument("--large", action="store_true", help="60 to 200 clients")
    parser.add_argument("--wrong", choices=WRONG, help="devices that the model does not hold")
    parser.add_argument("--futures", type=int, default=100)
    parser.add_argument("--model", help="of availability, in every world")
    parser.add_argument("--table", action="store_true", help="write the tables of the worlds that are there")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.table:
        return table(arguments.out)
    for family in FAMILIES if arguments.policy == "every" else [arguments.policy]:
        marks = ["large" if arguments.large else None, arguments.model, arguments.wrong]
        name = "-".join([family.replace(" ", "-"), *filter(None, marks)])
        file = arguments.out / f"{name}.jsonl"
        results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        done = {row["world"] for row in results}
        for number in range(arguments.worlds):
            if number in done:
                continue
            world = World(family, number, arguments.large, arguments.wrong)
            result = judge(world, arguments.futures, arguments.model) or {"world": number}
            results.append(result)
            with open(file, "a") as stored:
                stored.write(json.dumps(short(result), separators=(",", ":")) + "\n")
        worlds = [row for row in results if "places" in row and row["world"] < arguments.worlds]
        named = sum(row["drift"] < DRIFT or row.get("left", 1) < MISSING for row in worlds)
        heading = f"{name}: {len(worlds)} worlds, drift or missing clients named in {named}"
        print(heading, *lines(worlds), sep="\n", flush=True)


if __name__ == "__main__":
    main()
