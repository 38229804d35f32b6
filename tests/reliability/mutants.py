"""Bar 4: whatever a scenario's text or an override says, a message or a scenario, and never a traceback."""

import re
import time

import numpy as np

from simfl.scenario import InvalidScenario, Scenario
from tests.reliability.check import Case, Check, Outcome, Plan, when
from tests.reliability.measured import measured
from tests.scenario.test_fuzz import OVERRIDES, TEXTS
from tests.support.mutations import mutated
from tests.support.scenario_samples import GOOD

MOST_S, MOST_MB = 1.0, 300.0
BATCH, FILES = 100, 50
PLACED = re.compile(r"(fuzz|built-in \w+)(:\d+(:\d+)?)?: .+")  # also in the scenario that it extends


def judged(text: str, overrides: list[str], place: re.Pattern[str]) -> tuple[str, str]:
    """What is wrong, and how it ended."""
    begin, end = time.process_time(), "valid"
    try:
        Scenario.parse(text, "fuzz", overrides)
    except InvalidScenario as error:
        end = "refused"
        lines = str(error).splitlines()
        if not lines or not str(error).replace("\n", "").isprintable() or not all(map(place.fullmatch, lines)):
            return f"message {str(error)[:200]!r}", end
    except Exception as error:
        return f"{type(error).__name__}: {error}", "crashed"
    spent = time.process_time() - begin
    return (f"{spent:.1f} s" if spent > MOST_S else ""), end


def texts(plan: Plan) -> Case:
    """A hundred mutated scenarios."""

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        drawn = [mutated(TEXTS[rng.integers(len(TEXTS))], rng) for _ in range(BATCH)]
        return _counted([judged(text, [], PLACED) for text in drawn], "files", drawn)

    return case


def overrides(plan: Plan) -> Case:
    """A hundred command lines of one to three overrides, more than half of them mutated."""
    anything = re.compile(r".+")

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        drawn = []
        for _ in range(BATCH):
            chosen = [OVERRIDES[at] for at in rng.integers(len(OVERRIDES), size=rng.integers(1, 4))]
            drawn.append([mutated(one, rng) if rng.random() < 0.6 else one for one in chosen])
        return _counted([judged(GOOD, words, anything) for words in drawn], "scenarios", drawn)

    return case


def _counted(found: list[tuple[str, str]], unit: str, drawn: list) -> Outcome:
    ends = [end for _, end in found]
    wrong = tuple(f"{why}, of {what!r}" for (why, _), what in zip(found, drawn) if why)
    return Outcome(wrong, {unit: len(found), "valid": ends.count("valid"), "refused": ends.count("refused")})


def commands(plan: Plan) -> Case:
    """``simfl validate`` of fifty mutated files in a process of its own."""

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        names = []
        for i in range(FILES):
            names.append(f"{number}-{i}.yaml")
            text = mutated(TEXTS[rng.integers(len(TEXTS))], rng)
            (plan.scratch / names[-1]).write_bytes(text.encode("utf-8", errors="surrogateescape"))
        code, said, spent, peak = measured(plan.scratch, "validate", *names)
        wrong = when(code not in (0, 2, 5) or "Traceback" in said, f"exit {code}: {said[-300:]}")
        wrong += when(spent > MOST_S * FILES or peak > MOST_MB, f"{spent:.1f} s and {peak:.0f} MB")
        wrong += [f"{name}: not a word" for name in names if name not in said]
        return Outcome(tuple(wrong), {"files": FILES})

    return case


CHECKS = (
    Check(4, "mutants", "scenarios with one to three random mutations; valid, or refused by file:line:column, within "
          "1 s each",
          "files", (100, 10_000, 1_000_000), texts),
    Check(4, "overrides", "mutated overrides of a valid scenario; applied, or refused in words, within 1 s each",
          "scenarios", (100, 3_000, 100_000), overrides),
    Check(4, "commands", "simfl validate of fifty mutated files; exit 0, 2 or 5 (a missing extra), a word on each, no "
          "traceback, at most 300 MB", "files", (0, 100, 5_000), commands),
)  # fmt: skip
