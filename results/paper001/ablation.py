"""The ablation of Multi-RoundSecAgg's public code (arXiv 2106.03328): N, K and T on CIFAR-10, IID.

    python results/paper001/ablation.py [--seeds 5] [--rounds 200] [--jobs 2] [--out results] [--only 240,12]

Plays scenarios/paper001_cifar10_authors.yaml with (N, K) = (60, 12), (240, 12), (120, 6), (120, 24) beside (120, 12),
for the schemes whose T divides K and N. Finished runs are reused. Writes ablation.csv: accuracy after 100, 200, 500
and 1,000 rounds with 95 % intervals, and paired differences from random. About 4 hours of one core a seed.
"""

from pathlib import Path

import pandas
from cells import marks
from schemes import AUTHORS, arguments, play, stem
from tables import curve, row

HERE = Path(__file__).resolve().parent
SIZES = ((60, 12), (120, 12), (240, 12), (120, 6), (120, 24))


def fitting(clients: int, k: int) -> dict[str, str]:
    """The schemes whose batches divide the clients and an aggregation; with T = K a batch is a group of partition."""

    def fits(scheme: str) -> bool:
        unit = int(scheme.partition("T=")[2] or 1)
        return k % unit == clients % unit == 0 and unit != k

    return {name: choice for name, choice in AUTHORS.items() if fits(name)}


def main() -> None:
    parser = arguments(__doc__, 5, shorter=True)
    parser.add_argument("--only", help="N,K: this size only; nothing is written")
    options = parser.parse_args()
    rows = []
    for clients, k in SIZES if options.only is None else (tuple(map(int, options.only.split(","))),):
        grid = {"clients": clients, "selection.k": k}
        played = play("paper001_cifar10_authors.yaml", fitting(clients, k), grid, options)
        if options.only or options.shard != "1/1":
            continue
        accuracies = {scheme: curve(results) for scheme, results in played.items()}
        for scheme, results in played.items():
            cardinality = pandas.Series([result.summary["mean_cardinality"] for result in results]).mean()
            told = row(accuracies[scheme], accuracies["random"], marks(3, len(results[0].rounds)))
            rows.append({"clients": clients, "k": k, "scheme": scheme, **told, "mean_cardinality": cardinality})
    if rows:
        pandas.DataFrame(rows).to_csv(HERE / f"{stem('ablation', options)}.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
