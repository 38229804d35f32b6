"""What an honest-but-curious server recovers under twelve policies and eight settings: digits.csv and digits.svg.

    python results/attacks/table.py [--data digits] [--rounds ROUNDS] [--out DIR]

48 clients, 12 a round (every unit divides both), one step of batch 20; four clients hold one sample each, which
inversion looks for; membership is asked of every client's samples, beside any others and beside others of the same
classes. A perceptron on the digits, 120 rounds, or LeNet-5 on MNIST, 300 rounds (``--data mnist``, more than an hour;
no inversion where clients fail or buffer). The same draws for all. Rows that the CSV has already are not run again.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas
from scipy.sparse import csr_array
from table_drawing import draw
from table_scenarios import (
    ALIKE,
    BASE,
    BLOCKS,
    BUDGET,
    DATA,
    FAILING,
    FEDBUFF,
    HERE,
    MEMBERSHIP,
    ORDER,
    POLICIES,
    ROUNDS,
    N,
)

from simfl.core.errors import SimflError
from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.multiround.matrix_metrics import multi_round
from simfl.runs.accounting import of_clients
from simfl.runs.run import build
from simfl.runs.simulation import RunInMemory, run_in_memory
from simfl.scenario import Scenario


def scenario(options: argparse.Namespace, policy: str, changes: tuple[str, ...]) -> Scenario:
    learning, inversion = DATA[options.data]
    every = {"evaluate": {"every": options.rounds}}
    views = [{"name": "least_squares", "view": view, "every": options.rounds // 4} for view in ("server", "public")]
    looked_for = [inversion] if options.data == "digits" or not {FAILING, FEDBUFF} & set(changes) else []
    made = BASE | {"learning": learning | every, "attacks": [*views, MEMBERSHIP, ALIKE, *looked_for]}
    return Scenario.of(made, overrides=[f"training.rounds={options.rounds}", *changes, f"selection={policy}"])


def epsilon(scenario: Scenario, played: RunInMemory) -> float:
    """Of (epsilon, 1e-5) of the client that lost most."""
    names = sorted({name for done in played.rounds for facts in done.facts for name in facts})
    facts = {name: np.array([done.facts[0].get(name, np.nan) for done in played.rounds]) for name in names}
    view = ObserverView.of_sums(csr_array(played.participation(N)))
    seen = History({SERVER: view}, (facts,), scenario.privacy.stages)
    return float(np.max(of_clients(scenario, seen)["epsilon"]))


def cells(scenario: Scenario, played: RunInMemory, block: str) -> list[dict]:
    matrix = played.participation(N)
    private = multi_round(matrix, budget=BUDGET)
    numbers = {name: value for found in played.attack_results for name, value in found.numbers.items()}
    single = block == "plain"
    psnr = numbers.get("inversion_psnr", np.nan)
    exploited = {
        "psnr": psnr,
        "psnr_over_guess": psnr - numbers.get("inversion_guess_psnr", np.nan),
        "auc": numbers["membership_auc"],
        "tpr_1": numbers["membership_tpr_1"],
        "alike_auc": numbers["alike_membership_auc"],
        "alike_tpr_1": numbers["alike_membership_tpr_1"],
    }  # of the server; the public's recovery alone is measured
    rows = []
    for view in ("server", "public") if block.startswith("central") else ("server",):
        prefix = "" if view == "server" else "public_"
        rows.append(
            {
                "view": view,
                "rank": round(N * (1 - played.last(f"{prefix}recovery_uncorrelated"))),
                "floor": played.last(f"{prefix}recovery_uncorrelated"),
                "error": played.last(f"{prefix}recovery_error"),
                "expected": played.last(f"{prefix}recovery_expected"),
                "weighted": played.last(f"{prefix}recovery_weighted"),
                "recovered": played.last(f"{prefix}recovered_clients"),
                "strong": 1 if single else private.strong,
                "semi_strong": 1 if single else private.semi_strong,
                "weak": 1 if single else private.weak_lower,
                **(exploited if view == "server" else {}),
                "accuracy": played.last("test_accuracy"),
                "epsilon": epsilon(scenario, played) if scenario.privacy.stages else np.nan,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=DATA, default="digits")
    parser.add_argument(
        "--rounds", type=int, help="number of rounds; if not the table's own, the files' names contain it"
    )
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    usual = ROUNDS[options.data]
    options.rounds = options.rounds or usual
    stem = options.data if options.rounds == usual else f"{options.data}_{options.rounds}_rounds"
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{stem}.csv"
    table = pandas.read_csv(file) if file.exists() else pandas.DataFrame(columns=["policy", "block"])
    for block, changes in BLOCKS.items():
        for name, policy in POLICIES.items():
            if ((table.policy == name) & (table.block == block)).any():
                continue
            try:
                made = scenario(options, policy, changes)
                found = cells(made, run_in_memory(build(made)), block)
            except SimflError as error:  # e.g. everybody at once under FedBuff
                print(f"{block}, {name}: {error}", flush=True)
                continue
            rows = pandas.DataFrame([{"policy": name, "block": block, **row} for row in found])
            table = rows if table.empty else pandas.concat([table, rows])
            table = table.sort_values(["block", "policy"], key=lambda names: names.map(ORDER), kind="stable")
            table.to_csv(file, index=False, float_format="%.4g")
            print(block, name, {key: found[0][key] for key in ("rank", "error", "auc", "accuracy")}, flush=True)
    draw(pandas.read_csv(file), file.with_suffix(".svg"))  # the same, whether played now or read


if __name__ == "__main__":
    main()
