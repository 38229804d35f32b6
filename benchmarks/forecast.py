"""Holds forecasts to what then happens: worlds of known law, their logs cut in the middle.

``python benchmarks/forecast.py OUT [--worlds 400] [--futures 100]`` plays each world with the simulator's own servers,
gives the first half of its participation log to the forecast, and looks where the second half lies among the futures.
Finished worlds are stored in OUT/worlds.jsonl, and a second call goes on. OUT/coverage.json and OUT/reliability.svg say
how often intervals of 80 and 95 % held what happened, and how often what was foretold with some probability did.

Where several futures give one value, the place of what happened among them is drawn at random within the tie; an
interval of discrete values otherwise holds more than its share.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from simfl.audit.reading import read
from simfl.forecasting.forecast_result import Forecast, forecast
from simfl.forecasting.future_span import exposures, smallest_class
from simfl.forecasting.past import Past, past_of
from simfl.runs.run import run
from simfl.scenario import Scenario

QUANTITIES = ("exposed_half", "exposed_end", "a_client", "rank_quarter", "rank_half", "cardinality", "fairness_gap")
"""What is compared: clients exposed at half of and at the whole horizon, when a client is, the rank, the mean of the
clients in a sum, and the fairness gap."""


def world(number: int) -> dict[str, object]:
    """A deployment of known law."""
    rng = np.random.default_rng([20260, number])
    n, rounds = int(rng.choice([12, 16, 20, 24])), int(rng.choice([24, 30, 40]))
    rates = rng.uniform(0.25, 0.95, n).round(3)
    policy = str(rng.choice(["all", "random", "batch_partition"]))
    markov = policy == "all" and bool(rng.random() < 0.4)
    selection: dict[str, object] = {"name": policy}
    if policy == "random":
        selection["k"] = int(rng.integers(3, n // 4 + 1))
    if policy == "batch_partition":
        selection |= {"k": 4, "T": 2, "mode": str(rng.choice(["uniform", "fair"]))}
        rates = np.repeat(rng.uniform(0.5, 0.98, n // 2), 2).round(3)
    availability: dict[str, object] = {"name": "bernoulli", "dropout": (1 - rates).round(3).tolist()}
    if policy == "all" and not markov:  # sums of few clients, so that not all is known at once
        availability["dropout"] = (1 - rates / 3).round(3).tolist()
    if markov:
        on = rng.uniform(1.5, 5, n).round(2)
        availability = {"name": "markov", "mean_on_rounds": on.tolist(),
                        "mean_off_rounds": (on * rng.uniform(1.5, 6, n)).round(2).tolist()}  # fmt: skip
    failing = 0.0 if policy == "all" else float(rng.choice([0.0, 0.1]))
    return {
        "name": "world", "seed": number, "clients": n, "selection": selection,
        "training": {"name": "fedavg", "rounds": 2 * rounds, "weighting": "equal"},
        "learning": {"name": "none", "parameters": 1}, "privacy": {"name": "none"},
        "devices": {"availability": availability, "failure": {"name": "bernoulli", "probability": failing}},
    }  # fmt: skip


def halves(number: int) -> tuple[Past, Past]:
    """A world's log, and its first half."""
    with tempfile.TemporaryDirectory() as out:
        log = read(run(Scenario.of(world(number)), Path(out)).path)
    whole = past_of(log)
    return whole, whole.until(len(whole.rows) // 2)


def truth(whole: Past, played: Forecast, client: int) -> dict[str, float]:
    """What then happened."""
    rows = whole.rows[played.plan.past_rounds :]
    rng = np.random.default_rng(0)
    since, rank = exposures(played.plan.span, rows, rng)
    assert smallest_class(played.plan.span, rows, rng)[-1] >= 1
    counts = whole.rows.sum(axis=0)
    return numbers(since[None], rank[None], rows.sum(axis=1)[None],
                   np.array([[np.ptp(counts) / len(whole.rows)]]), client)  # fmt: skip


def numbers(since, rank, cardinality, gap, client) -> dict[str, object]:
    """One number a future for each quantity; arrays with a first axis of futures."""
    horizon = rank.shape[1]
    values = ((since < horizon // 2).sum(axis=1), (since < horizon).sum(axis=1), since[:, client],
              rank[:, horizon // 4], rank[:, horizon // 2], cardinality.mean(axis=1), gap[:, -1])  # fmt: skip
    return dict(zip(QUANTITIES, (np.asarray(v, dtype=float) for v in values), strict=True))


def place(value: float, futures: np.ndarray, rng: np.random.Generator) -> float:
    """Where a value lies among futures, in [0, 1]; uniform if it is drawn as they are."""
    below, same = int((futures < value - 1e-9).sum()), int((np.abs(futures - value) <= 1e-9).sum())
    return (below + rng.random() * (same + 1)) / (len(futures) + 1)


def judge(number: int, futures: int = 100, model: str | None = None, wrong=None) -> dict[str, object] | None:
    """Where one world's second half lies among its futures; None where its first half has no two sums.

    Args:
        number: of the world.
        futures: how many are played.
        model: of availability, instead of the one that is chosen.
        wrong: changes a plan, to see that wrong plans are noticed.
    """
    whole, past = halves(number)
    if np.count_nonzero(past.rows.any(axis=1)) < 2:
        return None
    made = played(past, len(whole.rows) - len(past.rows), futures, number, model, wrong)
    rng = np.random.default_rng([7, number])
    outcome = made.outcomes[0]
    hidden = np.flatnonzero(~made.plan.span.exposed)
    client = int(rng.choice(hidden)) if len(hidden) else 0
    foretold = numbers(outcome.exposed, outcome.rank, outcome.cardinality, outcome.fairness_gap, client)
    happened = truth(whole, made, client)
    places = {name: place(float(happened[name][0]), foretold[name], rng) for name in QUANTITIES}
    chance = (outcome.exposed[:, hidden] < made.plan.horizon).mean(axis=0)
    came = exposures(made.plan.span, whole.rows[len(past.rows) :], rng)[0][hidden] < made.plan.horizon
    rates = np.clip(chance, 0.5 / futures, 1 - 0.5 / futures)
    loss = -float(np.where(came, np.log(rates), np.log1p(-rates)).mean()) if len(hidden) else None
    return {"world": number, "policy": world(number)["selection"]["name"], "model": made.model.fitted.model,
            "places": places, "chance": chance.tolist(), "came": came.tolist(), "loss": loss}  # fmt: skip


def played(past: Past, horizon: int, futures: int, seed: int, model: str | None, wrong) -> Forecast:
    """A forecast; with ``wrong``, of a changed plan."""
    if wrong is None:
        return forecast(past, horizon=horizon, futures=futures, seed=seed, model=model)
    from simfl.forecasting.futures import plan
    from simfl.forecasting.parts import simulate_all

    right, seen, chosen = plan(past, horizon=horizon, seed=seed, model=model)
    changed = wrong(right)
    outcomes = simulate_all(changed, futures)
    return Forecast(past, right, seen, chosen, outcomes)


def coverage(results: list[dict[str, object]]) -> dict[str, object]:
    """Shares of what happened that intervals held, of all quantities and of each."""
    places = {name: np.array([row["places"][name] for row in results]) for name in QUANTITIES}
    shares = {name: {"80": _share(values, 0.8), "95": _share(values, 0.95)} for name, values in places.items()}
    every = np.concatenate(list(places.values()))
    losses = [row["loss"] for row in results if row["loss"] is not None]
    return {"worlds": len(results), "all": {"80": _share(every, 0.8), "95": _share(every, 0.95)}, "each": shares,
            "log_loss": float(np.mean(losses)) if losses else None, "reliability": reliability(results)}  # fmt: skip


def _share(places: np.ndarray, level: float) -> float:
    return float((np.abs(places - 0.5) <= level / 2).mean())


def reliability(results: list[dict[str, object]]) -> list[dict[str, float]]:
    """For ten ranges of the probability: its mean, how often it came true, and how many there were."""
    chance = np.concatenate([row["chance"] for row in results])
    came = np.concatenate([row["came"] for row in results]).astype(float)
    part = np.minimum((chance * 10).astype(int), 9)
    return [{"foretold": float(chance[part == i].mean()), "came": float(came[part == i].mean()),
             "count": int((part == i).sum())} for i in range(10) if (part == i).any()]  # fmt: skip


def draw(summary: dict[str, object], path: Path) -> None:
    """The reliability diagram."""
    from simfl.core.storage.disk import write_atomically
    from simfl.report import style
    from simfl.report.saving import picture

    with style.settings():
        fig, ((axes,),) = style.figure()
        table = summary["reliability"]
        axes.plot([0, 1], [0, 1], color=style.MUTED, linewidth=0.8, linestyle=":")
        axes.plot([row["foretold"] for row in table], [row["came"] for row in table], marker="o", **style.look(0))
        axes.set(xlabel="Probability of exposure, foretold", ylabel="Share that was exposed", xlim=(0, 1), ylim=(0, 1))
        write_atomically(path, picture(fig, "svg"))


def main() -> None:
    """Plays the worlds that are missing, and sums all up."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--futures", type=int, default=100)
    parser.add_argument("--model", help="of availability, in every world")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / f"worlds{'-' + arguments.model if arguments.model else ''}.jsonl"
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {row["world"] for row in results}
    for number in range(arguments.worlds):
        if number in done or (result := judge(number, arguments.futures, arguments.model)) is None:
            continue
        results.append(result)
        with open(file, "a") as lines:
            lines.write(json.dumps(result) + "\n")
    summary = coverage(results)
    (arguments.out / f"coverage{'-' + arguments.model if arguments.model else ''}.json").write_text(
        json.dumps(summary, indent=2) + "\n")  # fmt: skip
    draw(summary, arguments.out / "reliability.svg")
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
