"""BASecAgg beside FedBuff on CIFAR-10, and c_l in units of the update's size (arXiv 2110.02177, figures 1b and 2b).

    python results/basecagg/cifar10.py [--seeds 3] [--out results]

Runs scenarios/paper003_basecagg.yaml on CIFAR-10 with its perceptron at a rate of 0.05, with secagg: plain (FedBuff)
and on grids of c_l = 2^0 ... 2^30 whole numbers in 1, every seed with the same draws under all. Writes cifar10.csv: one
row a run, with the test accuracy in per cent (mean of the last five evaluations), the coordinates of all sums that
wrapped around, and c_l times the root mean square of a client's update: of the first ten clients from the initial
model, and from the last model of FedBuff. cifar10_differences.csv has BASecAgg less FedBuff, paired by seed, with 95 %
intervals.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
from basecagg import LAST, PUBLISHED, SCENARIO

import simfl
from simfl.core.types import Job
from simfl.experiments import runner
from simfl.experiments.compare.intervals import paired_difference
from simfl.runs.run import build
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
CHANGES = {"learning.data": "cifar10", "training.learning_rate": "0.05"}
EXPONENTS = (PUBLISHED, 0, 28, 4, 30, 2, 8)
CLIENTS = 10
SECONDS = 40


def scenario(exponent: int | None, seed: int, changes: dict[str, str] = CHANGES) -> Scenario:
    """One run; without an exponent FedBuff."""
    if exponent is None:
        return runner.scenario(SCENARIO, changes | {"secagg": "plain"}, seed)
    grid = {"secagg.scale": str(2**exponent), "secagg.on_wrap": "allow"}
    return runner.scenario(SCENARIO, changes | ({} if exponent == PUBLISHED else grid), seed)


def update_size(chosen: Scenario, model: np.ndarray | None) -> float:
    """Root mean square of the coordinates of clients' updates from a model; None = the initial one."""
    learner = build(chosen).learner
    learner.put(0, learner.initial() if model is None else model)
    deltas = learner.train([Job.of(0, client, 0, 0.0) for client in range(CLIENTS)]).deltas
    return float(np.sqrt(np.mean(np.square(deltas, dtype=np.float64))))


def rows(folders: dict[tuple[int, int | None], Path]) -> Iterator[dict[str, object]]:
    """Every run whose seed has FedBuff's, too."""
    for (seed, exponent), folder in folders.items():
        if (seed, None) not in folders:
            continue
        if exponent is None:
            last = np.load(folder / "model.npy")
            sizes = update_size(simfl.open(folder).scenario, None), update_size(simfl.open(folder).scenario, last)
        table = simfl.open(folder).rounds
        cells = {
            "seed": seed,
            "secagg": "FedBuff",
            "test_accuracy": 100 * table.test_accuracy.dropna().tail(LAST).mean(),
        }
        if exponent is not None:
            cells |= {"secagg": "BASecAgg", "exponent": exponent, "first_units": 2**exponent * sizes[0],
                      "last_units": 2**exponent * sizes[1], "wrapped": int(table.wrapped.sum())}  # fmt: skip
        yield cells


def differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """BASecAgg less FedBuff in points, paired by seed, with its 95 % interval: a row for each c_l."""
    accuracy = table.pivot(index="seed", columns="exponent", values="test_accuracy")
    plain = accuracy[np.nan]
    pairs = {exponent: pandas.concat([runs, plain], axis=1).dropna() for exponent, runs in accuracy.items()}
    intervals = {e: paired_difference(*both.to_numpy().T) for e, both in pairs.items() if not pandas.isna(e)}
    return pandas.DataFrame(
        [(round(e), i.count, i.estimate, i.lower, i.upper) for e, i in intervals.items()],
        columns=["exponent", "seeds", "difference", "low", "high"],
    )


def markdown(table: pandas.DataFrame) -> str:
    """The table of docs/papers/paper003.md: means over the seeds, by c_l."""
    heads = (
        "",
        "c_l",
        "c_l times the update's root mean square: first, last",
        "accuracy, %",
        "less FedBuff",
        "wrapped",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    gaps = differences(table).set_index("exponent")
    for exponent, runs in table.groupby("exponent"):
        mean, gap = runs.drop(columns="secagg").mean(), gaps.loc[exponent]
        c_l = "2" + f"{exponent:.0f}".translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        units = f"{mean.first_units:.2g}, {mean.last_units:.2g}"
        less = f"{gap.difference:.2f}" + ("" if pandas.isna(gap.low) else f" ({gap.low:.2f} to {gap.high:.2f})")
        less = less.replace("-", "−")
        lines.append(f"| BASecAgg | {c_l} | {units} | {mean.test_accuracy:.2f} | {less} | {mean.wrapped:,.0f} |")
    plain = table.test_accuracy[table.exponent.isna()].mean()
    lines.append(f"| FedBuff |  |  | {plain:.2f} |  |  |")
    return "\n".join(lines) + "\n"


def main() -> None:
    options = runner.parser(__doc__, seeds=3).parse_args()
    runs = {
        (seed, exponent): scenario(exponent, seed) for seed in range(options.seeds) for exponent in (None, *EXPONENTS)
    }
    columns = ["secagg", "exponent", "seed", "test_accuracy", "first_units", "last_units", "wrapped"]
    table = pandas.DataFrame(rows(runner.run_all(runs, options, SECONDS)), columns=columns)
    table.astype({"exponent": "Int64", "wrapped": "Int64"}).to_csv(
        HERE / "cifar10.csv", index=False, lineterminator="\n", float_format="%.6g"
    )
    differences(table).to_csv(HERE / "cifar10_differences.csv", index=False, float_format="%.4f")
    print(markdown(table))


if __name__ == "__main__":
    main()
