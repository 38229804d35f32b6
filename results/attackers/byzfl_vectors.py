"""What ByzFL makes of drawn vectors, for tests/training/test_byzfl.py, which compares simfl's aggregates and attacks.

    python results/attackers/byzfl_vectors.py

Needs the package byzfl (Gonzalez et al., "ByzFL: research framework for robust federated learning", arXiv 2505.24802)
and nothing of simfl. Of torchvision, which byzfl imports for its data sets, nothing is used, so that it may be absent.
Writes byzfl_vectors.csv beside this file: a row a rule and seed. The vectors are the rows of a standard normal draw of
numpy's default generator with that seed, 11 of 5 coordinates each, float64.
"""

import importlib.metadata
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas

HERE = Path(__file__).resolve().parent
N, D, SEEDS = 11, 5, 5

UNUSED = ("torchvision", "torchvision.datasets", "torchvision.transforms")


def rules() -> dict[str, Any]:
    """ByzFL's, by the names that simfl has for them."""
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in UNUSED}):
        from byzfl import aggregators, attacks

    return {
        "median": aggregators.Median(),
        "trimmed_mean": aggregators.TrMean(f=2),
        "krum": aggregators.Krum(f=3),
        "multi_krum": aggregators.MultiKrum(f=3),
        "geometric_median": aggregators.GeometricMedian(nu=1e-6, T=1000),
        "centred_clipping": aggregators.CenteredClipping(L=3, tau=0.5),
        "sign_flip": attacks.SignFlipping(),
        "inner_product": attacks.InnerProductManipulation(tau=0.7),
        "alie": attacks.ALittleIsEnough(tau=-1.2),
    }


def main() -> None:
    """Plays each rule on each draw."""
    rows = []
    for name, rule in rules().items():
        for seed in range(SEEDS):
            vectors = np.random.default_rng(seed).normal(size=(N, D))
            rule.m = None  # of centred clipping, which remembers
            result = np.asarray(rule(vectors)).tolist()
            rows.append({"rule": name, "seed": seed} | {f"v{i}": value for i, value in enumerate(result)})
    table = pandas.DataFrame(rows)
    table.insert(0, "byzfl", importlib.metadata.version("byzfl"))
    table.to_csv(HERE / "byzfl_vectors.csv", index=False, float_format="%.9g")


if __name__ == "__main__":
    main()
