"""Theorem 2 of Multi-RoundSecAgg (arXiv 2106.03328) beside the loss that is measured, on logistic regression.

    python results/paper001/convergence.py [--seeds 5] [--jobs 2] [--out results]

Runs scenarios/paper001_convergence.yaml for six schemes, with samples dealt at random and sorted by label, at the
rate of the theorem, 2 / (mu (gamma + t)). Writes constants.csv, convergence.csv (the bound, and the measured distance
from the least loss with its 95 % interval, every ten rounds) and convergence.svg. Two minutes on one core.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas
from convex import Constants, Task, constants
from numpy.typing import ArrayLike
from schemes import PAPER, SCENARIOS, arguments

import simfl
from simfl.api.result_objects import Result
from simfl.core.rng import Streams
from simfl.experiments.compare.intervals import mean
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = SCENARIOS / "paper001_convergence.yaml"
SPLITS = {"IID": "iid", "sorted": "{name: data_sharing, shared: 0}"}
"""Samples dealt at random, and sorted by label: every client holds as many."""


def known(scenario: Scenario) -> Constants:
    """The constants of a scenario's clients."""
    learner = scenario.learning.build(scenario, Streams(scenario.seed))
    data, local = learner.data, scenario.training
    task = Task(data.x_train.astype(np.float64), data.y_train, data.classes, local.weight_decay)
    parts = [learner.partition[client] for client in range(scenario.clients)]
    return constants(task, parts, local.batch_size, learner.initial())


def rate(found: Constants) -> dict[str, float]:
    """The learning rate of the theorem, 2 / (mu (gamma + t)), for one local step a round."""
    gamma = max(8 * found.smoothness / found.convexity, 1)
    return {"training.learning_rate": 2 / (found.convexity * gamma), "training.half_at": gamma}


def convergence_bound(
    rounds: ArrayLike,
    *,
    cardinality: float,
    clients: int,
    k: int,
    epochs: int,
    smoothness: float,
    convexity: float,
    gradient_variance: ArrayLike,
    gradient_bound: float,
    heterogeneity: float,
    initial_distance: float,
) -> np.ndarray | float:
    """Bound on E[L(x(J))] - L* after J rounds of federated averaging with equal dropout rates.

    rho / (gamma + C/K E J - 1) * (2 (alpha + beta) / mu^2 + gamma/2 |x(0) - x*|^2), with
    alpha = mean sigma_i^2 + 6 rho Gamma + 8 (E-1)^2 G^2, beta = 4 (N-K) E^2 G^2 / (K (N-1)), gamma = max(8 rho/mu, E).

    Args:
        rounds: J, a number or an array; skipped rounds count.
        cardinality: C, mean number of clients in an aggregation, skipped rounds as 0.
        clients: N.
        k: K, clients in an aggregation.
        epochs: E, local steps in a round.
        smoothness: rho, of every local loss.
        convexity: mu > 0, strong convexity of every local loss.
        gradient_variance: sigma_i^2 of the clients' stochastic gradients, a number or shape (clients,).
        gradient_bound: G, root of the bound on the expected squared norm of stochastic gradients.
        heterogeneity: Gamma, optimum of the global loss minus that of the local losses, >= 0.
        initial_distance: |x(0) - x*|.

    Raises:
        ValueError: an argument is out of its range.

    References:
        MR (arXiv 2106.03328) Theorem 2, after Li et al. 2019, Theorem 3.
    """
    if not (1 <= k <= clients and 0 <= cardinality <= k and epochs >= 1 and smoothness >= convexity > 0):
        raise ValueError("needs 1 <= k <= clients, 0 <= cardinality <= k, epochs >= 1, smoothness >= convexity > 0")
    if min(np.min(gradient_variance), gradient_bound, heterogeneity, initial_distance, np.min(rounds)) < 0:
        raise ValueError("variance, gradient bound, heterogeneity, distance and rounds must not be negative")
    squared = gradient_bound**2
    alpha = (
        float(np.mean(np.asarray(gradient_variance, dtype=np.float64)))
        + 6 * smoothness * heterogeneity
        + 8 * (epochs - 1) ** 2 * squared
    )
    beta = 4 * (clients - k) * epochs**2 * squared / (k * (clients - 1)) if clients > 1 else 0.0
    gamma = max(8 * smoothness / convexity, epochs)
    steps = gamma + cardinality / k * epochs * np.asarray(rounds, dtype=np.float64) - 1
    bound = smoothness / steps * (2 * (alpha + beta) / convexity**2 + gamma / 2 * initial_distance**2)
    return bound if bound.ndim else float(bound)


def bound(found: Constants, result: Result, rounds: np.ndarray) -> np.ndarray:
    """The theorem's bound after these numbers of rounds, at the cardinality that Theorem 1 expects."""
    scenario = result.scenario
    return convergence_bound(
        rounds,
        cardinality=min(result.summary["expected_cardinality"], scenario.selection.k),  # it may be 12 and a rounding
        clients=scenario.clients,
        k=scenario.selection.k,
        epochs=scenario.training.local_steps,
        smoothness=found.smoothness,
        convexity=found.convexity,
        gradient_variance=found.gradient_variance,
        gradient_bound=found.gradient_bound,
        heterogeneity=max(found.heterogeneity, 0.0),
        initial_distance=found.initial_distance,
    )


def play(options: argparse.Namespace) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """The constants of every split and seed; bound and measured gap of every split, scheme and round."""
    told, rows = [], []
    names = {choice: scheme for scheme, choice in PAPER.items()}
    plugin = {"plugins": [[str(HERE / "objective.py")]], "metrics": [["objective"]]}
    for split, partition in SPLITS.items():
        gaps: dict[str, list[pandas.Series]] = {scheme: [] for scheme in PAPER}
        bounds: dict[str, list[np.ndarray]] = {scheme: [] for scheme in PAPER}
        for seed in range(options.seeds):
            texts = [f"seed={seed}", f"learning.partition={partition}", "metrics=[objective]"]
            found = known(simfl.load(SCENARIO, texts, plugins=[str(HERE / "objective.py")]))
            numbers = {key: np.mean(getattr(found, key)) for key in Constants.__dataclass_fields__ if key != "best"}
            told.append({"split": split, "seed": seed, **numbers})
            grid = {"selection": list(PAPER.values()), "learning.partition": partition, "seed": seed}
            swept = simfl.sweep(SCENARIO, grid | rate(found) | plugin, jobs=options.jobs, out=options.out)
            if len(swept.failed):
                raise SystemExit(f"failed:\n{swept.failed.error}")
            for choice, result in zip(swept.runs.selection, swept.results(), strict=True):
                scheme = names[choice]
                objective = result.rounds.set_index("round").objective.dropna()
                gaps[scheme].append(objective - found.least)
                bounds[scheme].append(bound(found, result, objective.index.to_numpy() + 1))
        for scheme in PAPER:
            table, theory = pandas.concat(gaps[scheme], axis=1), np.mean(bounds[scheme], axis=0)
            for (t, values), limit in zip(table.iterrows(), theory, strict=True):
                interval = mean(values.to_numpy())
                rows.append({"split": split, "scheme": scheme, "rounds": t + 1, "seeds": len(values), "bound": limit,
                             "measured": interval.estimate, "half_interval": interval.half_width})  # fmt: skip
    return pandas.DataFrame(told), pandas.DataFrame(rows)


def draw(table: pandas.DataFrame) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2"]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for axis, (split, panel) in zip(axes, table.groupby("split", sort=False), strict=True):
        for (scheme, group), colour in zip(panel.groupby("scheme", sort=False), colours, strict=True):
            axis.plot(group.rounds, group.bound, "--", color=colour, linewidth=1)
            axis.plot(group.rounds, group.measured, "-", color=colour, label=scheme, linewidth=1.4)
        axis.set(title=split, xlabel="rounds", xscale="log", yscale="log")
    axes[0].set_ylabel("loss above the least (dashed: Theorem 2)")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(HERE / "convergence.svg", metadata={"Date": None})


def main() -> None:
    told, table = play(arguments(__doc__, 5).parse_args())
    told.to_csv(HERE / "constants.csv", index=False, float_format="%.6g")
    table.to_csv(HERE / "convergence.csv", index=False, float_format="%.6g")
    draw(table)


if __name__ == "__main__":
    main()
