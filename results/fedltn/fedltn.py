"""Sparse personal models on CIFAR-10 against averages, written beside this file.

    python results/fedltn/fedltn.py low_lenet [--seeds 5] [--rounds N] [--out results]

Runs the arms of one table under the same draws, seed after seed (finished runs are reused):

    low_lenet     ten clients, half of them a round, 50 rounds, LeNet-5
    low_resnet8   the same with a batch-norm ResNet-8: Table 4.1 with a smaller model
    high_lenet    100 clients, 5 % of them a round, 2,000 rounds, LeNet-5: Table 4.3

and writes

    <table>.csv         each arm's accuracy of the models that the clients' last jobs left, on their own test samples
                        (mean and lowest client), the same of what they begin the next job with, published megabytes,
                        and the share of uploaded values that is pruned in round 20 and in the last; mean over seeds
                        with its 95 % interval (<table>_<N>_rounds.csv and so on with --rounds); seeds in which the
                        arm diverged are counted, and left out
    <table>_paired.csv  differences of arms, seed by seed, with their 95 % intervals
    <table>_course.csv  where accuracy is measured more than once: both means, and the training loss, on the way
    <table>.svg         the distribution over all clients and seeds of what their last jobs left
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import pandas

import simfl
from simfl.experiments.compare.intervals import Interval, mean, paired_difference

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "fedltn.yaml"

LENET = {"learning.backend": "{name: grouped, cohort: 5}", "training.learning_rate": "0.02"}
"""At the rate of 0.05, good for the ResNet-8, some clients of a LeNet-5 diverge."""
TABLES = {
    "low_lenet": LENET,
    "low_resnet8": {
        "learning.model": "resnet8",
        "learning.norm_statistics": "averaged",
        "learning.bf16": "true",
    },
    "high_lenet": LENET
    | {"clients": "100", "selection.k": "5", "training.rounds": "2000", "learning.evaluate.every": "500"},
}
BRIEF = {"learning.evaluate.samples": "100", "learning.evaluate.every": "50"}
"""The tables are about clients' own test samples at the end; of the common ones a few do."""

AVERAGED = {"training.server_optimiser": "{name: sgd, momentum: 0}"}
"""The bare name would keep the momentum of the scenario's look-ahead."""
LOTTERY = "{name: lotteryfl, target: %s, step: 0.2, threshold: 0.5}"
ARMS = {
    "FedAvg": AVERAGED | {"training.personal": "none"},
    "FedBN": AVERAGED | {"training.personal": "fedbn"},
    "FedLTN 0.9": {"training.personal.target": "0.9"},
    "FedLTN 0.9, rewinding": {"training.personal.rewind": "true"},
    "LotteryFL 0.5": AVERAGED | {"training.personal": LOTTERY % 0.5},
    "FedLTN 0.5": {"training.personal.target": "0.5"},
    "FedLTN 0.9, plain server": AVERAGED,
    "FedLTN 0.9, no threshold": {"training.personal.threshold": "0"},
    "FedLTN 0.9, threshold 0.5": {"training.personal.threshold": "0.5"},
    "FedBN, look-ahead server": {"training.personal": "fedbn"},
    "FedLTN 0.9, Jump-Start": {"training.personal.name": "jump_start"},
    "LotteryFL 0.1": AVERAGED | {"training.personal": LOTTERY % 0.1},
    "FedLTN 0.1": {"training.personal.target": "0.1"},
    "FedLTN 0.9, threshold 0.4": {"training.personal.threshold": "0.4"},
    "FedLTN 0.9, rewinding, no threshold": {"training.personal.rewind": "true", "training.personal.threshold": "0"},
}
"""Without a threshold every job prunes: what the megabytes come to where nothing holds pruning up."""

MEASURES = {
    "trained_mean": "client_trained_accuracy_mean",
    "trained_min": "client_trained_accuracy_min",
    "before_mean": "client_accuracy_mean",
    "before_min": "client_accuracy_min",
}
PAIRS = (
    ("FedLTN 0.9", "FedLTN 0.9, rewinding"),
    ("FedLTN 0.9, no threshold", "FedLTN 0.9, rewinding, no threshold"),
    ("FedLTN 0.5", "LotteryFL 0.5"),
    ("FedLTN 0.1", "LotteryFL 0.1"),
    ("FedBN", "FedAvg"),
    ("FedLTN 0.9", "FedAvg"),
    ("FedLTN 0.9", "FedBN"),
    ("FedLTN 0.9", "FedLTN 0.9, plain server"),
    ("FedBN", "FedBN, look-ahead server"),
    ("FedLTN 0.9, plain server", "FedBN"),
)
EARLY, AROUND = 20, 5
"""The pruned share "in round 20" is that of the five rounds up to it."""
LATELY = 100
"""Rounds that a training loss on the way is the mean of."""


class Played(NamedTuple):
    """What one run of an arm comes to: its row, its clients' accuracies, and what was measured on the way."""

    row: dict[str, float]
    clients: pandas.DataFrame
    course: pandas.DataFrame
    diverged: bool


def play(name: str, seed: int, options: argparse.Namespace) -> Played | None:
    """One arm; None where only finished runs count, and this is not."""
    changes = BRIEF | TABLES[options.table] | ARMS[name]
    if options.rounds:
        changes |= {"training.rounds": str(options.rounds)}
    if "Jump-Start" in name and "high" not in options.table:
        changes |= {"training.rounds": "25"}
    scenario = simfl.load(SCENARIO, [f"{key}={value}" for key, value in changes.items()], seed=seed)
    if options.finished and not (Path(options.out) / scenario.name / scenario.digest / "summary.json").exists():
        return None
    result = simfl.run(scenario, out=options.out)
    values = {measure: result.summary[column] for measure, column in MEASURES.items()}
    diverged = result.summary.get("diverged_round") is not None
    row = {measure: float("nan") if diverged else 100 * value for measure, value in values.items()}
    sent = result.rounds.bytes_up / 1e6  # averages send whole models; sparse ones say what counts: values only
    if "published_mb" in result.rounds:
        sent = result.rounds.published_mb
    lately = sent.rolling(AROUND).mean()
    row |= {"megabytes": sent.sum(), "sent_20": lately.iloc[EARLY - 1], "sent_last": lately.iloc[-1]}
    course = result.rounds.assign(
        rounds=result.rounds["round"] + 1,
        trained_mean=100 * result.rounds.client_trained_accuracy_mean,
        before_mean=100 * result.rounds.client_accuracy_mean,
        train_loss=result.rounds.train_loss.rolling(LATELY, min_periods=1).mean(),
    )
    course = course.loc[course.trained_mean.notna(), ["rounds", "trained_mean", "before_mean", "train_loss"]]
    return Played(row, pandas.read_csv(result.path / "accuracies.csv"), course, diverged)


def write(found: dict[str, dict[int, dict[str, float]]], diverged: dict[str, int], table: str) -> None:
    """The arms' rows, by seed, as means and as paired differences."""
    whole = pandas.DataFrame(found["FedAvg"].values())
    rows: list[dict[str, Any]] = []
    for name, values in found.items():
        frame = pandas.DataFrame(values.values())
        for when in ("20", "last"):  # of what FedAvg sends in a round
            frame[f"pruned_{when}"] = 100 * (1 - frame.pop(f"sent_{when}") / whole.sent_20.iloc[0])
        row: dict[str, Any] = {"arm": name, "seeds": len(frame), "diverged": diverged[name]}
        for measure in frame:
            row |= columns(measure, mean(frame[measure].to_numpy()))
        rows.append(row | {"share": row["megabytes"] / whole.megabytes.mean()})
    pandas.DataFrame(rows).to_csv(HERE / f"{table}.csv", index=False, float_format="%.5g")
    rows = []
    for one, other in PAIRS:
        if seeds := sorted(found.get(one, {}).keys() & found.get(other, {}).keys()):
            a, b = (pandas.DataFrame([found[name][seed] for seed in seeds]) for name in (one, other))
            row = {"arm": one, "against": other, "seeds": len(seeds)}
            for measure in ("trained_mean", "trained_min", "before_mean", "sent_20", "megabytes"):
                row |= columns(measure, paired_difference(a[measure].to_numpy(), b[measure].to_numpy()))
            rows.append(row)
    pandas.DataFrame(rows).to_csv(HERE / f"{table}_paired.csv", index=False, float_format="%.5g")


def write_courses(courses: dict[str, list[pandas.DataFrame]], table: str) -> None:
    means = {name: pandas.concat(frames).groupby("rounds").mean() for name, frames in courses.items()}
    if max(map(len, means.values())) > 1:
        rows = pandas.concat(means, names=["arm"]).reset_index()
        rows.to_csv(HERE / f"{table}_course.csv", index=False, float_format="%.5g")


def columns(name: str, interval: Interval) -> dict[str, float | None]:
    return {name: interval.estimate, f"{name}_low": interval.lower, f"{name}_high": interval.upper}


def draw(clients: dict[str, list[pandas.DataFrame]], table: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": table, "svg.fonttype": "none"}
    from matplotlib import pyplot

    names = list(clients)
    values = [pandas.concat(frames).trained.dropna().mul(100).to_numpy() for frames in clients.values()]
    figure, axes = pyplot.subplots(figsize=(7, 0.35 * len(names) + 1), layout="constrained")
    axes.boxplot(values, orientation="horizontal", whis=(0, 100), tick_labels=names, widths=0.6)
    axes.invert_yaxis()
    axes.set_xlabel("accuracy on own test samples after local training, % (box: quartiles; whiskers: all clients)")
    figure.savefig(HERE / f"{table}.svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, help="fewer than the table has")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), metavar="ARM", help="FedAvg and these")
    parser.add_argument("--finished", action="store_true", help="run nothing; tabulate the runs that are finished")
    parser.add_argument("--out", default="results")
    options = parser.parse_args()
    names = [
        name for name in dict.fromkeys(["FedAvg", *options.arms]) if "FedBN" not in name or "resnet8" in options.table
    ]
    found: dict[str, dict[int, Played]] = {name: {} for name in names}
    for seed in range(options.seeds):
        for name in names:
            if (played := play(name, seed, options)) is None:
                continue
            found[name][seed] = played
            print(seed, name, {key: round(float(value), 2) for key, value in played.row.items()}, flush=True)
    stem = f"{options.table}_{options.rounds}_rounds" if options.rounds else options.table
    diverged = {name: sum(run.diverged for run in runs.values()) for name, runs in found.items()}
    found = {name: {seed: run for seed, run in runs.items() if not run.diverged} for name, runs in found.items()}
    found = {name: runs for name, runs in found.items() if runs}
    write({name: {seed: run.row for seed, run in runs.items()} for name, runs in found.items()}, diverged, stem)
    write_courses({name: [run.course for run in runs.values()] for name, runs in found.items()}, stem)
    draw({name: [run.clients for run in runs.values()] for name, runs in found.items()}, stem)


if __name__ == "__main__":
    main()
