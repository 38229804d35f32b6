"""Bar 3: damage to what is not of a run: parts of forecasts, calibrations and their logs, logs of a deployment."""

from collections import Counter

import numpy as np
from scipy.sparse import csr_array

from simfl.core.errors import SimflError
from simfl.deployment.audit.log import Log
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.deployment.forecasting.futures import plan as plan_futures
from simfl.deployment.forecasting.parts import simulate_all
from simfl.deployment.forecasting.past import past_of
from simfl.deployment.remote.job_times import JobTime, job_times_bytes
from tests.reliability.check import Case, Check, Outcome, Plan
from tests.reliability.damage_readers import InternalError, command
from tests.support.damages import copied, damaged

FUTURES = 20

SCENARIO = """
name: calibrated
clients: 3
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2}
learning: {name: none, parameters: 100, samples: 10}
"""


def forecasts(plan: Plan) -> Case:
    """A part of a forecast: simulated again, or true."""
    rows = np.random.default_rng(plan.seed).random((12, 8)) < 0.5
    rows[:, 0] = True
    past = past_of(Log(csr_array(rows.astype(float)), range(12), range(8)), None)
    whole, twin = (
        plan_futures(past, ("random:k=3",), horizon=6, seed=plan.seed + other, guarantees=0)[0] for other in (0, 1)
    )
    home, other = plan.scratch / "whole", plan.scratch / "twin"
    for folder, what in ((home, whole), (other, twin)):
        folder.mkdir()
        truth = simulate_all(what, FUTURES, folder)
    truth = simulate_all(whole, FUTURES, home)

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        while (what := damaged(here := copied(home, plan.scratch / "here"), other, rng)) is None:
            pass
        again = simulate_all(whole, FUTURES, here)
        same = all(
            np.array_equal(one, two, equal_nan=True)
            for a, b in zip(truth, again, strict=True)
            for one, two in zip(a, b, strict=True)
        )
        restored = what[0].exists() and what[0].read_bytes() == (home / what[0].name).read_bytes()
        return Outcome(() if same else (f"{what[0].name} {what[1]}: believed",),
                       {"simulated again": 1} if restored else {"not concerned": 1})  # fmt: skip

    return case


def logs(plan: Plan) -> Case:
    """Logs that no seal can stand beside, since other programs write them."""
    rng = np.random.default_rng(plan.seed)
    plan.scratch.mkdir(parents=True, exist_ok=True)
    (plan.scratch / "s.yaml").write_text(SCENARIO)
    for name in ("whole", "twin"):
        folder = plan.scratch / name
        folder.mkdir()
        times = [JobTime(job, job % 3, job // 3, int(rng.integers(20, 90)), 4000, 4000, 1.7e9 + job, 1.7e9 + job,
                         *rng.uniform(0.1, 2, 3).tolist(), 1.7e9 + job + 6) for job in range(30)]  # fmt: skip
        (folder / "job_times.csv").write_bytes(job_times_bytes(times))
        command("serve", "calibrate", folder / "job_times.csv", "--out", folder / "devices.csv")
        server = NodeSelection("random:k=3", 8, int(rng.integers(100)), folder / "bridge.csv")
        for _ in range(10):
            server.conclude({node: {} for node in server.select(range(1000, 1008))})

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        here = plan.scratch / "here"
        while (what := damaged(copied(plan.scratch / "whole", here), plan.scratch / "twin", rng)) is None:
            pass
        at = f"devices.profiles={here / 'devices.csv'}"
        readers = {
            "job_times.csv": {"calibrate": lambda: command("serve", "calibrate", here)},
            "devices.csv": {
                "validate": lambda: command("validate", plan.scratch / "s.yaml", at),
                "run": lambda: command("run", plan.scratch / "s.yaml", at, "--out", plan.scratch / "runs", "--force"),
            },
        }.get(what[0].name) or {
            "audit": lambda: command("audit", what[0]),
            "forecast": lambda: command("forecast", what[0], "--futures", 2, "--horizon", 2, "--processes", 1),
            "NodeSelection": lambda: NodeSelection("random:k=3", 8, 0, what[0]),
            "its past": lambda: NodeSelection("random:k=3", 8, 0, past=what[0]),
        }  # fmt: skip
        wrong, counts = [], Counter()
        for name, ask in readers.items():
            try:
                ask()
                counts["read"] += 1
            except SimflError as error:
                counts["refused"] += 1
                if len(str(error).strip().splitlines()) != 1:
                    wrong.append(f"{name}, {what[0].name} {what[1]}: several lines: {error}")
            except (InternalError, Exception) as error:  # whatever it is, it is no line
                wrong.append(f"{name}, {what[0].name} {what[1]}: {str(error)[-300:]}")
        return Outcome(tuple(wrong), counts)

    return case


CHECKS = (
    Check(3, "forecasts", "a part of a forecast changed, as files of runs are; simulated again, or true",
          "damages", (5, 100, 1_000), forecasts),
    Check(3, "logs", "a log of job times or of a deployment, or profiles of a calibration changed, which no seal can "
          "stand beside; numbers, or one line", "damages", (5, 100, 1_000), logs),
)  # fmt: skip
