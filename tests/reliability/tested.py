"""Tests of the suite as cases of a check: what passes or fails without being drawn."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.reliability.check import Check, NotMeasured, Outcome, Plan
from tests.support.sizes import WHOLE_SEARCHES

HERE = Path(__file__).resolve().parent.parent.parent


def tested(bar: int, name: str, what: str, *nodes: str, nightly: tuple[str, ...] = (), slow: bool = False) -> Check:
    """A check that runs these tests once, in a process of their own.

    Args:
        bar, name, what: of the check.
        nodes: of pytest, below tests/.
        nightly: further ones for the nightly size, in which random searches are whole (``tests/support/sizes.py``).
        slow: also those that are marked slow, in every size.
    """

    def begin(plan: Plan):
        def case(number: int) -> Outcome:
            marks = "slow or not slow" if slow else "not slow"
            chosen = [f"tests/{node}" for node in (*nodes, *(nightly if plan.size == "nightly" else ()))]
            found = plan.scratch / "found.xml"
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", marks,
                       f"--junitxml={found}", f"--basetemp={plan.scratch / 'tests'}", *chosen]  # fmt: skip
            whole = {WHOLE_SEARCHES: "1"} if plan.size == "nightly" else {}
            about = os.environ | {"PYTHONPATH": str(HERE)} | whole
            ended = subprocess.run(command, cwd=HERE, env=about, capture_output=True, text=True)
            if ended.returncode not in (0, 1):
                raise RuntimeError(f"pytest ended with {ended.returncode}: {ended.stdout[-300:]}{ended.stderr[-300:]}")
            cases = list(ElementTree.parse(found).iter("testcase"))
            skipped = [each for each in cases if each.find("skipped") is not None]
            wrong = [each for each in cases if each.find("failure") is not None or each.find("error") is not None]
            if len(skipped) == len(cases):
                raise NotMeasured(f"all tests skipped: {skipped[0].find('skipped').get('message') if skipped else ''}")
            told = tuple(f"{each.get('classname')}::{each.get('name')}" for each in wrong)
            return Outcome(told, {"tests": len(cases) - len(skipped)} | ({"skipped": len(skipped)} if skipped else {}))

        return case

    return Check(bar, name, what, "tests", (0, 1, 1), begin)
