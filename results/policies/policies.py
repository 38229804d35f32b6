"""The pictures of the README: six policies on the quickstart scenario, what they guarantee, what least squares recovers
from the same sums, and what guarantees cost.

    python results/policies/policies.py [--replications 30] [--out results]

The same as these commands: runs the comparison (finished runs are used again; 480 in all, ten minutes on two cores)
and writes its figures and the numbers behind them beside this file, ``seeds.csv`` with a row a run.

    simfl compare quickstart 'selection=random,weighted,bernoulli,partition,batch_partition:T=4,half_partition:T=4'
    simfl plot results/quickstart/compare-DIGEST --figure measured -o measured.svg
    simfl plot results/quickstart/compare-DIGEST --figure tradeoff -o policies.svg

Then the same in a world of sticky devices, which stay away for five rounds on average and are as often unavailable as
in the first one (``policies_sticky.svg``):

    simfl compare quickstart 'selection=...'
        'devices.availability={name: markov, mean_on_rounds: 20, mean_off_rounds: 5}'

And what the time of a policy with skipped rounds owes to ``training.skipped_round_s``, the wait after which the server
asks again (``waits.csv``: differences to random, paired by seed, with 95 % intervals), of these commands:

    simfl compare quickstart selection=random,partition training.skipped_round_s=0.1     (and 1, 10)
"""

import json
from pathlib import Path

import pandas

import simfl
from simfl.experiments import runner
from simfl.report import draw, style
from simfl.report.saving import save

HERE = Path(__file__).resolve().parent
POLICIES = ["random", "weighted", "bernoulli", "partition", "batch_partition:T=4", "half_partition:T=4"]


STICKY = "{name: markov, mean_on_rounds: 20, mean_off_rounds: 5}"
WAITS_S = (0.1, 1, 10)
NUMBERS = ["test_accuracy", "privacy_semi_strong", "guarantee_semi_strong", "measured_recovered", "measured_error",
           "time_s", "skipped", "mean_cardinality", "fairness_gap"]  # fmt: skip
"""Of each run in ``seeds.csv``."""


def waits(wait_s: float, replications: int, out: Path) -> list[str]:
    """Rows of ``waits.csv`` for one wait."""
    choices = {"selection": ["random", "partition"], "training.skipped_round_s": [wait_s]}
    path = simfl.compare("quickstart", choices, replications=replications, out=out).path
    found = json.loads((path / "comparison.json").read_text())
    means = {(row["choice"], row["metric"]): row["mean"] for row in found["means"]}
    return [f"{wait_s:g},{row['choice']},{row['metric']},{row['pairs']},{means['random', row['metric']]:.6g},"
            f"{means[row['choice'], row['metric']]:.6g},{row['difference']:.6g},{row['lower']:.6g},{row['upper']:.6g}"
            for row in found["paired"] if row["metric"] in ("test_accuracy", "time_s", "skipped")]  # fmt: skip


def main() -> None:
    parser = runner.parser(__doc__, costs=False)
    parser.add_argument("--replications", type=int, default=30)
    options = parser.parse_args()
    comparison = simfl.compare(
        "quickstart", {"selection": POLICIES}, replications=options.replications, out=options.out
    )
    sticky = simfl.compare(
        "quickstart", {"selection": POLICIES, "devices.availability": [STICKY]}, replications=options.replications,
        out=options.out,
    )  # fmt: skip
    runs = [each.runs.assign(world=world) for world, each in (("memoryless", comparison), ("sticky", sticky))]
    pandas.concat(runs)[["world", "selection", "seed", *NUMBERS]].to_csv(HERE / "seeds.csv", index=False)
    rows = ["skipped_round_s,policy,metric,pairs,mean_random,mean,difference,lower,upper"]
    for wait_s in WAITS_S:
        rows += waits(wait_s, options.replications, options.out)
    (HERE / "waits.csv").write_text("\n".join(rows) + "\n")
    with style.settings():
        save(*draw("measured", comparison.path), HERE / "measured.svg")
        save(*draw("tradeoff", comparison.path), HERE / "policies.svg")
        save(*draw("tradeoff", sticky.path), HERE / "policies_sticky.svg")


if __name__ == "__main__":
    main()
