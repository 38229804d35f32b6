"""Digits that the runs of Table 4 (arXiv 2106.03328) have lost, from the models that tables.py left in --out.

    python results/paper001/digits.py [--out results]

The network ends in a ReLU, so that a digit whose logit is 0 for all images gets no gradient any more. A digit counts as
lost where the last model tells it for fewer than a hundredth of its test images. Writes digits4_authors.csv: for each
run its last accuracy, which digits are lost, and the accuracy on the images of the others. Runs that are not in --out
keep the row that they have.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas
import torch

from simfl.core.rng import Streams
from simfl.learning.client_accuracies import Predictor
from simfl.learning.models.build import build
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
LOST = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="results", help="folder of the runs")
    options = parser.parse_args()
    rows, data, file, place = [], None, HERE / "digits4_authors.csv", ["setting", "scheme", "seed"]
    before = pandas.read_csv(file, dtype={"lost": str}).set_index(place) if file.exists() else pandas.DataFrame()
    runs = pandas.read_csv(HERE / "runs4_authors.csv", dtype={"digest": str})
    for run in runs.itertuples():
        folder = Path(options.out) / "paper001_mnist_authors" / run.digest
        named = {"setting": run.setting, "scheme": run.scheme, "seed": run.seed}
        if not (folder / "model.npy").exists():
            if tuple(named.values()) in before.index:
                rows.append(named | before.loc[tuple(named.values())].to_dict())
                continue
            raise SystemExit(f"{folder}: not there; tables.py --table 4 runs it")
        scenario = Scenario.load(folder / "scenario.yaml")
        data = data or scenario.learning.data.load(scenario, Streams(0))
        module = build(scenario.learning.model, data.x_train.shape[1:], data.classes)
        measure = Predictor(module, torch.device("cpu"))
        x, y = torch.from_numpy(data.x_test), torch.from_numpy(data.y_test)
        _, told = measure(np.load(folder / "model.npy"), x, y)
        right = pandas.Series(told == data.y_test).groupby(data.y_test).mean()
        lost = right.index[right < LOST]
        rows.append(
            named
            | {
                "test_accuracy": 100 * (told == data.y_test).mean(),
                "lost": " ".join(map(str, lost)),
                "others": 100 * (told == data.y_test)[~np.isin(data.y_test, lost)].mean(),
            }
        )
    pandas.DataFrame(rows).to_csv(file, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
