"""A referee's experiments: claims of the pages played with twenty seeds, a margin fixed before, and rows by seed.

    SIMFL_DATA=FOLDER python results/referee/referee.py guarded | quorum | selection [--out results]
    python results/referee/referee.py differences

Questions and margins were written down before the runs: :data:`QUESTIONS`. The first three write ``STUDY.csv`` beside
this file, a row a run (finished runs are used again). ``differences`` makes ``differences.csv`` of them: mean paired
differences by seed with Student's 95 % intervals. *No difference* is a margin and an interval inside it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pandas

import simfl
from simfl.experiments import runner
from simfl.experiments.compare.intervals import paired_difference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEEDS = 20
MARGINS = {"test_accuracy": 0.01}
"""Of what is asked to be no different: one point of accuracy."""

ATTACKED = {
    "attacks": "[{name: least_squares, every: 20, coordinates: 500}]",
    "secagg": "{name: secagg, execute: cost_only}",
}
HALVES = {"name": "batch_partition", "k": 12, "T": 3}
STUDIES: dict[str, tuple[str, float, dict[str, dict[str, object]]]] = {
    "guarded": ("guarded.yaml", 0.93, {
        "half_partition, T = 6": {"selection": {"name": "half_partition", "k": 12, "T": 6}, **ATTACKED},
        "guarded, any halves, T = 6": {
            "selection": {"name": "guarded", "inner": HALVES, "T": 6, "reserve": "half", "tries": 20}, **ATTACKED
        },
        "guarded, batch, T = 6": {
            "selection": {"name": "guarded", "inner": {"name": "random", "k": 12}, "T": 6, "reserve": "batch"},
            **ATTACKED,
        },
    }),
    "quorum": ("quorum.yaml", 0.85, {
        f"{name}, {k} selected": {"selection": {"name": name, "k": k, **T}}
        for name, T in (("random", {}), ("batch_partition", {"T": 4}))
        for k in (12, 24)
    }),
    "selection": ("selection.yaml", 0.9, {
        "random": {"selection": {"name": "random", "k": 12}},
        "batch_partition, T = 4": {"selection": {"name": "batch_partition", "k": 12, "T": 4}},
    }),
}  # fmt: skip
"""Scenario, target accuracy and policies of each study; the targets are those of the pages."""
SECONDS = {"guarded": 20, "quorum": 5, "selection": 15}
QUESTIONS = (
    ("guarded", "guarded, any halves, T = 6", "half_partition, T = 6"),
    ("guarded", "guarded, batch, T = 6", "half_partition, T = 6"),
    ("quorum", "random, 24 selected", "random, 12 selected"),
    ("quorum", "batch_partition, 24 selected", "batch_partition, 12 selected"),
    ("selection", "batch_partition, T = 4", "random"),
)
"""Study, policy, and the policy beside which it stands."""
ASKED = ("test_accuracy", "time_to_target_s", "time_s", "fairness_gap", "skipped", "clients_in_sum", "rank",
         "recovery_error")  # fmt: skip


def measures(folder: Path, target: float) -> dict[str, float]:
    """What one run came to; ``clients_in_sum`` is of the rounds that were summed."""
    result = simfl.open(folder)
    rounds, sums = result.rounds, result.participation.toarray()
    reached = rounds[rounds["test_accuracy"] >= target]
    row = {
        "test_accuracy": rounds["test_accuracy"].dropna().iloc[-1],
        "time_to_target_s": reached["time_s"].iloc[0] if len(reached) else float("nan"),
        "time_s": rounds["time_s"].iloc[-1],
        "fairness_gap": rounds["fairness_gap"].iloc[-1],
        "skipped": rounds["skipped"].sum(),
        "clients_in_sum": (sums > 0).sum(axis=1)[(sums > 0).any(axis=1)].mean(),
        "rank": numpy.linalg.matrix_rank(sums),
    }
    if "recovery_error" in rounds:
        row["recovery_error"] = rounds["recovery_error"].dropna().iloc[-1]
    return row


def play(name: str, options: object) -> None:
    """Writes the rows by seed of one study."""
    file, target, policies = STUDIES[name]
    scenarios = ROOT / "scenarios"
    runs = {(policy, seed): runner.scenario(scenarios / file, changes, seed)
            for seed in range(SEEDS) for policy, changes in policies.items()}  # fmt: skip
    folders = runner.run_all(runs, options, SECONDS[name])
    rows = runner.by_seed(("policy", "seed"), folders, lambda folder: measures(folder, target))
    rows.to_csv(HERE / f"{name}.csv", index=False, lineterminator="\n")


def differences() -> Iterator[dict[str, object]]:
    """A row a question and measure, from the stored rows by seed."""
    for study, policy, beside in QUESTIONS:
        if not (HERE / f"{study}.csv").exists():
            continue
        rows = pandas.read_csv(HERE / f"{study}.csv").set_index(["policy", "seed"])
        for measure in rows.columns.intersection(ASKED):
            pair = pandas.concat([rows.loc[policy][measure], rows.loc[beside][measure]], axis=1).dropna()
            if len(pair) < 3:
                continue
            found = paired_difference(pair.iloc[:, 0], pair.iloc[:, 1])
            margin = MARGINS.get(measure)
            inside = margin is not None and -margin < found.lower and found.upper < margin
            yield {"study": study, "policy": policy, "beside": beside, "measure": measure, "pairs": len(pair),
                   "mean_beside": pair.iloc[:, 1].mean(), "difference": found.estimate, "lower": found.lower,
                   "upper": found.upper, "margin": margin, "within_margin": inside if margin else None}  # fmt: skip


def main() -> None:
    parser = runner.parser(__doc__)
    parser.add_argument("study", choices=(*STUDIES, "differences"))
    options = parser.parse_args()
    if options.study == "differences":
        table = pandas.DataFrame(differences()).round(6)
        table.to_csv(HERE / "differences.csv", index=False, lineterminator="\n")
        sys.stdout.write(table.to_string() + "\n")
    else:
        play(options.study, options)


if __name__ == "__main__":
    main()
