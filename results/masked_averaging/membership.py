"""Membership inference against the mean and the masked mean (MIT thesis 2022, appendix B.4.3), with LeNet-5.

    python results/masked_averaging/membership.py [--rounds 40] [--seeds 3] [--out results]

Ten clients of scenarios/masked_averaging.yaml share CIFAR-10 (5,000 samples each, 90 % of two classes); all of them
take part in every round, with one local epoch at a rate of 0.01 with momentum 0.9. Updates are averaged (mean), masked
(masked), or shortened by the mask's mean and not masked (shrunk: the control). After the last round a logistic
regression is trained on the logits of half of 10,000 training and 10,000 test samples, and tested on the other half.
Finished runs are reused. Writes beside this file

    membership.csv    one row an arm and seed, after the last round, per cent: the model's accuracy on the training and
                      on the test samples, and the attack's balanced accuracy and area under the ROC curve; seeds in
                      which an arm diverged are left out
"""

from pathlib import Path

import pandas
from masked_averaging import ARMS, HERE, SCENARIO

import simfl
from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean, paired_difference
from simfl.scenario import Scenario

CHANGES = {
    "learning.data": "cifar10",
    "learning.backend": "grouped",
    "training.learning_rate": "0.01",
    "attacks": "[{name: membership, game: in_federation, statistic: logits, candidates: 10000}]",
}
CHOSEN = ("mean", "masked", "shrunk")
PRINTED = {"mean": "57", "masked": "55", "shrunk": ""}
MEASURES = {
    "training_accuracy": "client_accuracy_mean",
    "test_accuracy": "test_accuracy",
    "attack_accuracy": "membership_balanced_accuracy",
    "attack_auc": "membership_auc",
}
SECONDS = 10
"""Processor seconds of a round, about."""


def scenario(arm: str, seed: int, rounds: int) -> Scenario:
    """One run; without clients' own test samples a client's accuracy is that on its training samples."""
    evaluate = f"{{every: {rounds}, per_client: true}}"
    changes = {"training.aggregate": ARMS[arm], "training.rounds": str(rounds), "learning.evaluate": evaluate}
    return runner.scenario(SCENARIO, CHANGES | changes, seed)


def row(folder: Path) -> dict[str, float]:
    """What one run comes to, per cent."""
    summary = simfl.open(folder).summary
    return {measure: 100 * summary[column] for measure, column in MEASURES.items()}


def markdown(table: pandas.DataFrame) -> str:
    """A line for each arm: means over the seeds with their 95 % intervals, and the attack's difference by seed."""
    heads = ("arm", "seeds", "accuracy on training samples", "on test samples", "attack's balanced accuracy",
             "minus that on the mean", "published attack accuracy")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    attacked = table.pivot(index="seed", columns="arm", values="attack_accuracy")
    for arm, runs in table.groupby("arm", sort=False):
        measures = (runs.training_accuracy, runs.test_accuracy, runs.attack_accuracy)
        gap = paired_difference(attacked[arm].tolist(), attacked["mean"].tolist())
        less = "" if arm == "mean" else gap.text()
        cells = (arm, f"{len(runs)}", *(mean(each.tolist()).text() for each in measures), less, PRINTED[arm])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, seeds=3)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    runs = {(arm, seed): scenario(arm, seed, options.rounds) for seed in range(options.seeds) for arm in CHOSEN}
    folders = runner.run_all(runs, options, options.rounds * SECONDS)
    ends = {key: simfl.open(folder).summary.get("diverged_round") for key, folder in folders.items()}
    diverged = {seed for (_, seed), end in ends.items() if end is not None}
    seeds = [s for s in range(options.seeds) if s not in diverged and all((arm, s) in folders for arm in CHOSEN)]
    if not seeds:
        raise SystemExit("no seed has all its runs, or all have diverged; no table is written")
    table = pandas.DataFrame([{"arm": arm, "seed": s} | row(folders[arm, s]) for arm in CHOSEN for s in seeds])
    table.to_csv(HERE / "membership.csv", index=False, float_format="%.5g")
    print(markdown(table))


if __name__ == "__main__":
    main()
