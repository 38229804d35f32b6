"""The picture of the README: six policies on the quickstart scenario, what they guarantee and what that costs.

    python results/policies/policies.py [--replications 5] [--out results]

The same as these two commands: runs the comparison (finished runs are used again; half a minute on two cores) and
writes its figure and the numbers behind it beside this file.

    simfl compare quickstart 'selection=random,weighted,bernoulli,partition,batch_partition:T=4,half_partition:T=4'
    simfl plot results/quickstart/compare-DIGEST --figure tradeoff -o policies.svg
"""

from pathlib import Path

import simfl
from simfl.experiments import runner
from simfl.report import draw, style
from simfl.report.saving import save

HERE = Path(__file__).resolve().parent
POLICIES = ["random", "weighted", "bernoulli", "partition", "batch_partition:T=4", "half_partition:T=4"]


def main() -> None:
    parser = runner.parser(__doc__, costs=False)
    parser.add_argument("--replications", type=int, default=5)
    options = parser.parse_args()
    comparison = simfl.compare(
        "quickstart", {"selection": POLICIES}, replications=options.replications, out=options.out
    )
    with style.settings():
        save(*draw("tradeoff", comparison.path), HERE / "policies.svg")


if __name__ == "__main__":
    main()
