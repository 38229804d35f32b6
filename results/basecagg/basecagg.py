"""BASecAgg beside FedBuff, the figures of arXiv 2110.02177, section 6, written beside this file.

    python results/basecagg/basecagg.py [--seeds 5] [--scale-seeds 2] [--lenet-seeds 5] [--out results]

Runs scenarios/paper003_basecagg.yaml and the same with secagg: plain (FedBuff), with constant and polynomial
staleness, every seed with the same draws under both, and with LeNet (figure 1); then polynomial staleness on grids of
1 ... 2^30 whole numbers in 1 (figure 2), whose sums may wrap around. Finished runs are reused, killed ones resumed.
Writes curves.csv, differences.csv (over the last five evaluations, paired by seed), scales.csv and basecagg.svg.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas

from simfl.api.result_objects import Result
from simfl.experiments import runner
from simfl.experiments.compare.intervals import paired_difference
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "paper003_basecagg.yaml"
LENET = (
    "learning.model=lenet5",
    "learning.backend=sequential",
    "training.learning_rate=0.05",
    "training.rounds=60",
    "training.decay_at=[45]",
)
SETTINGS: dict[str, Sequence[str]] = {
    "polynomial": (),
    "constant": ("training.staleness=constant",),
    "LeNet, polynomial": LENET,
}
SECAGG: dict[str, list[str]] = {"FedBuff": ["secagg=plain"], "BASecAgg": []}
EXPONENTS = (0, 2, 4, 6, 8, 10, 12, 16, 20, 22, 24, 26, 28, 30)
PUBLISHED = 16
LENETS = (4, 16, 30)
"""Exponents at which LeNet is played, too, once."""
LAST = 5
"""Evaluations of which a run's accuracy is the mean."""


def figure1(seeds: dict[str, int]) -> dict[tuple[str, str, int], Scenario]:
    """The runs of figure 1, by setting, secure aggregation and seed."""
    return {
        (setting, secagg, seed): Scenario.load(SCENARIO, [*chosen, *also, f"seed={seed}"])
        for setting, chosen in SETTINGS.items()
        for seed in range(seeds[setting])
        for secagg, also in SECAGG.items()
    }


def curves(folders: Mapping[tuple[str, str, int], Path]) -> pandas.DataFrame:
    """Figure 1: test accuracy in per cent, one row an evaluation."""
    found = []
    for (setting, secagg, seed), folder in folders.items():
        table = Result.open(folder).rounds.dropna(subset="test_accuracy")
        curve = pandas.DataFrame({"round": table["round"], "test_accuracy": 100 * table["test_accuracy"]})
        found.append(curve.assign(setting=setting, secagg=secagg, seed=seed))
    return pandas.concat(found)[["setting", "secagg", "seed", "round", "test_accuracy"]]


def differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """BASecAgg minus FedBuff, in points, with 95 % intervals over the seeds."""
    rows = []
    for setting, mine in table.groupby("setting", sort=False):
        last = mine[mine["round"].isin(sorted(mine["round"].unique())[-LAST:])]
        means = last.groupby(["seed", "secagg"])["test_accuracy"].mean().unstack()
        plain, hidden = (means[name].to_numpy() for name in SECAGG)
        gap = paired_difference(hidden, plain)
        rows.append(
            {"setting": setting, "seeds": len(plain), "FedBuff": plain.mean(), "BASecAgg": hidden.mean(),
             "difference": gap.estimate, "lower": gap.lower, "upper": gap.upper,
             "largest": abs(hidden - plain).max()}
        )  # fmt: skip
    return pandas.DataFrame(rows)


def figure2(seeds: int, lenet: bool) -> dict[tuple[str, int, int], Scenario]:
    """The runs of figure 2, by network, exponent and seed."""
    plays = [("perceptron", (), seed, exponent) for seed in range(seeds) for exponent in EXPONENTS]
    plays += [("LeNet", LENET, 0, exponent) for exponent in LENETS if lenet]
    runs = {}
    for network, chosen, seed, exponent in plays:
        grid = [] if exponent == PUBLISHED else [f"secagg.scale={2**exponent}", "secagg.on_wrap=allow"]
        runs[network, exponent, seed] = Scenario.load(SCENARIO, [*chosen, *grid, f"seed={seed}"])
    return runs


def scales(folders: Mapping[tuple[str, int, int], Path]) -> pandas.DataFrame:
    """Figure 2: one row a network, seed and grid."""
    found = []
    for key, folder in folders.items():
        table = Result.open(folder).rounds
        accuracy = 100 * table["test_accuracy"].dropna().tail(LAST).mean()
        found.append((*key, accuracy, int(table["wrapped"].sum()), int(table["clipped"].sum())))
    return pandas.DataFrame(found, columns=["network", "exponent", "seed", "test_accuracy", "wrapped", "clipped"])


def draw(curve: pandas.DataFrame, scale: pandas.DataFrame) -> None:
    """Left, means over the seeds from the lowest to the highest; right, a point a run."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for setting, colour in zip(SETTINGS, ("#d55e00", "#0072b2", "#009e73"), strict=True):
        for secagg, dash, shade, width in zip(SECAGG, "-:", (colour, "black"), (2.4, 1.0), strict=True):
            mine = curve[(curve["setting"] == setting) & (curve["secagg"] == secagg)]
            band = mine.groupby("round")["test_accuracy"].agg(["mean", "min", "max"])
            left.plot(band.index + 1, band["mean"], dash, color=shade, linewidth=width, label=f"{secagg}, {setting}")
            left.fill_between(band.index + 1, band["min"], band["max"], color=colour, alpha=0.12, linewidth=0)
    left.set(xlabel="aggregations", ylabel="test accuracy, %", ylim=(80, 100))
    left.legend(frameon=False, loc="lower right")
    for network, colour, mark in (("perceptron", "#d55e00", "."), ("LeNet", "#009e73", "x")):
        mine = scale[scale["network"] == network]
        means = mine.groupby("exponent")["test_accuracy"].mean()
        right.plot(means.index, means, color=colour, linewidth=1.2, label=network)
        right.plot(mine["exponent"], mine["test_accuracy"], mark, color=colour)
    right.legend(frameon=False)
    ticks = [exponent for exponent in EXPONENTS if exponent % 4 == 0 or exponent == EXPONENTS[-1]]
    right.set_xticks(ticks, [f"$2^{{{exponent}}}$" for exponent in ticks])
    right.set(xlabel="whole numbers in 1, $c_l$", ylabel="test accuracy, %", ylim=(80, 100))
    figure.savefig(HERE / "basecagg.svg", metadata={"Date": None})


def main() -> None:
    parser = runner.parser(__doc__, seeds=5)
    parser.add_argument("--scale-seeds", type=int, default=2)
    parser.add_argument("--lenet-seeds", type=int, default=5)
    options = parser.parse_args()
    seeds = dict.fromkeys(SETTINGS, options.seeds) | {"LeNet, polynomial": options.lenet_seeds}
    first, second = figure1(seeds), figure2(options.scale_seeds, options.lenet_seeds > 0)
    folders = runner.run_all(first | second, options, seconds=20)
    scale = scales({key: folders[key] for key in second if key in folders})
    curve = curves({key: folders[key] for key in first if key in folders})
    for name, table in (("curves", curve), ("differences", differences(curve)), ("scales", scale)):
        table.to_csv(HERE / f"{name}.csv", index=False, lineterminator="\n", float_format="%.6g")
    draw(curve, scale)


if __name__ == "__main__":
    main()
