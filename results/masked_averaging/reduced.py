"""Tables of reduced forms of Tables B.7, B.8 and B.9 of the thesis, from their CSVs.

    python results/masked_averaging/reduced.py

Prints clients.csv, few_epochs.csv and grid.csv beside this file as Markdown, with the thesis' values.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
PRINTED = {
    "clients": {10: (88.10, 88.38), 50: (82.42, 83.11), 100: (74.39, 76.11), 250: (71.11, 72.87)},
    "local_epochs": {3: (89.91, 91.73), 5: (85.71, 87.29), 10: (84.13, 87.11)},
}
"""Tables B.8 and B.9: mean and mask, per cent."""
RATES = (0.001, 0.01, 0.05, 0.1)
"""The clients' rates of Table B.7 at which something is learned; at 1.0 it prints 10 %, that is, guessing."""
GRID = {
    0.01: ((None, None), (56.06, 57.72), (61.66, 65.13), (68.02, 72.56)),
    0.1: ((56.93, 57.51), (73.66, 73.90), (83.39, 83.79), (85.22, 87.22)),
    1.0: ((72.69, 73.34), (86.49, 87.00), (87.76, 88.14), (88.31, 88.40)),
    1.5: ((77.11, 75.63), (86.29, 87.04), (87.82, 88.21), (86.96, 88.30)),
    2.0: ((71.53, 77.59), (82.42, 86.90), (86.93, 87.60), (87.63, 88.10)),
}
"""Table B.7 by the server's rate: mean and mask at each of the clients' rates."""


def together(values: Iterable[float | None]) -> str:
    """Accuracies of arms in one cell."""
    numbers = ["diverged" if pandas.isna(value) else f"{value:.1f}" for value in values]
    return ", ".join(numbers) if set(numbers) != {"diverged"} else "diverged"


ARMS = ("mean", "masked", "shrunk")
GAPS = {"masked_mean": "masked − mean", "shrunk_mean": "shrunk − mean", "masked_shrunk": "masked − shrunk"}
"""Paired differences by their columns, where an arm was run."""


def gap(row: pandas.Series, name: str) -> str:
    """A paired difference, with its 95 % interval where there are several seeds."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    text = f"{row[name]:.1f}" + ("" if pandas.isna(low) else f" ({low:.1f} to {high:.1f})")
    return text.replace("-", "−")


def one_column(table: pandas.DataFrame, column: str) -> str:
    """Rows by the number of clients, or of local epochs."""
    arms, gaps = ([name for name in names if name in table] for names in (ARMS, GAPS))
    heads = [column.replace("_", " "), ", ".join(arms), *(GAPS[name] for name in gaps), "mask's mean",
             "published: mean, masked"]  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for _, row in table.iterrows():
        number = int(row[column])
        cells = [f"{number}", together(row[arms]), *(gap(row, name) for name in gaps), f"{row.mask_mean:.2f}"]
        lines.append(f"| {' | '.join([*cells, together(PRINTED[column][number])])} |")
    return "\n".join(lines) + "\n"


def grid(table: pandas.DataFrame) -> str:
    """Rows by the server's rate, columns by the clients' rate: the arms here, and as published in brackets."""
    lines = [f"| server rate | {' | '.join(f'client rate {rate:g}' for rate in RATES)} |", "|---" * 5 + "|"]
    arms = [arm for arm in ARMS if arm in table]
    cells = table.set_index(["server_learning_rate", "learning_rate"])[arms]
    for server, printed in GRID.items():
        told = ["guessing" if each[0] is None else together(each) for each in printed]
        own = [together(cells.loc[server, rate]) for rate in RATES]
        lines.append(f"| {server:g} | {' | '.join(f'{one} ({other})' for one, other in zip(own, told))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    for name, column in (("clients", "clients"), ("few_epochs", "local_epochs")):
        print(one_column(pandas.read_csv(HERE / f"{name}.csv"), column))
    print(grid(pandas.read_csv(HERE / "grid.csv")))


if __name__ == "__main__":
    main()
