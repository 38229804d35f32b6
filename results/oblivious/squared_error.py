"""Section 2.5.3 of Mugunthan's thesis (MIT 2022): what noise costs a thousand clients in squared error, and its clock.

    python results/oblivious/squared_error.py [--seeds 5] [--out results]
    python results/oblivious/squared_error.py --training

The thesis prints a "relative accuracy loss (MSE versus learning in the clear)" of 1.1e-6 at epsilon = 5e-4, and does
not say of what. Runs scenarios/oblivious.yaml with 1,000 clients, with noise and without (finished runs are reused),
and writes squared_error.csv, a row a seed: the mean squared error of the predicted probability on the test part with
noise and without, their relative difference, the mean squared difference of the two predictions, and the loss in
Matthews' coefficient. ``--training`` measures what Table A.1 calls training, 50 steps on 200 rows of 105 numbers, and
writes training_time.csv: milliseconds of processor time of plain numpy on this machine, a row a try.
"""

from pathlib import Path
from time import process_time

import numpy as np
import pandas
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.experiments import runner
from simfl.results.run_files import read_table
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "oblivious.yaml"
CLIENTS, EPSILON, RATE, TRIES = 1000, 5e-4, 0.3, 30
COMMON = {"clients": CLIENTS, "training.learning_rate": RATE, "attacks": "[]", "privacy": "none"}
NOISE = {
    "noisy": {"secagg.epsilon": EPSILON, "secagg.execute": "cost_only"},
    "clear": {"secagg": "plain"},
}
Numbers = NDArray[np.float64]


def predicted(x: Numbers, model: Numbers) -> Numbers:
    """The probability of the higher income."""
    return 1 / (1 + np.exp(-(x @ model[:-1] + model[-1])))


def matthews(truth: Numbers, guess: Numbers) -> float:
    return float(np.corrcoef(truth, guess)[0, 1])


def row(scenario: Scenario, folders: dict[str, Path]) -> dict[str, float]:
    """What the two runs of a seed come to."""
    data = scenario.learning.data.load(scenario, Streams(scenario.seed))
    x, truth = data.x_test.astype(np.float64), data.y_test.astype(np.float64)
    chance = {name: predicted(x, np.load(folder / "model.npy").astype(np.float64)) for name, folder in folders.items()}
    error = {name: float(np.square(p - truth).mean()) for name, p in chance.items()}
    score = {name: matthews(truth, p > 0.5) for name, p in chance.items()}
    for name, folder in folders.items():
        measured = read_table(folder / "evaluation.csv")
        stored = float(measured[measured.name == "test_mcc"].value.iloc[-1])
        assert abs(score[name] - stored) < 1e-3, f"{folder}: {score[name]} is not the stored {stored}"
    return {f"error_{name}": value for name, value in error.items()} | {
        "relative_loss": error["noisy"] / error["clear"] - 1,
        "prediction_difference": float(np.square(chance["noisy"] - chance["clear"]).mean()),
        "mcc_loss": score["clear"] - score["noisy"],
    }


def training_times() -> pandas.DataFrame:
    """A row a try."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 104)), rng.integers(0, 2, 200)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    rows = []
    for attempt in range(TRIES):
        began, model = process_time(), np.zeros(105)
        for _ in range(50):
            gap = predicted(x, model) - y
            model -= RATE * np.append(gap @ x, gap.sum()) / len(y)
        rows.append({"steps": 50, "seed": attempt, "numpy_ms": 1e3 * (process_time() - began)})
    return pandas.DataFrame(rows)


def main() -> None:
    parser = runner.parser(__doc__, seeds=5)
    parser.add_argument("--training", action="store_true", help="measure the time of training only")
    options = parser.parse_args()
    if options.training:
        training_times().to_csv(HERE / "training_time.csv", index=False, float_format="%.4g")
        return
    runs = {
        (seed, name): runner.scenario(SCENARIO, COMMON | changes, seed)
        for seed in range(options.seeds)
        for name, changes in NOISE.items()
    }
    folders = runner.run_all(runs, options, seconds=30)
    seeds = [seed for seed in range(options.seeds) if all((seed, name) in folders for name in NOISE)]
    rows = [
        {"clients": CLIENTS, "seed": seed} | row(runs[seed, "clear"], {name: folders[seed, name] for name in NOISE})
        for seed in seeds
    ]
    pandas.DataFrame(rows).to_csv(HERE / "squared_error.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
