"""Megabytes of models whose weights are pruned by 90 %, Table 4.2 of the thesis.

    python results/fedltn/sizes.py

Prunes 10 % of each layer's remaining weights until 90 % are gone, as FedLTN does, and counts 4 bytes for every value
that is left; biases and norm layers are not pruned. Writes sizes.csv beside this file. The thesis prints 4.46 MB for a
ResNet-18 and 0.031 MB for a network of its own.
"""

from pathlib import Path

import numpy as np
import pandas

from simfl.core.rng import Streams
from simfl.learning.models.base import MODELS
from simfl.learning.models.build import build, initial
from simfl.learning.models.flat import parameters
from simfl.papers.lottery_tickets.sparse import prunable, prune

HERE = Path(__file__).resolve().parent
NAMES = ("resnet18_bn", "resnet8", "lenet5")
TARGET, STEP = 0.9, 0.1


def row(name: str) -> dict[str, object]:
    """One model, for images of 3 x 32 x 32 and ten classes."""
    module = build(MODELS[name](), (3, 32, 32), 10, None)
    start, layers = initial(module, Streams(0)("model")), prunable(parameters(module))
    weights = sum(len(start[layer]) for layer in layers)
    mask = np.ones(len(start), dtype=bool)
    while len(mask) - mask.sum() < TARGET * weights:
        mask = prune(start, mask, layers, STEP)
    return {"model": name, "values": len(start), "dense_mb": 4e-6 * len(start), "pruned_mb": 4e-6 * mask.sum(),
            "share": mask.mean()}  # fmt: skip


def main() -> None:
    pandas.DataFrame([row(name) for name in NAMES]).to_csv(HERE / "sizes.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
