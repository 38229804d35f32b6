"""Bar 9, where two systems meet: what a run prints of its clients, held against a recording of the simulated wire."""

import shutil
from pathlib import Path

from tests.reliability.check import Case, Check, Outcome, Plan
from tests.support.judge import tried
from tests.support.pairs import Plugin, cell, pairs, triples


def two(plan: Plan) -> Case:
    """Two plugins together, three rounds, under the recorder; then killed and resumed."""
    every = list(pairs())
    step = max(1, len(every) // 40) if plan.size != "nightly" else 1
    return lambda number: _tried(every[number * step % len(every)], plan.scratch / str(number), killed=True)


def three(plan: Plan) -> Case:
    """Three plugins drawn at random, three rounds, under the recorder."""
    return lambda number: _tried(triples(number, plan.seed), plan.scratch / str(number))


def _tried(chosen: tuple[Plugin, ...], out: Path, killed: bool = False) -> Outcome:
    found = cell(*chosen)
    if found.outcome == "refused":
        return Outcome((), {"refused": 1})
    wrong = tried(found.scenario, out, killed)
    shutil.rmtree(out, ignore_errors=True)
    if wrong is None:
        return Outcome((), {"refused when it began": 1})
    return Outcome(tuple(f"{' + '.join(map(str, chosen))}: {it}" for it in wrong), {found.outcome: 1})


CHECKS = (
    Check(9, "pairs", "two plugins of 11 of 29 families (five minutes: 40 of the pairs) in one scenario: refused in "
          "one line, or run for three rounds; parts, forms and bytes on the wire are those that the certificates speak "
          "of; killed and resumed, the same bytes", "pairs", (4, 40, 1772), two),
    Check(9, "triples", "three plugins drawn at random, likewise", "triples", (4, 30, 3000), three),
)  # fmt: skip
