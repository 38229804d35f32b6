"""Table 3, IID, `random`, trained by a loop of plain torch: is the accuracy of simfl's runs simfl's doing?

    python results/paper001/plain.py [--seeds 2] [--rests 2] [--rounds 440] [--jobs 2]

The authors' settings, as in scenarios/paper001_cifar10_authors.yaml, with torch's own dropout and SGD, one client after
another. Data, split and initial model are those of simfl's run with that seed; the rest (who drops out, who is
selected, which units are dropped) are draws of their own. Writes plain.csv: test accuracy every 20 rounds. 6 minutes of
one core a run.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pandas
import torch
from schemes import SCENARIOS
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from simfl.core.rng import Streams
from simfl.learning.models.build import initial
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
EVERY = 20


def lenet() -> nn.Module:
    def active() -> list[nn.Module]:
        return [nn.ReLU(), nn.Dropout(0.2)]

    return nn.Sequential(
        *[nn.Conv2d(3, 6, 5), *active(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), *active(), nn.MaxPool2d(2)],
        *[nn.Flatten(), nn.Linear(400, 120), *active(), nn.Linear(120, 84), *active(), nn.Linear(84, 10)],
    )


def locally(model: nn.Module, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
    """The model after one pass over a client's samples, in their order."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.5, weight_decay=5e-4)
    for images, labels in zip(x.split(50), y.split(50), strict=True):
        optimiser.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimiser.step()
    return parameters_to_vector(model.parameters()).detach()


def curve(seed: int, rest: int, rounds: int) -> list[tuple[int, int, int, float]]:
    """(seed, rest, round, test accuracy in per cent) every EVERY rounds."""
    torch.set_num_threads(1)
    scenario, streams = Scenario.load(SCENARIOS / "paper001_cifar10_authors.yaml", [f"seed={seed}"]), Streams(seed)
    data = scenario.learning.transform.apply(scenario.learning.data.load(scenario, streams), streams)
    x, y, x_test, y_test = (
        torch.from_numpy(np.asarray(part)) for part in (data.x_train, data.y_train, data.x_test, data.y_test)
    )
    parts = np.array_split(streams("partition").permutation(len(y)), 120)
    rng = np.random.default_rng([seed, rest])
    torch.manual_seed(int(rng.integers(2**31)))
    model = lenet()
    start = torch.from_numpy(initial(model, streams("model")))
    dropout, found = rng.choice([0.1, 0.2, 0.3, 0.4, 0.5], 120), []
    for number in range(rounds):
        rate = 0.1 * 0.4 ** ((number >= 400) + (number >= 800))
        selected = rng.choice(np.flatnonzero(rng.random(120) >= dropout), 12, replace=False)
        trained = []
        model.train()
        for client in selected:
            vector_to_parameters(start.clone(), model.parameters())
            trained.append(locally(model, x[parts[client]], y[parts[client]].long(), rate))
        start = torch.stack(trained).mean(0)
        if number % EVERY == EVERY - 1:
            vector_to_parameters(start.clone(), model.parameters())
            model.eval()
            with torch.no_grad():
                right = (model(x_test).argmax(1) == y_test).float().mean().item()
            found.append((seed, rest, number, 100 * right))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rests", type=int, default=2, help="draws of the rest for each seed")
    parser.add_argument("--rounds", type=int, default=440)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds, rests = zip(*product(range(options.seeds), range(options.rests)), strict=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for rows in pool.map(curve, seeds, rests, [options.rounds] * len(seeds)) for row in rows]
    pandas.DataFrame(rows, columns=["seed", "rest", "round", "test_accuracy"]).to_csv(
        HERE / "plain.csv", index=False, float_format="%.6g"
    )


if __name__ == "__main__":
    main()
