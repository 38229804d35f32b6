"""Theorem 1 of arXiv 2110.02177 beside a run: FedBuff with and without BASecAgg's quantisation, on a known task.

    python results/theorems/quantised.py [--rounds 2000] [--seeds 5] [--out results]

Runs buffered training (100 clients, a buffer of 10, staleness uniform on 0 ... 4) on the task of wells.py, without
quantisation and with the protocol's own, of updates on grids of 2^2 ... 2^16 whole numbers in 1. Writes quantised.csv
beside this file, a row a grid: the mean squared gradient over the rounds with its 95 % interval over the seeds, the
theorem's bound with the variance d / (4 c^2) that its lemma 1 has for a quantised *gradient*, and the bound with
d / (4 c^2 rate^2), since the protocol quantises updates, which are gradients times the rate. Three minutes of one core.
"""

from pathlib import Path

import numpy as np
import pandas
from wells import NOISE, SMOOTHNESS, STEEPEST, Wells, centres

import simfl
from simfl.core.rng import Streams
from simfl.experiments import runner
from simfl.experiments.compare.intervals import mean

HERE = Path(__file__).resolve().parent
CLIENTS, BUFFER, STALEST = 100, 10, 4
EXPONENTS = (None, 16, 12, 8, 4, 2)
SCENARIO = HERE / "wells.yaml"


def bound(seed: int, rounds: int, exponent: int | None, of_updates: bool) -> float:
    """2 F / (g l Q T) + L/2 g l s + 3 L^2 Q^2 l^2 (g^2 tau^2 + 1) (s + between + G), at the server rate g = 1.

    l is the clients' rate, Q their steps, tau the largest staleness, F the loss at the start, whose least value is at
    least 0, G the bound of squared gradients, ``between`` the variance of gradients over the clients, at most L^2 times
    that of their centres, and s the variance of a stochastic gradient with its rounding.

    References:
        FedBuff (Nguyen et al. 2022), corollary 1, whose variance BASecAgg's theorem 1 enlarges; the formula is missing
        in the text at hand.
    """
    task = Wells()
    centre = centres(Streams(seed), CLIENTS, task.dimension)
    start = float(np.mean(np.sum(centre**2 / (1 + centre**2), axis=1)))
    between = SMOOTHNESS**2 * float(centre.var(axis=0).sum())
    variance = task.dimension * NOISE**2 / 3
    if exponent is not None:
        variance += task.dimension / (4 * 4.0**exponent) / (task.rate**2 if of_updates else 1)
    steps = task.rate * task.steps
    late = 3 * SMOOTHNESS**2 * steps**2 * (STALEST**2 + 1) * (variance + between + STEEPEST * task.dimension)
    return 2 * start / (steps * rounds) + SMOOTHNESS / 2 * task.rate * variance + late


def measured(seed: int, rounds: int, exponent: int | None, out: str) -> tuple[float, float]:
    """Mean squared gradient over all rounds, and over their last tenth."""
    scale = "null" if exponent is None else 2.0**exponent
    texts = [f"seed={seed}", f"training.rounds={rounds}", f"learning={{name: wells, scale: {scale}}}"]
    texts.append(f"metrics=[{{name: wells_gradient, seed: {seed}, clients: {CLIENTS}, dimension: {Wells.dimension}}}]")
    squared = simfl.run(simfl.load(SCENARIO, texts), out=out).rounds.squared_gradient
    return float(squared.mean()), float(squared.tail(rounds // 10).mean())


def main() -> None:
    parser = runner.parser(__doc__, seeds=5, costs=False)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    rows = []
    for exponent in EXPONENTS:
        means, lasts = zip(
            *(measured(s, options.rounds, exponent, options.out) for s in range(options.seeds)), strict=True
        )
        bounds = [[bound(s, options.rounds, exponent, of) for s in range(options.seeds)] for of in (False, True)]
        over, last = mean(np.array(means)), mean(np.array(lasts))
        rows.append({"exponent": exponent, "rounds": options.rounds, "seeds": options.seeds,
                     "measured": over.estimate, "half_interval": over.half_width, "last_tenth": last.estimate,
                     "last_half_interval": last.half_width,
                     "bound_gradients": np.mean(bounds[0]), "bound_updates": np.mean(bounds[1])})  # fmt: skip
        print(rows[-1], flush=True)
    table = pandas.DataFrame(rows).astype({"exponent": "Int64"})
    table.to_csv(HERE / "quantised.csv", index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
