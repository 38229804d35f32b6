"""Every hook of a family gives something of a wrong type: the command says in a line which plugin it was."""

import re
from inspect import isfunction

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as command
from simfl.core.registration.family_index import FAMILIES
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it
from tests.plugins.test_wrong_answers import ATTACK, HEAD, PROTOCOL
from tests.support.sizes import repeats

SMALL = """\
name: small
clients: 4
devices: {computation: 0.1, failure: {name: bernoulli, probability: 0.1}}
selection: all
training: {name: fedavg, rounds: 1, batch_size: 8, learning_rate: 0.1, weighting: equal}
learning: {data: {name: synthetic, samples: 24, test_samples: 10, shape: [3], classes: 2}, model: logistic}
metrics: [attackers]
"""
POLICY = '''
@POLICIES("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""
    k: int
    unit_size = 2

    def select(self, view, k, rng):
        found = np.flatnonzero(view.available)[:k].astype(np.int32)
        return found.reshape(-1, 2) if len(found) == k else np.empty((0, 2), np.int32)
'''
AGGREGATE = '''
@AGGREGATES("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""
    weighted = True

    def combine(self, deltas, weights, normaliser, mask=None):
        return (weights / normaliser @ deltas).astype(np.float32)
'''
AGENT = '''
@CLIENT_AGENTS("wrong")
@dataclass(frozen=True)
class Wrong:
    """Gives something wrong."""
    alone = attacks = True

    def run(self, node):
        request = yield node.receive("model")
        update = yield node.train(request)
        yield node.reply(request, update)

    def sends(self, view):
        return -view.deltas
'''
BASES = {
    "selection": ("selection={name: wrong, k: 4}", POLICY),
    "secagg": ("secagg=wrong", PROTOCOL),
    "aggregate": ("training.aggregate=wrong", AGGREGATE),
    "agents": ("agents.client=wrong", AGENT),
    "attack": ("attacks=[wrong]", ATTACK),
}
VALUES = ["'text'", "np.zeros((2, 3))", "object()", "None", "2.5", "[('a', 1)]", "{'a': 'b'}", "frozenset({1})"]
MORE = """
from functools import cached_property, partialmethod
from simfl.core.types import Receipts
from simfl.plugins.agents import CLIENT_AGENTS
from simfl.plugins.selection import POLICIES
from simfl.plugins.training import AGGREGATES
"""


def hooks(family):
    """What the family's protocol lets a plugin say or give."""
    known = {}
    for cls in reversed(FAMILIES[family].protocol.__mro__[:-1]):
        members = {**dict.fromkeys(cls.__annotations__), **vars(cls)}
        known |= {name: item for name, item in members.items() if not name.startswith("_")}
    return [(name, isfunction(item)) for name, item in known.items() if name not in ("name", "unsaid")]


def said(folder, family, extra="", asked=("run", "--force")):
    choice, code = BASES[family]
    if re.search(r"^    k = ", extra, re.M):
        code = code.replace("    k: int\n", "")
    (folder / "wrong.py").write_text(HEAD + MORE + code + extra)
    (folder / "small.yaml").write_text(SMALL)
    words = [asked[0], folder / "small.yaml", choice, "--plugin", folder / "wrong.py", *asked[1:]]
    if "run" in asked:
        words += ["--out", folder / "r"]
    return CliRunner().invoke(command, list(map(str, words)))


@pytest.mark.parametrize("family", BASES)
def test_without_a_mistake_it_runs(family, tmp_path):
    assert said(tmp_path, family).exit_code == 0


CASES = [(family, *hook, value) for family in BASES for i, hook in enumerate(hooks(family))
         for value in (VALUES[i % len(VALUES) :] + VALUES[: i % len(VALUES)])[: repeats(2, len(VALUES))]]  # fmt: skip
METHOD = "    def {name}(self, *args, **more):\n        return {value}\n"
FORMS = [
    "    {name} = partialmethod(lambda self, extra, *args, **more: {value}, 3)\n",
    "    @staticmethod\n    def {name}(*args, **more):\n        return {value}\n",
    "    @classmethod\n" + METHOD,
    "    @cached_property\n    def {name}(self):\n        return lambda *args, **more: {value}\n",
    "    @property\n    def {name}(self):\n        return lambda *args, **more: {value}\n",
    "    @property\n    def {name}(self):\n        return {value}\n",
]


@pytest.mark.parametrize(("family", "name", "is_method", "value"), CASES)
def test_a_value_of_a_wrong_type_is_a_line_that_names_the_plugin(family, name, is_method, value, tmp_path):
    """Where it happens to do, all is well."""
    named(tmp_path, family, METHOD.format(name=name, value=value) if is_method else f"    {name} = {value}\n")


@pytest.mark.parametrize(
    ("family", "name", "value", "form"),
    [
        (family, name, value, form)
        for family in BASES
        for i, (name, is_method) in enumerate(hooks(family))
        for j in range(repeats(1, len(FORMS)))
        for value, form in [(VALUES[(i + j) % len(VALUES)], FORMS[(i + j) % len(FORMS)] if is_method else FORMS[-1])]
    ],
)
def test_a_hook_of_another_form_is_held_to_its_type(family, name, value, form, tmp_path):
    named(tmp_path, family, form.format(name=name, value=value))


def named(folder, family, text):
    done = said(folder, family, "\n" + text)
    assert done.exit_code in (0, 1, 2) and "internal error" not in done.stderr and "Traceback" not in done.stderr
    if done.exit_code:
        assert len(done.stderr.splitlines()) == 1 and "wrong" in done.stderr.lower()


@pytest.mark.parametrize("form", [METHOD, *FORMS[:3]])
def test_what_is_no_hook_is_no_method(form, tmp_path):
    done = said(tmp_path, "aggregate", "\n" + form.format(name="sum_only", value="True"))
    assert "sum_only must be bool, not a method; write @property before it" in done.stderr and done.exit_code == 2


OTHERS = "{'prf': 3}", "{'prf': POLICIES['random'](2)}", "[('a', 1)]", "None"


@pytest.mark.parametrize("value", ["{'prf': self}", "{}", *OTHERS])
def test_what_theory_alone_asks_for(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = said(tmp_path, "secagg", f"\n    def counting(self):\n        return {value}\n", ("theory",))
    right = value not in OTHERS
    assert done.exit_code == (0 if right else 1)
    assert right or done.stderr.startswith("secagg 'wrong': counting must give Mapping[str, Protocol], not ")


def test_a_value_in_a_record_is_named(tmp_path):
    receipts = "\n    def receipts(self, clients):\n        return Receipts('1', 2, 0.1, 0.1)\n"
    done = said(tmp_path, "selection", receipts)
    assert done.stderr == (
        "selection 'wrong': receipts must give Receipts or None, not Receipts with told_bytes = str\n"
    )
