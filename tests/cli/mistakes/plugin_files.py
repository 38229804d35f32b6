"""Files of plugins: syntax, names, classes and methods."""

from tests.cli.mistakes import typed

HEAD = """\
from dataclasses import dataclass
import numpy as np
from simfl.plugins.selection import POLICIES
"""
BODY = """
@dataclass(frozen=True)
class Mine:
    "Mine."

    k: int
    unit_size = 1
    example = {"k": 2}

    def select(self, view, k, rng):
        return np.flatnonzero(view.available)[:k].astype(np.int32).reshape(-1, 1)
"""
SELECT = BODY[BODY.index("    def select") :]

RULE = """\
from dataclasses import dataclass
from simfl.plugins.training import RULES, FedAvg

@RULES("mine")
@dataclass(frozen=True)
class Mine(FedAvg):
    "Mine."

    server = "synchron"
"""

MISTAKES = [
    typed("validate fl.yaml training=mine --plugin mine.py", "training", "synchron", "synchronous", mine__py=RULE),
    typed("run fl.yaml selection=mine --plugin mine.py", "mine.py", "no such|does not exist|not found"),
    typed("run fl.yaml selection=mine", "mine", "random|known"),
    typed("run fl.yaml selection=mine --plugin mine.py", "mine.py", "line 2|:2", mine__py="import numpy\ndef f(:\n"),
    typed("run fl.yaml selection=mine --plugin mine.py", "mine.py", "nonumpy", mine__py="import nonumpy\n"),
    typed(
        "run fl.yaml selection=mine --plugin mine.py", "mine", "registers nothing|register|known", mine__py=HEAD + BODY
    ),
    typed(
        "run fl.yaml selection=mine --plugin mine.py",
        "select",
        mine__py=HEAD + '@POLICIES("mine")' + BODY.replace(SELECT, ""),
    ),
    typed(
        "run fl.yaml selection=mine --plugin mine.py",
        "mine.py",
        "dataclass",
        mine__py=HEAD + '@POLICIES("mine")' + BODY.replace("@dataclass(frozen=True)\n", ""),
    ),
    typed(
        "run fl.yaml selection=mine --plugin mine.py",
        "mine.py",
        "random",
        "already|taken|exists",
        mine__py=HEAD + '@POLICIES("random")' + BODY,
    ),
    typed("run fl.yaml selection=mine --plugin mine.py", "mine.py", "name", mine__py=HEAD + "@POLICIES" + BODY),
    typed("run fl.yaml selection=Mine --plugin mine.py", "Mine", "mine", mine__py=HEAD + '@POLICIES("mine")' + BODY),
    typed(
        "run fl.yaml selection=mine:size=3 --plugin mine.py", "size", "k", mine__py=HEAD + '@POLICIES("mine")' + BODY
    ),
    typed(
        "run fl.yaml selection=mine --plugin mine.py",
        "mine.py",
        "ValueError|boom",
        mine__py="raise ValueError('boom')\n",
    ),
    typed(
        "run fl.yaml selection=mine learning=none --plugin mine.py",
        "mine",
        "select",
        mine__py=HEAD + '@POLICIES("mine")' + BODY.replace("np.flatnonzero", "np.nonzeroflat"),
        code=1,
    ),
    typed("run fl.yaml --plugin plugins", "plugins", "Python file", plugins="FOLDER"),
    typed("run fl.yaml --plugin mine.txt", "mine.txt", ".py|Python", mine__txt="hello there\n"),
    typed("list --plugin mine.py selections", "selections", "selection", mine__py=HEAD + '@POLICIES("mine")' + BODY),
]
