"""What is known of the guarantees that runs came to: exact, or bounds."""

from collections.abc import Iterable, Sequence
from math import inf, isinf
from typing import NamedTuple

from simfl.core.errors import amount
from simfl.report.study import Group, Run

NOTIONS = ("semi-strong", "weak", "strong")
"""The one that decides first."""

LOWER = ("privacy_semi_strong", "privacy_weak_lower", "privacy_strong")
"""Columns of what a run's guarantees are at least."""

AS_FAR = "as far as is known"
"""Beside bounds."""


class GuaranteeBounds(NamedTuple):
    """A guarantee is at least ``lower`` and at most ``upper`` clients; infinity = no upper bound is known."""

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        return self.lower == self.upper

    @property
    def text(self) -> str:
        """``3``, ``1 to 5`` or ``at least 3``."""
        if self.exact:
            return f"{self.lower:.6g}"
        return f"at least {self.lower:.6g}" if isinf(self.upper) else f"{self.lower:.6g} to {self.upper:.6g}"

    @property
    def clients(self) -> str:
        """``3 clients``, ``between 1 and 5 clients`` or ``at least 3 clients``."""
        if self.exact or isinf(self.upper):
            return f"{'' if self.exact else 'at least '}{amount(self.lower, 'client')}"
        return f"between {self.lower:.6g} and {amount(self.upper, 'client')}"


UNKNOWN = GuaranteeBounds(1.0, inf)
"""What holds of any sums."""


def weak_bounds(run: Run) -> GuaranteeBounds | None:
    """Of the fewest clients in any combination of a run's sums; None where they were not computed."""
    lower = run.finals.get("privacy_weak_lower")
    return None if lower is None else GuaranteeBounds(lower, max(lower, run.finals.get("privacy_weak_upper", inf)))


def least(bounds: Iterable[GuaranteeBounds]) -> GuaranteeBounds:
    """Bounds of the least of some guarantees."""
    lowers, uppers = zip(*bounds, strict=True)
    return GuaranteeBounds(min(lowers), min(uppers))


def final_guarantees(group: Group) -> tuple[GuaranteeBounds, ...]:
    """Of the least guarantee that a group's runs had come to when they ended, by :data:`NOTIONS`."""
    return tuple(map(least, zip(*map(_of_run, group.runs), strict=True)))


def _of_run(run: Run) -> tuple[GuaranteeBounds, ...]:
    """The semi-strong guarantee has no column that says whether it is exact. It is never above the weak one, and taken
    as exact where that is, but for a value that is merely the strong guarantee: exact, it would be the weak one, too.
    """
    weak, strong, semi = weak_bounds(run), run.finals.get("privacy_strong"), run.finals.get("privacy_semi_strong")
    weak = weak or UNKNOWN
    lower = semi or strong or 1.0
    exact = semi is not None and weak.exact and (semi != strong or semi == weak.lower)
    upper = lower if exact else max(lower, weak.upper)
    return GuaranteeBounds(lower, upper), weak, UNKNOWN if strong is None else GuaranteeBounds(strong, strong)


def strongest(groups: Sequence[Group]) -> tuple[list[Group], str]:
    """The groups of the strongest observed guarantee: semi-strong, then weak, then strong.

    One is stronger than another only if its lower bound exceeds the other's upper bound. Where none was computed of any
    group, it is no criterion.

    Returns:
        The groups that none is stronger than; why it is not known which of them is the strongest, empty where they
        have the same exact guarantees.
    """
    bounds = {group.label: final_guarantees(group) for group in groups}
    left = [group for group in groups if not any(_is_weaker(bounds[group.label], other) for other in bounds.values())]
    decides = len(left) > 1 and any(each != UNKNOWN for group in left for each in bounds[group.label])
    for place, notion in enumerate(NOTIONS if decides else ()):
        if not all(bounds[group.label][place].exact for group in left):
            each = [f"{_words(bounds[group.label][place])} for {group.label}" for group in left]
            return left, f"it is not known which guarantee is the strongest: {notion} {', '.join(each)}"
    return left, ""


def _is_weaker(one: Sequence[GuaranteeBounds], other: Sequence[GuaranteeBounds]) -> bool:
    """Whether guarantees are certainly weaker than others: bounds that overlap decide nothing."""
    for mine, theirs in zip(one, other, strict=True):
        if mine != theirs or not mine.exact:
            return mine.upper < theirs.lower
    return False


def _words(bounds: GuaranteeBounds) -> str:
    return "not computed" if bounds == UNKNOWN else bounds.text


def settling_doubts(groups: Sequence[Group]) -> str:
    """Whose guarantee may still fall, and why nobody knows; empty where all have settled."""
    falling = [group for group in groups if any("falls" in _doubts(run) for run in group.runs)]
    if falling:
        exact = all(bounds.exact for group in falling for bounds in final_guarantees(group))
        known = "" if exact else ", as far as it is known,"
        names = ", ".join(group.label for group in falling)
        return f"the guarantee of {names}{known} still falls, and theory does not know where it ends"
    rare = ", ".join(group.label for group in groups if any("rare" in _doubts(run) for run in group.runs))
    seldom = "was computed in too few rounds (privacy.every) to tell whether it still falls"
    return f"the guarantee of {rare} {seldom}, and theory does not know where it ends" if rare else ""


def _doubts(run: Run) -> set[str]:
    """What keeps a run's guarantees from being settled, none of it where they are.

    A guarantee is settled if it is 1, or if at least two values were computed in the later half of the rounds and all
    of these are equal. ``falls`` = they are not, ``rare`` = there are fewer than two. One that was never computed says
    nothing.
    """
    reasons = set()
    for name in (name for name in LOWER if name in run.rounds):
        column = run.rounds[name]
        late, values = column.iloc[len(column) // 2 :].dropna(), column.dropna()
        if len(values) and values.iloc[-1] > 1:
            reasons |= {"rare"} if len(late) < 2 else {"falls"} if late.nunique() > 1 else set()
    return reasons
