"""The picture of table.py, and two tables of its CSV files.

python results/attacks/table_drawing.py
"""

from pathlib import Path

import numpy as np
import pandas
from table_scenarios import HERE, POLICIES

PARTIAL = "secagg, 1 % fail, partial"
Column = tuple[str, str, str, str]
"""Head, block, column of the CSV file, format."""
DIGITS: list[Column] = [
    ("rank", "secagg", "rank", ".0f"),
    ("error, theory without noise, uncorrelated updates", "secagg", "floor", ".2f"),
    ("error with `secagg`", "secagg", "error", ".2f"),
    ("1 % fail, `partial`: rank", PARTIAL, "rank", ".0f"),
    ("whose classes, AUC: plain", "plain", "auc", ".2f"),
    ("with `secagg`", "secagg", "auc", ".2f"),
    ("members among alike, AUC: plain", "plain", "alike_auc", ".2f"),
    ("with `secagg`", "secagg", "alike_auc", ".2f"),
]
MNIST: list[Column] = [
    ("rank", "secagg", "rank", ".0f"),
    ("error with `secagg`", "secagg", "error", ".2f"),
    ("1 % fail, `partial`: rank", PARTIAL, "rank", ".0f"),
    ("samples, dB above the mean: plain", "plain", "psnr_over_guess", ".1f"),
    ("with `secagg`", "secagg", "psnr_over_guess", ".1f"),
    ("whose classes, AUC: plain", "plain", "auc", ".2f"),
    ("with `secagg`", "secagg", "auc", ".2f"),
]


def markdown(table: pandas.DataFrame, columns: list[Column]) -> str:
    """One row for each policy, as the server sees it."""
    found = table[table["view"] == "server"].set_index(["block", "policy"])
    heads = ["policy", *(head for head, *_ in columns)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for policy in found.index.unique("policy"):
        cells = [format(found[name][block, policy], digits).replace("-", "−") for _, block, name, digits in columns]
        lines.append(f"| {' | '.join([policy, *cells])} |")
    return "\n".join(lines) + "\n"


def draw(table: pandas.DataFrame, path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "svg.fonttype": "none", "font.size": 8})
    table = table.assign(column=table.block + np.where(table.view == "public", ", public", ""))
    names = list(dict.fromkeys(table.column))
    shown = {"error": ("Recovery error", (0, 1)), "psnr_over_guess": ("Samples, dB above the mean", (0, 20)),
             "auc": ("Members among any, AUC", (0.5, 0.8)), "alike_auc": ("Members among alike, AUC", (0.5, 0.8)),
             "accuracy": ("Test accuracy", (0, 1))}  # fmt: skip
    figure = Figure(figsize=(17, 4.2), layout="constrained")
    for axis, (key, (title, limits)) in zip(figure.subplots(1, len(shown), sharey=True), shown.items()):
        grid = table.pivot(index="policy", columns="column", values=key).reindex(index=list(POLICIES), columns=names)
        axis.imshow(grid, aspect="auto", cmap="cividis", vmin=limits[0], vmax=limits[1])
        for (row, column), value in np.ndenumerate(grid.to_numpy(dtype=float)):
            if np.isfinite(value):
                text = f"{value:.2f}" if value < 99 else "≫1"
                colour = "white" if value < sum(limits) / 2 else "black"
                axis.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
        axis.set_title(title)
        axis.set_xticks(range(len(names)), names, rotation=55, ha="right")
        axis.set_yticks(range(len(POLICIES)), list(POLICIES))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    for data, columns in (("digits", DIGITS), ("mnist", MNIST)):
        print(markdown(pandas.read_csv(HERE / f"{data}.csv"), columns))
