"""Figures 2, 3 and 4 and Table 1 of Multi-RoundSecAgg (arXiv 2106.03328), as CSV and SVG beside this file.

    python results/paper001/figures.py [--seeds 20] [--jobs 2] [--out results]
    python results/paper001/figures.py --only counts
    python results/paper001/figures.py --only fairness --seeds 5
    python results/paper001/figures.py --only marks --seeds 10

Runs scenarios/paper001_privacy.yaml for every scheme and seed (finished runs are reused), then draws
figure3.svg from figure3.csv (privacy, fairness gap and cardinality against rounds, mean over the seeds) and
tradeoff.svg from tradeoff.csv (T against C: every divisor T, theory as lines, simulation as points). ``counts`` writes
table1.csv, the number of client sets of each family, from theory alone; ``fairness`` writes fairness.csv, the gap after
200 rounds by both denominators, with 95 % intervals, of the paper's rules and of its authors' (least_total); ``marks``
writes figure3_marks.csv, a row a seed at four rounds, by both rules, of the schemes that the paper's text speaks of.
"""

import numpy as np
import pandas
from figures_drawing import COLUMNS, HERE, draw
from schemes import AUTHORS, PAPER, SCENARIOS, arguments, play

import simfl
from simfl.api.result_objects import Result
from simfl.experiments.compare.intervals import mean
from simfl.selection.theory.expected_cardinality import theory

SCENARIO = "paper001_privacy.yaml"
SCHEMES = PAPER | {
    "batch T=2": "batch_partition:T=2",
    "half T=4": "half_partition:T=4",
    "half T=2": "half_partition:T=2",
}
MARKS = (99, 109, 119, 199)
MARKED = (
    "privacy_strong",
    "privacy_semi_strong",
    "privacy_weak_lower",
    "privacy_weak_upper",
    "fairness_gap",
    "mean_cardinality",
)
EXTRA = {"half T=12": "half_partition:T=12", "half T=6": "half_partition:T=6"}


def figure3(runs: dict[str, list[Result]]) -> pandas.DataFrame:
    """Mean over seeds of every metric, one row a scheme and round; ``exact`` = weak intervals that are one value."""
    rows = []
    for name, results in runs.items():
        frames = [result.rounds for result in results]
        table = {"scheme": name, "round": frames[0]["round"], "seeds": len(frames)}
        for column in ("privacy_weak_lower", *COLUMNS):
            table[column] = np.nanmean([frame[column].ffill() for frame in frames], axis=0)
        table["exact"] = np.mean([frame.privacy_weak_lower == frame.privacy_weak_upper for frame in frames], axis=0)
        rows.append(pandas.DataFrame(table))
    return pandas.concat(rows)


def tradeoff(runs: dict[str, list[Result]]) -> pandas.DataFrame:
    """For every scheme its guarantee and its cardinality: theory and simulation, mean over the seeds."""
    rows = []
    for name, results in runs.items():
        simulated = np.array([result.summary["mean_cardinality"] for result in results])
        expected = np.array([result.summary["expected_cardinality"] for result in results])
        policy = results[0].scenario.selection
        rows.append(
            {
                "scheme": name,
                "family": {"half_partition": "half"}.get(policy.name, "batch"),
                "T": policy.unit_size,
                "expected_cardinality": expected.mean(),
                "simulated_cardinality": simulated.mean(),
                "standard_error": simulated.std(ddof=1) / len(simulated) ** 0.5,
                "seeds": len(simulated),
            }
        )
    return pandas.DataFrame(rows)


def table1() -> pandas.DataFrame:
    """The client sets of the paper's Table 1, as printed and as the families have them."""
    printed = {"partition": 10, "batch T=6": 190, "batch T=4": 4060, "batch T=3": 91_389}
    rows = []
    for scheme, choice in PAPER.items():
        known = theory(simfl.load(SCENARIOS / SCENARIO, {"selection": choice}))
        rows.append({"scheme": scheme, "T": known["T"], "printed": printed.get(scheme), "family": known["family_size"]})
    return pandas.DataFrame(rows).astype({"printed": "Int64"})


def fairness(rules: str, runs: dict[str, list[Result]]) -> pandas.DataFrame:
    """The fairness gap after the last round, among all rounds and among those that were not skipped."""
    rows = []
    for name, results in runs.items():
        told = {"rules": rules, "scheme": name, "seeds": len(results)}
        for column in ("skipped", "fairness_gap", "fairness_gap_unskipped"):
            found = mean([result.summary[column] for result in results])
            told |= {column: found.estimate, f"{column}_half_interval": found.half_width}
        rows.append(told)
    return pandas.DataFrame(rows)


def marks(rules: str, runs: dict[str, list[Result]]) -> pandas.DataFrame:
    """What Figure 3 shows, after some rounds, a row a seed; without what a run does not measure."""
    rows = []
    for name, results in runs.items():
        for seed, result in enumerate(results):
            table = result.rounds.ffill().set_index("round").loc[list(MARKS)]
            table = table[[column for column in MARKED if column in table]].reset_index()
            rows.append(table.assign(rules=rules, scheme=name, seed=seed))
    return pandas.concat(rows)[["rules", "scheme", "seed", "round", *MARKED]]


def main() -> None:
    parser = arguments(__doc__, 20)
    parser.add_argument("--only", choices=("counts", "fairness", "figures", "marks"))
    options = parser.parse_args()
    if options.only in (None, "counts"):
        table1().to_csv(HERE / "table1.csv", index=False)
    if options.only in (None, "fairness"):
        fixed = {"privacy": "none", "metrics": [["fairness_unskipped"]]}
        rules = {"paper": PAPER, "authors": AUTHORS}
        told = [fairness(name, play(SCENARIO, schemes, fixed, options)) for name, schemes in rules.items()]
        pandas.concat(told).to_csv(HERE / "fairness.csv", index=False, float_format="%.6g")
    if options.only in (None, "marks"):
        shown = {name: choice for name, choice in SCHEMES.items() if name not in ("weighted", "batch T=2", "half T=2")}
        paper, others = play(SCENARIO, shown, {}, options), play(SCENARIO, EXTRA, {"privacy": "none"}, options)
        authors = play(SCENARIO, AUTHORS, {"privacy": "none"}, options)
        both = [marks("paper", paper), marks("paper", others), marks("authors", authors)]
        pandas.concat(both).to_csv(HERE / "figure3_marks.csv", index=False, float_format="%.6g")
    if options.only in (None, "figures"):
        runs = play(SCENARIO, SCHEMES, {}, options)
        curves = figure3(runs)
        curves.to_csv(HERE / "figure3.csv", index=False, float_format="%.6g")
        extra = play(SCENARIO, EXTRA, {"privacy": "none"}, options)
        everyone = {name: results for name, results in (runs | extra).items() if name != "weighted"}
        points = tradeoff(everyone)
        points.to_csv(HERE / "tradeoff.csv", index=False, float_format="%.6g")
        draw(pandas.read_csv(HERE / "figure3.csv"), pandas.read_csv(HERE / "tradeoff.csv"))  # rounded, and so the same


if __name__ == "__main__":
    main()
