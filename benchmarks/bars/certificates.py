"""Bar 9, where two systems meet: what a run prints of its clients, held against a recording of the simulated wire."""

import shutil

from judge import gone_on, judged, played
from pairs import cell, pairs, triples

from bars.check import Case, Check, Outcome, Plan

__all__ = ["CHECKS"]


def two(plan: Plan) -> Case:
    """Every two plugins, three rounds, under the recorder; then killed and resumed."""
    every = list(pairs())

    def case(number: int) -> Outcome:
        step = max(1, len(every) // 40) if plan.size != "nightly" else 1
        pair = every[number * step % len(every)]
        found, where = cell(*pair), plan.scratch / str(number)
        if found.outcome == "refused":
            return Outcome((), {"refused": 1})
        scenario, folder, tape = played(found.scenario, where)
        wrong = judged(scenario, folder, tape)
        if (gone_on(scenario, where) / "rounds.csv").read_bytes() != (folder / "rounds.csv").read_bytes():
            wrong.append("another rounds.csv after a kill")
        shutil.rmtree(where)
        return Outcome(tuple(f"{' + '.join(map(str, pair))}: {it}" for it in wrong), {found.outcome: 1})

    return case


def three(plan: Plan) -> Case:
    """Three plugins drawn at random, three rounds, under the recorder."""

    def case(number: int) -> Outcome:
        chosen = triples(number, plan.seed)
        found, where = cell(*chosen), plan.scratch / str(number)
        if found.outcome == "refused":
            return Outcome((), {"refused": 1})
        wrong = judged(*played(found.scenario, where))
        shutil.rmtree(where)
        return Outcome(tuple(f"{' + '.join(map(str, chosen))}: {it}" for it in wrong), {found.outcome: 1})

    return case


CHECKS = (
    Check(9, "pairs", "every two plugins (five minutes: 40 of the pairs) in one scenario: refused in one line, or run "
          "for three rounds; parts, forms and bytes on the wire are those that the certificates speak of; killed and "
          "resumed, the same bytes", "pairs", (4, 40, 1772), two),
    Check(9, "triples", "three plugins drawn at random, likewise", "triples", (4, 30, 3000), three),
)  # fmt: skip
