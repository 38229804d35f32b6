"""The two tables of docs/how-to/attacks.md that table.py's CSV files give.

python results/attacks/table_pages.py
"""

from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
PARTIAL = "secagg, 1 % fail, partial"
Column = tuple[str, str, str, str]
"""Head, block, column of the CSV file, format."""
FIRST: list[Column] = [("rank", "secagg", "rank", ".0f")]
DIGITS: list[Column] = [
    *FIRST,
    ("error, theory without noise, uncorrelated updates", "secagg", "floor", ".2f"),
    ("error with `secagg`", "secagg", "error", ".2f"),
    ("1 % fail, `partial`: rank", PARTIAL, "rank", ".0f"),
    ("whose classes, AUC: plain", "plain", "auc", ".2f"),
    ("with `secagg`", "secagg", "auc", ".2f"),
    ("members among alike, AUC: plain", "plain", "alike_auc", ".2f"),
    ("with `secagg`", "secagg", "alike_auc", ".2f"),
]
MNIST: list[Column] = [
    *FIRST,
    ("error with `secagg`", "secagg", "error", ".2f"),
    ("1 % fail, `partial`: rank", PARTIAL, "rank", ".0f"),
    ("samples, dB above the mean: plain", "plain", "psnr_over_guess", ".1f"),
    ("with `secagg`", "secagg", "psnr_over_guess", ".1f"),
    ("whose classes, AUC: plain", "plain", "auc", ".2f"),
    ("with `secagg`", "secagg", "auc", ".2f"),
]


def markdown(table: pandas.DataFrame, columns: list[Column]) -> str:
    """A row a policy: what the server recovers."""
    found = table[table["view"] == "server"].set_index(["block", "policy"])
    heads = ["policy", *(head for head, *_ in columns)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for policy in found.index.unique("policy"):
        cells = [format(found[name][block, policy], digits).replace("-", "−") for _, block, name, digits in columns]
        lines.append(f"| {' | '.join([policy, *cells])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for data, columns in (("digits", DIGITS), ("mnist", MNIST)):
        print(markdown(pandas.read_csv(HERE / f"{data}.csv"), columns))
