"""Bar 2: killed anywhere and resumed, a run gives the same bytes, loses little and pays little for it."""

import shutil
import time
from unittest import mock

import numpy as np

from simfl.results import checkpoint
from simfl.runs.run import run
from simfl.runs.simulation import CHECKPOINTS
from simfl.scenario import Scenario
from tests.reliability.check import Case, Check, Outcome, Plan, when
from tests.runs.test_run import DIGITS, PROTOCOL, tables
from tests.support.kills import files, killed_after
from tests.support.search import impatient, killed

BUFFERED = ["selection={name: random, k: 1}", "training={name: fedbuff, rounds: 400, concurrency: 6, buffer: 3}"]


def steps(plan: Plan) -> Case:
    """At chosen writes: twice at random ones, in every fifth scenario also at each of the last twenty."""

    def case(number: int) -> Outcome:
        last = 20 if number % 5 == 0 else 0
        with impatient():
            died, wrong = killed(number, plan.scratch / "runs", plan.seed, tries=4, last=last)
        shutil.rmtree(plan.scratch / "runs")
        return Outcome(tuple(wrong), {"kills": died, "random scenarios": 1})

    return case


def sigkills(plan: Plan) -> Case:
    """A forked process plays, and is killed after a random time; the next one goes on."""

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        chosen = [f"seed={int(rng.integers(1000))}", "trace=events", "privacy=none", *(BUFFERED if number % 2 else ())]
        scenario = Scenario.parse(PROTOCOL, "killed", chosen)
        begin = time.perf_counter()
        whole = files(run(scenario, plan.scratch / "whole").path)
        lasts_s, kills = time.perf_counter() - begin, 0
        for _ in range(10):
            kills += killed_after(rng.uniform(0, 0.6 * lasts_s), lambda: run(scenario, plan.scratch / "again"))
        again = files(run(scenario, plan.scratch / "again").path)
        for name in ("whole", "again"):
            shutil.rmtree(plan.scratch / name)
        wrong = [name for name in sorted(whole.keys() | again.keys()) if whole.get(name) != again.get(name)]
        return Outcome(tuple(f"{name} differs" for name in wrong), {"kills": kills, "runs": 1})

    return case


class _Stop(Exception):
    pass


def lost(plan: Plan) -> Case:
    """Interrupted after a random round, how many rounds are run twice."""

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        rounds = int(rng.integers(2, 600))
        at = int(rng.integers(1, rounds))
        scenario = Scenario.parse(PROTOCOL, "lost", [f"training.rounds={rounds}", f"seed={number}", "privacy=none"])
        whole = tables(run(scenario, plan.scratch / "whole").path)

        def stop(done: int, rounds: int, time_s: float) -> None:
            if done == at:
                raise _Stop

        try:
            run(scenario, plan.scratch / "again", progress=stop)
        except _Stop:
            pass
        begun: dict[str, int] = {}
        again = tables(run(scenario, plan.scratch / "again", phase=begun.setdefault).path)
        for name in ("whole", "again"):
            shutil.rmtree(plan.scratch / name)
        twice, most = at - begun["running"], max(1, rounds // CHECKPOINTS)
        wrong = when(whole != again, "other bytes") + when(
            not 0 <= twice <= most, f"{twice} rounds lost, more than {most}"
        )
        return Outcome(tuple(wrong), {"rounds run twice": twice, "rounds in all": rounds})

    return case


def checkpoints(plan: Plan) -> Case:
    """Processor seconds inside ``checkpoint.save`` beside those of the whole run."""
    kinds = (PROTOCOL, DIGITS)

    def case(number: int) -> Outcome:
        spent, save = [], checkpoint.save

        def timed(*arguments: object) -> None:
            begin = time.process_time()
            save(*arguments)
            spent.append(time.process_time() - begin)

        scenario = Scenario.parse(kinds[number % 2], "timed", [f"seed={number}"])
        begin = time.process_time()
        with mock.patch.object(checkpoint, "save", timed):
            run(scenario, plan.scratch / "runs", force=True)
        share, each_s = sum(spent) / (time.process_time() - begin), sum(spent) / len(spent)
        wrong = when(share > 0.02 and each_s > 0.02, f"{each_s * 1e3:.1f} ms a checkpoint, {share:.1%} of the run")
        return Outcome(tuple(wrong), {"checkpoints": len(spent), "µs in all": round(sum(spent) * 1e6)})

    return case


CHECKS = (
    Check(2, "steps", "random scenarios die before or after chosen writes (tables, checkpoints, renames, finishing) "
          "and go on; the bytes of the undisturbed run", "kills", (10, 200, 2_000), steps),
    Check(2, "sigkills", "FedAvg and FedBuff in a process of their own get SIGKILL at random times and go on; the "
          "same bytes",
          "kills", (5, 60, 1_000), sigkills),
    Check(2, "lost", "interrupted after a random round; one round is run again at most, or one in fifty; the same "
          "bytes",
          "runs", (1, 6, 300), lost),
    Check(2, "checkpoints", "a checkpoint takes under 2 % of its run's processor time, or under 20 ms",
          "checkpoints", (10, 200, 2_500), checkpoints),
)  # fmt: skip
