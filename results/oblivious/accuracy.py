"""Figure 2-4 of Mugunthan's thesis (MIT 2022): Matthews correlation against epsilon, the number of clients and rounds.

    python results/oblivious/accuracy.py [--data adult] [--seeds 5] [--large 1] [--rate 0.3]
        [--clients 50 100] [--epsilons 5e-6 5e-4] [--out results]

Runs scenarios/oblivious.yaml as published, 20 rounds of 50 local steps, with the sum's noise drawn at once (execute:
cost_only), and without any noise (secagg: plain); finished runs are reused. ``--large`` are the seeds of 5,000 clients.
``--data fraud`` takes, in place of the publication's credit cards, KDD 99 with its rare attacks only. Writes, after
every seed, DATA.csv (the last round) and DATA_rounds.csv, and at the end DATA.svg: means and half the width of 95 %
intervals over the seeds; ``loss`` is against the run without noise of the same seed. With another ``--rate``,
DATA_rate_RATE.csv only.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
from scipy import stats

from simfl.experiments import runner
from simfl.results.run_files import read_table
from simfl.runs.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "oblivious.yaml"
EPSILONS = (5e-7, 5e-6, 1e-5, 5e-5, 5e-4)
"""As the publication states them."""
CLIENTS = (50, 100, 200, 500, 1000, 5000)
LARGE, LARGE_EPSILONS = 5000, (5e-7, 5e-4, None)
DATA = {"adult": ([], 0.3), "fraud": (["learning.data={name: kddcup99, attacks: rare}"], 10.0)}
"""Changes of the scenario, and the learning rate, which is not printed."""
PRINTED = {("adult", 100, 1e-5): 0.005, ("adult", 200, 1e-5): 0.254, ("adult", 500, 1e-5): 0.423}


def played(clients: int, epsilon: float | None, seed: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row a round."""
    noise = [f"secagg.epsilon={epsilon}", "secagg.execute=cost_only"] if epsilon else ["secagg=plain"]
    more, rate = DATA[options.data]
    changes = [f"clients={clients}", f"seed={seed}", f"training.learning_rate={options.rate or rate}", "attacks=[]",
               "privacy=none", *noise, *more]  # fmt: skip
    folder = run(Scenario.load(SCENARIO, changes), options.out, resume=True).path
    measured = read_table(folder / "evaluation.csv")
    rounds = read_table(folder / "rounds.csv")
    honest = rounds.epsilon_weight.iloc[-1] if epsilon else None
    for t, mcc in enumerate(measured[measured.name == "test_mcc"].value.astype(float)):
        yield {"clients": clients, "epsilon": epsilon, "round": t + 1, "seed": seed, "epsilon_weight": honest,
               "mcc": mcc}  # fmt: skip


def half_width(values: pandas.Series) -> float:
    """Half the width of the 95 % interval of a mean (Student)."""
    return stats.t.ppf(0.975, len(values) - 1) * values.sem() if len(values) > 1 else float("nan")


def summed_up(rows: pandas.DataFrame, data: str) -> pandas.DataFrame:
    """Means and intervals over the seeds, by clients, epsilon and round."""
    clear = rows[rows.epsilon.isna()].set_index(["clients", "seed", "round"]).mcc
    rows["loss"] = clear.reindex(pandas.MultiIndex.from_frame(rows[["clients", "seed", "round"]])).to_numpy() - rows.mcc
    found = rows.groupby(["clients", "epsilon", "round"], dropna=False)
    table = found.agg(
        epsilon_weight=("epsilon_weight", "mean"), seeds=("mcc", "count"), mcc=("mcc", "mean"),
        mcc_half_width=("mcc", half_width), loss=("loss", "mean"), loss_half_width=("loss", half_width),
    ).reset_index()  # fmt: skip
    table["printed"] = [PRINTED.get((data, row.clients, row.epsilon)) for row in table.itertuples()]
    return table


def draw(table: pandas.DataFrame, file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9})
    from matplotlib import pyplot

    shown = [epsilon for epsilon in (5e-7, 5e-6, 5e-4) if epsilon in set(table.epsilon)]
    figure, axes = pyplot.subplots(1, 1 + len(shown), figsize=(10, 3.2), layout="constrained", sharey=True)
    last = table[table["round"] == table["round"].max()]
    colours = ("#0072b2", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#333333")
    for clients, colour in zip(sorted(set(table.clients)), colours, strict=False):
        noisy = last[(last.clients == clients) & last.epsilon.notna()]
        axes[0].errorbar(noisy.epsilon, noisy.mcc, noisy.mcc_half_width, color=colour, marker="o", markersize=3,
                         linewidth=1.1, capsize=2)  # fmt: skip
        axes[0].axhline(last[(last.clients == clients) & last.epsilon.isna()].mcc.mean(), color=colour, linewidth=0.7,
                        linestyle=":")  # fmt: skip
        for panel, epsilon in zip(axes[1:], shown, strict=True):
            curve = table[(table.clients == clients) & (table.epsilon == epsilon)]
            panel.plot(curve["round"], curve.mcc, color=colour, linewidth=1.1, label=f"{clients:,} clients")
            panel.set(xlabel="round", title=f"ε = {epsilon:.0e}".replace("e-0", "e-"))
    axes[0].set(xscale="log", xlabel="ε as published (dotted: without noise)", ylabel="Matthews correlation",
                title="after the last round")  # fmt: skip
    axes[-1].legend(frameon=False, loc="lower right")
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = runner.parser(__doc__, seeds=5, costs=False)
    parser.add_argument("--data", choices=list(DATA), default="adult")
    parser.add_argument("--rate", type=float, help="learning rate")
    parser.add_argument("--large", type=int, default=1, help=f"seeds of {LARGE} clients")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument(
        "--epsilons", type=float, nargs="+", default=EPSILONS, help=f"besides none; of {LARGE} clients {LARGE_EPSILONS}"
    )
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    plan = [(seed, n) for seed in range(options.seeds) for n in options.clients if n != LARGE]
    plan += [(seed, n) for seed in range(options.large) for n in options.clients if n == LARGE]
    for seed, clients in plan:
        for epsilon in LARGE_EPSILONS if clients == LARGE else (*options.epsilons, None):
            rows += played(clients, epsilon, seed, options)
            print(seed, clients, epsilon, round(rows[-1]["mcc"], 3), flush=True)
        table = summed_up(pandas.DataFrame(rows), options.data)
        last = table[table["round"] == table["round"].max()]
        if options.rate:
            write(last, f"{options.data}_rate_{options.rate:g}")
            continue
        write(last, options.data)
        write(table.drop(columns="printed"), f"{options.data}_rounds")
    if not options.rate:
        draw(table, HERE / f"{options.data}.svg")


def write(table: pandas.DataFrame, name: str) -> None:
    table.to_csv(HERE / f"{name}.csv", index=False, float_format="%.4g", lineterminator="\n")


if __name__ == "__main__":
    main()
