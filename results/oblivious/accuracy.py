"""Figure 2-4 of Mugunthan's thesis (MIT 2022): Matthews correlation on Adult against epsilon and the number of clients.

    python results/oblivious/accuracy.py [--seeds 3] [--rounds 6] [--steps 20] [--clients 50 100 200] [--out results]

Plays scenarios/oblivious.yaml with the sum's noise drawn at once (execute: cost_only), and without any noise (secagg:
plain); finished runs are reused. Writes accuracy.csv (mean and 95 % interval over the seeds of a run's last round and
of the mean over its later half) and accuracy.svg. Publications print 20 rounds; a round's noise is fresh, so that the
curves are flat long before.
"""

import argparse
from pathlib import Path

import pandas
from scipy import stats

from simfl.results import read_table
from simfl.run import run
from simfl.scenario import Scenario

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "scenarios" / "oblivious.yaml"
EPSILONS = (5e-7, 1e-5, 5e-4, None)
"""As the publication states them; None = without noise."""


def played(clients: int, epsilon: float | None, seed: int, options: argparse.Namespace) -> dict[str, float]:
    noise = [f"secagg.epsilon={epsilon}", "secagg.execute=cost_only"] if epsilon else ["secagg=plain"]
    changes = [f"clients={clients}", f"seed={seed}", f"training.rounds={options.rounds}", "attacks=[]",
               "privacy=none", *noise,
               f"training.local_steps={options.steps}", f"training.learning_rate={50 / options.steps}"]  # fmt: skip
    folder = run(Scenario.load(SCENARIO, changes), options.out, resume=True).path
    measured = read_table(folder / "evaluation.csv")
    curve = measured[measured.name == "test_mcc"].value.to_numpy(dtype=float)
    honest = read_table(folder / "rounds.csv").epsilon_weight.iloc[-1] if epsilon else None
    return {"clients": clients, "epsilon": epsilon, "seed": seed, "epsilon_weight": honest, "mcc": curve[-1],
            "mcc_later_half": curve[len(curve) // 2 :].mean()}  # fmt: skip


def interval(values: pandas.Series) -> pandas.Series:
    """Mean and half the width of its 95 % interval (Student)."""
    width = stats.t.ppf(0.975, len(values) - 1) * values.sem() if len(values) > 1 else float("nan")
    return pandas.Series({"mean": values.mean(), "half_width": width})


def draw(table: pandas.DataFrame) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "simfl", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
    for clients, colour in zip(sorted(set(table.clients)), ("#0072b2", "#009e73", "#d55e00", "#cc79a7"), strict=False):
        mine = table[table.clients == clients]
        noisy = mine.dropna(subset="epsilon")
        axes.errorbar(noisy.epsilon, noisy.mcc_mean, noisy.mcc_half_width, color=colour, marker="o", markersize=3,
                      linewidth=1.1, capsize=2, label=f"{clients} clients")  # fmt: skip
        axes.axhline(mine[mine.epsilon.isna()].mcc_mean.mean(), color=colour, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="ε as published (dotted: without noise)", ylabel="Matthews correlation")
    axes.legend(frameon=False)
    figure.savefig(HERE / "accuracy.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20, help="local steps; the rate is 50 over them")
    parser.add_argument("--clients", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):  # what is there after a seed is a whole table
        for clients in options.clients:
            rows += [played(clients, epsilon, seed, options) for epsilon in EPSILONS]
            print(seed, clients, [round(float(row["mcc"]), 3) for row in rows[-len(EPSILONS) :]], flush=True)
        write(pandas.DataFrame(rows), options.rounds)


def write(runs: pandas.DataFrame, rounds: int) -> None:
    found = []
    for (clients, epsilon), mine in runs.groupby(["clients", "epsilon"], dropna=False):
        about = {"clients": clients, "epsilon": epsilon, "epsilon_weight": mine.epsilon_weight.mean(),
                 "seeds": len(mine), "rounds": rounds}  # fmt: skip
        for name in ("mcc", "mcc_later_half"):
            about |= {f"{name}_{key}": value for key, value in interval(mine[name]).items()}
        found.append(about)
    table = pandas.DataFrame(found)
    table.to_csv(HERE / "accuracy.csv", index=False, float_format="%.6g", lineterminator="\n")
    draw(table)


if __name__ == "__main__":
    main()
