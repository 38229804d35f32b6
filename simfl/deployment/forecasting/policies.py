"""Which policy a log shows, and which others it is compared with."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.api.scenarios import InvalidScenario, Scenario
from simfl.deployment.forecasting.measured_coverage import Coverage, coverage
from simfl.deployment.forecasting.past import Past
from simfl.deployment.forecasting.policy_modes import modes
from simfl.plugins import Bools, Integers, SimflError, amount, required_fields
from simfl.plugins.selection import POLICIES, Around, Policy

Relation = Literal["all", "some"]
"""Whether all available clients (or units) take part, or some of them."""

ENOUGH = 8
"""Rounds with a sum below which no structure of units is believed."""
WRONG = ("forecasts of it were never compared with what then happens, and none is given; simfl audit says what the "
         "log's own sums tell")  # fmt: skip
UNSAID = "looks at losses or durations, which a log does not say"

SINGLES = {"uniform": "random:k={k}", "least_total": "weighted:k={k}"}
BATCHES = {mode: f"batch_partition:k={{k}},T={{T}},mode={mode}" for mode in ("uniform", "fair", "least_total")}
HALVES = {mode: f"half_partition:k={{k}},T={{T}},mode={mode}" for mode in ("uniform", "fair")}
SINGLE = {"uniform": 0.6, "least_total": 0.4}
UNITS = {"uniform": 0.45, "fair": 0.45, "least_total": 0.1}
PAIRS = {"uniform": 0.5, "fair": 0.5}
"""Probabilities of modes before a log is seen."""
UNLIKELY = 0.05
SELECTION = {"uniform": "uniform selection", "least_total": "those who took part least",
             "fair": "the one who took part least, and others uniformly"}  # fmt: skip


@dataclass(frozen=True)
class PolicyChoice:
    """A policy as it is simulated.

    Attributes:
        text: as ``--against`` takes it; ``as_before`` where past selections are resampled.
        order: the clients that its clients stand for, shape (n,).
        k: clients in a round.
        before: the log's sums, if the policy answers for them, bool (J, N): a column for each of its clients, in their
            order, then those that it leaves out.
    """

    text: str
    order: Integers
    k: int
    before: Bools | None = None

    def places(self, rows: Bools) -> Bools:
        """Sums of clients, bool (J, N), in the columns of ``before``."""
        others = np.setdiff1d(np.arange(rows.shape[1]), self.order)
        return rows[:, np.append(self.order, others)]

    def after(self, past: Past) -> "PolicyChoice":
        """The choice in a deployment with this past.

        Raises:
            SimflError: it would have to answer for sums that it cannot.
        """
        policy = self.policy()
        if not policy.reads_history:
            return self
        guarantee = policy.guarantee(len(self.order))
        if guarantee is not None and past.doubtful:
            where = f"in {past.doubtful} of {amount(len(past.rows), 'round')}"
            raise SimflError(f"policy {self.text}: some weights of the log may be rounded numbers ({where}), so that "
                             "two sums of the same clients may tell more; no guarantee can be kept")  # fmt: skip
        if guarantee is not None and past.varying:
            raise SimflError(f"policy {self.text}: a client of the log has other weights in other rounds, so that two "
                             "sums of the same clients tell more than one; no guarantee can be kept")  # fmt: skip
        if guarantee is not None and guarantee.semi_strong and np.ptp(past.weights) > 0:
            raise SimflError(f"policy {self.text}: the log's clients have different weights, and the semi-strong "
                             "notion is kept of plain sums only; use notion=weak, or leave them out")  # fmt: skip
        return replace(self, before=self.places(past.rows[past.rows.any(axis=1)]))

    def policy(self) -> Policy:
        """The selection policy over the clients 0 .. n - 1."""
        return cached_policy_of(self.text, len(self.order))


class Law(NamedTuple):
    """A policy, how it picks among available units (``uniform``, ``fair`` or ``least_total``), and its probability."""

    choice: PolicyChoice
    mode: str
    chance: float


@dataclass(frozen=True)
class SeenPolicy:
    """What a log shows of its policy.

    Attributes:
        choice: the policy.
        units: the unit of each client, (N,): clients that always take part together.
        relation: of taking part to being available.
        laws: the policy in each mode that the log allows, the likeliest first.
        circle: pairs of neighbouring units are selected.
        sums: units that are selected in a round.
        failed, worked: units (pairs of them) that were selected and not in the sum, and all that were selected.
        sentence: what was recognised, and why.
    """

    choice: PolicyChoice
    units: Integers
    relation: Relation
    sums: int
    failed: int
    worked: int
    sentence: str
    laws: tuple[Law, ...]
    circle: bool = False


def policy_of(text: str, clients: int) -> Policy:
    """The policy of a text such as ``batch_partition:k=8,T=4``, which needs to be told nothing by clients.

    Raises:
        SimflError: there is none, or it cannot be.
    """
    cls = POLICIES.get(text.partition(":")[0])
    if cls is not None and not issubclass(cls, Around) and (cls.asks or cls.reads):  # or a property, which is something
        raise SimflError(f"policy {text}: {UNSAID}")
    policy = scenario_policy(text, clients, {"learning": {"name": "none", "parameters": 1}})
    if policy.asks or policy.reads:
        raise SimflError(f"policy {text}: {UNSAID}")
    return policy


def scenario_policy(text: str, clients: int, keys: dict[str, object]) -> Policy:
    """The policy of a text in a scenario of so many clients that has these further keys.

    Raises:
        SimflError: there is none, or it cannot be.
    """
    data = {"clients": clients, "selection": {"name": "random", "k": 1}, "training": {"name": "fedavg", "rounds": 1},
            **keys}  # fmt: skip
    try:
        scenario = Scenario.of(data, "forecast", [f"selection={text}"])
    except InvalidScenario as error:
        problems = [f"{p.key.removeprefix('selection').lstrip('.')}: {p.message}".removeprefix(": ")
                    for p in error.problems]  # fmt: skip
        raise SimflError(f"policy {text}: {'; '.join(problems)}") from None
    return scenario.selection


cached_policy_of = cache(policy_of)
"""Policies are pure: one serves all futures."""


def candidate(text: str, k: int, clients: int, participation: Integers) -> PolicyChoice:
    """A policy to compare with, of as many clients a round as the log has where the text does not say.

    Where its units do not divide the clients, those who took part least are left out.

    Raises:
        SimflError: there is none, or it cannot be.
    """
    name, _, keys = text.partition(":")
    outer = re.sub(r"\{.*\}", "", keys)
    words = dict(part.partition("=")[::2] for part in outer.split(",") if part)
    unit = int(words["T"]) if words.get("T", "").isdigit() and int(words["T"]) > 0 else 1
    n = clients - clients % unit
    size = max(unit, int(words["k"]) if words.get("k", "").isdigit() else round(min(k, n) / unit) * unit)
    required = required_fields(POLICIES[name]) if name in POLICIES else []
    if "inner" in required and "inner" not in keys:
        text = f"{text},inner={{name: random, k: {size}}}"
    elif "k" in required and "k" not in words and "{" not in keys:
        text = f"{text}{',' if keys else ':'}k={size}"
    order = np.sort(np.argsort(-participation, kind="stable")[:n])
    choice = PolicyChoice(text, order, size)
    policy = choice.policy()
    return replace(choice, k=policy.k) if outer != keys else choice


def recognise(past: Past, named: str | None = None) -> SeenPolicy:
    """The policy that a log shows, or the one that is named, with what the sizes of its sums say of failures.

    Raises:
        SimflError: there is no policy of that name.
    """
    rows = past.rows[past.rows.any(axis=1)]
    n, singles = rows.shape[1], np.arange(rows.shape[1])
    sizes = rows.sum(axis=1)
    k = int(sizes.max())
    if named is not None and named != "as_before":
        return _as_named(past, named, k)
    if named is None and (halves := _halves(rows)) is not None:
        return halves
    if named is None and (batches := _batches(rows)) is not None:
        return batches
    if named is None and _everybody_fits(rows, sizes):
        choice = PolicyChoice("all", singles, n)
        why = "Sums vary in size as those of a policy do that takes everybody who is available."
        return SeenPolicy(choice, singles, "all", n, 0, 0, why, (Law(choice, "all", 1.0),))
    if named is None and (k == n or _binomial_fits(sizes, k)):
        laws = _laws(modes(rows, k, SINGLE), SINGLES, singles, k)
        why = f"No client is bound to another one, and sums have up to {k} clients: taken to be {_alternatives(laws)}."
        return _failures(rows, laws, singles, why)
    why = "The policy is as_before, as was said" if named else "Sums differ in size by more than chance and failures"
    text = f"{why}; sizes and shares of the past are drawn again."
    choice = PolicyChoice("as_before", singles, k)
    return SeenPolicy(choice, singles, "some", k, 0, 0, text, (Law(choice, "uniform", 1.0),))


def _as_named(past: Past, named: str, k: int) -> SeenPolicy:
    """The policy that is named, with the units that the log shows, or else runs of neighbouring clients.

    Raises:
        SimflError: there is none, or the log's sums are not of whole units of it.
    """
    rows = past.rows[past.rows.any(axis=1)]
    n = rows.shape[1]
    choice = candidate(named, k, n, rows.sum(axis=0))
    policy = choice.policy()
    if policy.reads_history:
        raise SimflError(f"--policy {named}: decides by reserved units, which a log does not say; use --against")
    why, size = f"The policy is {choice.text}, as was said.", policy.unit_size
    halves, batches = _halves(rows), _batches(rows)
    for shown in (halves, batches):
        if shown is not None and shown.choice.policy().unit_size == size and shown.circle == policy_pairs(policy, n):
            return _failures(rows, _as_said(replace(choice, order=shown.choice.order)), shown.units, why)
    unit = size // 2 if policy_pairs(policy, n) else size
    blocks = rows[:, : n - n % unit].reshape(len(rows), -1, unit)
    if n % unit or (blocks.any(axis=2) != blocks.all(axis=2)).any():
        raise SimflError(f"--policy {named}: the log's sums are not of whole units of {unit} neighbouring clients")
    return _failures(rows, _as_said(choice), np.arange(n) // unit, why)


def _as_said(choice: PolicyChoice) -> tuple[Law, ...]:
    policy = choice.policy()
    mode = policy.mode or ("uniform" if policy.uniform else "least_total")
    return (Law(choice, "uniform" if mode == "auto" else mode, 1.0),)


def policy_pairs(policy: Policy, clients: int) -> bool:
    """Whether pairs of neighbouring half-batches are selected: badly chosen, fewer fit than there are disjoint ones."""
    return policy.disjoint_units(clients) < clients // policy.unit_size


def find_refusal(past: Past, named: str | None = None) -> str:
    """Which policy, shown by the log or named, no forecast is given for; empty where one is."""
    rows = past.rows[past.rows.any(axis=1)]
    shown = _halves(rows) or _batches(rows)
    if shown is not None and not coverage_of(shown.choice):
        return f"the log shows {shown.choice.text}"
    if named is None or named == "as_before":
        return ""
    choice = candidate(named, int(rows.sum(axis=1).max()), rows.shape[1], past.rows.sum(axis=0))
    return "" if coverage_of(choice) else f"--policy {named}"


def coverage_of(choice: PolicyChoice, clients: int | None = None) -> dict[str, Coverage]:
    """How often forecasts of a policy held what then happened, by quantity: of its number of clients, or of another."""
    if choice.text == "as_before":
        return {}
    return coverage(
        choice.text, max(choice.policy().unit_sizes), len(choice.order) if clients is None else clients, choice.k
    )


def ends_of(choice: PolicyChoice, quantity: str, values: NDArray[np.number]) -> tuple[Any, Any]:
    """The ends of the 95 % interval of futures (first axis): as far outside as forecasts of the log's policy needed.

    The l-th smallest and largest of F futures hold one more, drawn as they are, with probability 1 - 2 l / (F + 1); l
    is the largest number, from 1, for which this is the measured level or more.
    """
    measured, ordered = coverage_of(choice).get(quantity), np.sort(values, axis=0)
    tail = (1 - (measured.level if measured else 0.95)) / 2 * (len(values) + 1)
    place = max(int(tail + 1e-9), 1)
    return ordered[place - 1], ordered[-place]


def _laws(chances: dict[str, float], texts: dict[str, str], order: Integers, k: int, unit: int = 1) -> tuple[Law, ...]:
    """The modes that are not unlikely, the likeliest first."""
    ranked = sorted(chances.items(), key=lambda item: -item[1])
    likely = [(mode, chance) for mode, chance in ranked if chance >= UNLIKELY]
    total = sum(chance for _, chance in likely)
    return tuple(Law(PolicyChoice(texts[mode].format(k=k, T=unit), order, k), mode, chance / total)
                 for mode, chance in likely)  # fmt: skip


def _alternatives(laws: tuple[Law, ...]) -> str:
    """``uniform selection``, or ``uniform selection (probability 0.93) or ...``"""
    if len(laws) == 1:
        return SELECTION[laws[0].mode]
    return " or ".join(f"{SELECTION[law.mode]} (probability {law.chance:.2f})" for law in laws)


def _failures(rows: Bools, laws: tuple[Law, ...], units: Integers, text: str) -> SeenPolicy:
    """With sums that are smaller than the policy's counted as failures."""
    choice = laws[0].choice
    members = max(1, len(units) // (int(units.max()) + 1))
    sums = max(1, choice.k // members)
    present = rows.sum(axis=1) // members
    relation: Relation = "some" if choice.policy().fixed_size else "all"
    missing = 0 if relation == "all" else int(np.maximum(sums - present, 0).sum())
    circle = policy_pairs(choice.policy(), len(units))
    if relation == "all":
        laws = (Law(choice, "all", 1.0),)
    together = 1 + circle  # both half-batches of a pair fail at once
    return SeenPolicy(choice, units, relation, sums, missing // together, sums * len(rows) // together, text, laws,
                      circle)  # fmt: skip


def _batches(rows: Bools) -> SeenPolicy | None:
    """Fixed batches: all clients have equal columns in classes of one size."""
    n = rows.shape[1]
    _, label, size = np.unique(rows, axis=1, return_inverse=True, return_counts=True)
    label = label.ravel()
    seen = rows.any(axis=0)
    unit = int(np.gcd.reduce(size[label[seen]]))
    if len(rows) < ENOUGH or unit < 2 or n % unit or unit == n or (~seen).sum() % unit:
        return None
    order = np.lexsort((np.arange(n), label, ~seen))
    units = np.empty(n, dtype=np.int64)
    units[order] = np.arange(n) // unit
    k = int(rows.sum(axis=1).max())
    laws = _laws(modes(rows[:, order[::unit]], k // unit, UNITS), BATCHES, order, k, unit)
    text = f"Clients always take part in the same batches of {unit}: batch partitioning, {_alternatives(laws)}."
    return _failures(rows, laws, units, text)


def _halves(rows: Bools) -> SeenPolicy | None:
    """Pairs of neighbouring half-batches on the circle of all clients in the log's order."""
    n = rows.shape[1]
    half = int(np.unique(rows, axis=1, return_counts=True)[1].min())
    if len(rows) < ENOUGH or n % (2 * half) or n < 4 * half:
        return None
    blocks = rows.reshape(len(rows), -1, half)
    whole = blocks.all(axis=2)
    if (whole != blocks.any(axis=2)).any() or whole.all() or not _even_runs(whole):
        return None
    k = int(rows.sum(axis=1).max())
    laws = _laws(modes(rows[:, ::half], k // half, PAIRS, circle=True), HALVES, np.arange(n), k, 2 * half)
    why = f"Half-batches of {half} neighbours take part in pairs: half partitioning, {_alternatives(laws)}."
    return _failures(rows, laws, np.arange(n) // half, why)


def _even_runs(whole: Any) -> bool:
    """Whether each row consists of runs of even length, closed to a circle."""
    for row in whole:
        if row.all():
            continue
        turned = np.roll(row, -int(np.argmin(row)))
        edges = np.flatnonzero(np.diff(np.concatenate([[0], turned.astype(np.int8), [0]])))
        if ((edges[1::2] - edges[::2]) % 2).any():
            return False
    return True


def _everybody_fits(rows: Bools, sizes: NDArray[np.integer]) -> bool:
    """Whether sizes vary as those of sets that everybody joins by chance of their own do, and no less."""
    rates, k = rows.mean(axis=0), int(sizes.max())
    expected, observed = float((rates * (1 - rates)).sum()), float(sizes.var())
    if k == rows.shape[1]:
        return True
    usual = float(np.bincount(sizes).max() / len(sizes))  # a policy's sizes come often, those of chance do not
    off = sizes - sizes.mean()
    alike = float((off[1:] * off[:-1]).sum()) > 2 * float((off**2).sum()) / np.sqrt(len(off))  # failures are not
    often = np.mean(sizes == k) >= (0.5 if alike else 0.25)
    if often or observed < 0.4 * expected or usual > max(0.35, 1.6 / np.sqrt(observed)):
        return False
    missing = 1 - float(sizes.mean()) / k
    fewer = k * missing * (1 - missing)
    return (
        alike
        or missing > 0.25
        or abs(np.log(observed / max(expected, 1e-9))) < abs(np.log(observed / max(fewer, 1e-9)))
    )


def _binomial_fits(sizes: NDArray[np.integer], k: int) -> bool:
    """Whether sizes vary no more than k independent failures make them."""
    rate = float(sizes.mean()) / k
    return float(sizes.var()) <= 2 * k * rate * (1 - rate) + 0.5
