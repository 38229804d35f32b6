"""Accuracy against megabytes and against simulated time for eight ways of sending updates, MNIST and CIFAR-10.

    SIMFL_DATA=FOLDER python results/compression/compression.py mnist [--seeds 5] [--out results]
    SIMFL_DATA=FOLDER python results/compression/compression.py cifar10
    python results/compression/compression.py draw

Sweeps scenarios/compression.yaml over the compressions and five seeds (40 runs of 8 s of one core on MNIST, 100 rounds
of a small perceptron; on CIFAR-10 40 rounds of LeNet, 35 s each); finished runs are used again.
Writes beside this file DATA.csv, one row a compression with means and standard deviations over the seeds,
DATA_curves.csv (accuracy over megabytes and simulated time, one row an evaluation, means over the seeds by round) and,
from the curves, compression.svg.
"""

from argparse import Namespace
from pathlib import Path

import pandas

import simfl
from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.report import style
from simfl.report.saving import picture

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "compression.yaml"
SETTINGS: dict[str, tuple[float, dict[str, object]]] = {
    "mnist": (0.9, {}),
    "cifar10": (0.3, {"learning.data": "cifar10", "learning.model": "lenet5", "training.rounds": 40}),
}
"""Target accuracy, and what differs from the scenario."""
SECONDS = {"mnist": 8, "cifar10": 35}
"""Of one core, a run; about."""

COMPRESSIONS: dict[str, dict[str, object]] = {
    "none": {"name": "none"},
    "quantise, 8 bits": {"name": "quantise", "bits": 8, "bucket": 512},
    "quantise, 4 bits": {"name": "quantise", "bits": 4, "bucket": 512},
    "quantise, 4 bits, one norm": {"name": "quantise", "bits": 4},
    "sign": {"name": "sign"},
    "top_k, 1 %": {"name": "top_k", "share": 0.01},
    "random_k, 10 %": {"name": "random_k", "share": 0.1},
    "top_k, 1 %, no feedback": {"name": "top_k", "share": 0.01, "error_feedback": False},
}


def measures(result: Result, target: float) -> dict[str, float]:
    """What one run came to."""
    rounds, summary = result.rounds, result.summary
    sent_mb = (rounds["bytes_up"].cumsum() / 1e6).where(rounds["test_accuracy"] >= target).dropna()
    reached = rounds[rounds["test_accuracy"] >= target]
    return {
        "up_kb": summary["bytes_up"] / rounds["cardinality"].sum() / 1e3,
        "up_mb": summary["bytes_up"] / 1e6,
        "time_s": summary["time_s"],
        "test_accuracy": rounds["test_accuracy"].dropna().iloc[-1],
        "mb_to_target": sent_mb.iloc[0] if len(reached) else float("nan"),
        "time_to_target_s": reached["time_s"].iloc[0] if len(reached) else float("nan"),
        "semi_strong": rounds["privacy_semi_strong"].dropna().iloc[-1],
    }


def play(data: str, options: Namespace) -> None:
    """Writes the table and the curves of one data set."""
    target, overrides = SETTINGS[data]
    runs = {
        (name, seed): runner.scenario(SCENARIO, {"compression": COMPRESSIONS[name], **overrides}, seed)
        for name in COMPRESSIONS
        for seed in range(options.seeds)
    }
    folders, rows, curves = runner.run_all(runs, options, SECONDS[data]), [], []
    for name in COMPRESSIONS:
        results = [simfl.open(folder) for (known, _), folder in folders.items() if known == name]
        if not results:
            continue
        table = pandas.DataFrame([measures(result, target) for result in results])
        row = {"compression": name, "seeds": len(table), "reached": int(table["time_to_target_s"].notna().sum())}
        row |= runner.spread(table)
        rows.append(row)
        shown = pandas.concat([
            each.rounds[["round", "time_s", "test_accuracy"]].assign(up_mb=each.rounds["bytes_up"].cumsum() / 1e6)
            for each in results
        ])  # fmt: skip
        mean = shown.groupby("round", as_index=False).mean()
        curves.append(mean[mean["test_accuracy"].notna()].round(4).assign(compression=name))
    pandas.DataFrame(rows).to_csv(HERE / f"{data}.csv", index=False, lineterminator="\n")
    pandas.concat(curves).to_csv(HERE / f"{data}_curves.csv", index=False, lineterminator="\n")


def markdown(table: pandas.DataFrame) -> str:
    """A table of docs/how-to/compression.md."""
    lines = ["| compression | update, kB | accuracy | sent to the target, MB | time to the target, s | semi-strong |",
             "|---" * 6 + "|"]  # fmt: skip
    for row in table.itertuples():
        few = "" if row.reached == row.seeds else f" ({row.reached} of {row.seeds} seeds)"
        to_target = f"{row.mb_to_target:.1f}{few} | {row.time_to_target_s:.0f}{few}" if row.reached else "never | never"
        spread = f" ± {row.test_accuracy_sd:.3f}" if row.seeds > 1 else ""
        lines.append(
            f"| {row.compression} | {row.up_kb:.1f} | {row.test_accuracy:.3f}{spread} "
            f"| {to_target} | {row.semi_strong:.0f} |"
        )
    return "\n".join(lines) + "\n"


def draw() -> None:
    """Accuracy over megabytes sent by clients, and over simulated time, for each data set."""
    from matplotlib import pyplot

    there = [data for data in SETTINGS if (HERE / f"{data}_curves.csv").exists()]
    with style.settings():
        figure, axes = pyplot.subplots(len(there), 2, figsize=(11, 4 * len(there)), squeeze=False)
        colours = dict(zip(COMPRESSIONS, pyplot.get_cmap("tab10")(range(len(COMPRESSIONS))), strict=True))
        for (left, right), data in zip(axes, there, strict=True):
            curves = pandas.read_csv(HERE / f"{data}_curves.csv")
            for name, curve in curves.groupby("compression", sort=False):
                left.plot(curve["up_mb"], curve["test_accuracy"], color=colours[name], label=name)
                right.plot(curve["time_s"], curve["test_accuracy"], color=colours[name], label=name)
            left.set(title=data, xscale="log", xlabel="sent by clients, MB", ylabel="test accuracy")
            left.xaxis.set_major_formatter("{x:g}")
            right.set(title=data, xlabel="simulated time, s", ylabel="test accuracy")
        axes[0, 0].legend(frameon=False, fontsize=6)
        (HERE / "compression.svg").write_bytes(picture(figure, "svg"))


def main() -> None:
    parser = runner.parser(__doc__, seeds=5)
    parser.add_argument("what", choices=[*SETTINGS, "draw"])
    options = parser.parse_args()
    if options.what != "draw":
        play(options.what, options)
    draw()


if __name__ == "__main__":
    main()
