"""Membership inference against the mean and the masked mean (MIT thesis 2022, appendix B.4.3), with LeNet-5.

    python results/masked_averaging/membership.py 200 --seeds 3 [--out results]
    python results/masked_averaging/membership.py 5000 --seeds 1 [--out results]

Ten clients of scenarios/masked_averaging.yaml share CIFAR-10, or its first 2,000 training samples only, on which the
model overfits within hours (5,000 or 200 samples a client, 90 % of two classes); all of them take part in every round,
with one local epoch at a rate of 0.01 with momentum 0.9. Updates are averaged (mean), masked (masked), or shortened by
the mask's mean and not masked (shrunk: the control). After the last round a logistic regression is trained on the
logits of half of at most 10,000 training samples and as many test samples, and tested on the other half. Beside it
stands an attack that knows the labels: a threshold on the margin, the logit of the label minus the log-sum-exp of the
others, chosen on each half of the same samples and tested on the other. Finished runs are reused. Writes a data file
with the first samples into the folder of the runs (150 MB), and beside this file, replacing the rows of this number of
samples and leaving those of the other one,

    membership.csv    one row for samples, rounds, arm and seed, per cent: the model's accuracy on the training and on
                      the test samples, the attack's balanced accuracy and area under the ROC curve, and the
                      threshold's balanced accuracy; seeds in which an arm diverged are left out
"""

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas
from masked_averaging import ARMS, HERE, SCENARIO

import simfl
from simfl.agents.aggregation.attack_runner import finalise_attacks
from simfl.attacks.membership import Membership
from simfl.core.rng import Streams
from simfl.core.storage.disk import write_atomically
from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean, paired_difference
from simfl.learning.data.image_sets import Cifar10
from simfl.scenario import Scenario

CLIENTS = 10
CHANGES = {
    "clients": str(CLIENTS),
    "training.learning_rate": "0.01",
    "attacks": "[{name: membership, game: in_federation, statistic: logits, candidates: 10000}]",
}
WHOLE = "cifar10"
ROUNDS = {200: (200, 400), 5000: (40,)}
"""Lengths of the runs, by the training samples of a client; 5,000 are all."""
BACKENDS = {200: "auto", 5000: "grouped"}
"""How they are computed; it changes last digits."""
Key = tuple[int, str, int]
"""A run: its rounds, arm and seed."""
CHOSEN = ("mean", "masked", "shrunk")
PRINTED = {"mean": "57", "masked": "55", "shrunk": ""}
MEASURES = {
    "training_accuracy": "client_accuracy_mean",
    "test_accuracy": "test_accuracy",
    "attack_accuracy": "membership_balanced_accuracy",
    "attack_auc": "membership_auc",
}
SECONDS = 0.0003
"""Processor seconds of a training sample, about."""


def few(samples: int, folder: Path) -> Path:
    """A data file with the first training samples of CIFAR-10 and all test samples."""
    file = folder / f"cifar10_{samples}.npz"
    if not file.exists():
        whole = Cifar10().load(Scenario.load(SCENARIO, [f"learning.data={WHOLE}"]), None)
        folder.mkdir(parents=True, exist_ok=True)
        images = {"x_train": whole.x_train[:samples], "x_test": whole.x_test}
        labels = {"y_train": whole.y_train[:samples], "y_test": whole.y_test}
        np.savez(buffer := BytesIO(), **{name: np.moveaxis(x, 1, -1) for name, x in images.items()}, **labels)
        write_atomically(file, buffer.getvalue())
    return file.resolve()


def scenario(arm: str, seed: int, rounds: int, data: object, backend: str) -> Scenario:
    """One run; without clients' own test samples a client's accuracy is that on its training samples."""
    evaluate = f"{{every: {rounds}, per_client: true}}"
    changes = {"training.aggregate": ARMS[arm], "training.rounds": str(rounds), "learning.evaluate": evaluate}
    return runner.scenario(SCENARIO, CHANGES | changes | {"learning.data": data, "learning.backend": backend}, seed)


def row(folder: Path) -> dict[str, float]:
    """What one run comes to, per cent."""
    summary = simfl.open(folder).summary
    found = {measure: 100 * summary[column] for measure, column in MEASURES.items()}
    return found | {"threshold_accuracy": 100 * threshold_accuracy(folder)}


def threshold_accuracy(folder: Path) -> float:
    """Balanced accuracy of a threshold on the margin of the label under a run's last model, as a share."""
    setting = simfl.open(folder).scenario
    streams, state = Streams(setting.seed), {"model": np.load(folder / "model.npy")}
    learner = setting.learning.build(setting, streams)
    (finding,) = finalise_attacks((Membership(candidates=10_000),), (state,), learner, streams)
    return finding.numbers["membership_balanced_accuracy"]


def markdown(table: pandas.DataFrame) -> str:
    """A line for each length and arm: means over the seeds with 95 % intervals, and the attack's difference by seed."""
    heads = ("samples of a client", "rounds", "arm", "seeds", "accuracy on training samples", "on test samples",
             "regression: balanced accuracy", "difference from mean", "published", "threshold")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (samples, rounds), group in table.groupby(["samples", "rounds"]):
        attacked = group.pivot(index="seed", columns="arm", values="attack_accuracy")
        for arm, runs in group.groupby("arm", sort=False):
            measures = (runs.training_accuracy, runs.test_accuracy, runs.attack_accuracy)
            less = "" if arm == "mean" else paired_difference(attacked[arm].tolist(), attacked["mean"].tolist()).text()
            cells = (f"{samples:,}", f"{rounds}", arm, f"{len(runs)}",
                     *(mean(each.tolist()).text() for each in measures), less, PRINTED[arm],
                     mean(runs.threshold_accuracy.tolist()).text())  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def usable(folders: dict[Key, Path]) -> list[Key]:
    """The runs of the lengths and seeds that have all arms, none of them diverged."""
    ended = {key for key, folder in folders.items() if simfl.open(folder).summary.get("diverged_round") is None}
    return [(rounds, arm, seed) for rounds, arm, seed in folders if all((rounds, a, seed) in ended for a in CHOSEN)]


def main() -> None:
    parser = runner.parser(__doc__, seeds=3)
    parser.add_argument("samples", type=int, choices=ROUNDS, help="training samples of a client")
    options = parser.parse_args()
    samples = options.samples
    data = WHOLE if samples == 5000 else {"name": "npz", "path": str(few(CLIENTS * samples, options.out))}
    keys = [(rounds, arm, seed) for seed in range(options.seeds) for rounds in ROUNDS[samples] for arm in CHOSEN]
    backend = BACKENDS[samples]
    runs = {(rounds, arm, seed): scenario(arm, seed, rounds, data, backend) for rounds, arm, seed in keys}
    folders = runner.run_all(runs, options, np.mean(ROUNDS[samples]) * samples * CLIENTS * SECONDS)
    if not (chosen := usable(folders)):
        raise SystemExit("no seed has all its runs, or all have diverged; no table is written")
    rows = [dict(zip(("rounds", "arm", "seed"), key)) | row(folders[key]) for key in chosen]
    table = pandas.DataFrame(rows)
    table.insert(0, "samples", samples)
    file = HERE / "membership.csv"
    if file.exists():
        before = pandas.read_csv(file)
        table = pandas.concat([before[before.samples != samples], table])
    rank = table.arm.map(CHOSEN.index)
    table = table.assign(rank=rank).sort_values(["samples", "rounds", "rank", "seed"]).drop(columns="rank")
    table.to_csv(file, index=False, float_format="%.5g")
    print(markdown(pandas.read_csv(file)))


if __name__ == "__main__":
    main()
