"""What an honest-but-curious server would recover, and what protecting against it costs, in words."""

from simfl.report.advice import change, family_level
from simfl.report.measures import Measure, with_values
from simfl.report.study import Group, Study

__all__ = ["attacked"]

COSTS = ("test_accuracy", "time_to_target_s", "time_s", "bytes")
MOST = 6
"""Groups that are told of one by one."""


def attacked(study: Study) -> list[str]:
    """Sentences computed from the numbers; none where no run was attacked."""
    known = {measure.name: measure for measure in with_values(study)}
    found = [words for group in study.groups[:MOST] if (words := _recovers(group, known, study))]
    if found and len(study.groups) > MOST:
        found.append("The table has the others.")
    error = known.get("recovery_error")
    if error is None or study.single:
        return found
    told = [group for group in study.groups if error.by_seed(group)]
    open_ = min(told, key=lambda group: error.over(group).mean)
    closed = max(told, key=lambda group: error.over(group).mean)
    return [*found, *_costs(study, known, open_, closed)] if open_ is not closed else found


def _recovers(group: Group, known: dict[str, Measure], study: Study) -> str:
    """What is recovered under one group."""

    def value(name: str) -> float | None:
        mean = known[name].over(group).mean if name in known else float("nan")
        return None if mean != mean else mean

    parts = []
    if (error := value("recovery_error")) is not None:
        share = value("recovered_clients") or 0.0
        parts.append(
            f"recovers the clients' updates with a squared error of {error:.2g} of their own"
            f" ({100 * share:.0f}\u202f% of the clients below 0.1)"
        )
    if (psnr := value("inversion_psnr")) is not None:
        guess = next((r.finals["inversion_guess_psnr"] for r in group.runs if "inversion_guess_psnr" in r.finals), None)
        beside = "" if guess is None else f", where the mean sample has {guess:.0f} dB"
        parts.append(f"their samples at {psnr:.0f} dB{beside}")
    if (auc := value("membership_auc")) is not None:
        parts.append(f"and tells who was trained on with an area under the curve of {auc:.2f}")
    if not parts:
        return ""
    under = "An honest-but-curious server" if study.single else f"Under {group.label} an honest-but-curious server"
    verb = "" if error is not None else "finds "
    return f"{under} {verb}{', '.join(parts)}."


def _costs(study: Study, known: dict[str, Measure], open_: Group, closed: Group) -> list[str]:
    """What the most protective group costs against the least."""
    level = family_level(study)
    changes = [c for name in COSTS if name in known and (c := change(known[name], closed, open_, level))]
    worse, better = ([c.words for c in changes if c.verdict == sign] for sign in (-1, 1))
    same = [c.words for c in changes if c.verdict == 0]
    said = f"To protect by {closed.label} rather than {open_.label} costs {_and(worse)}" if worse else (
        f"To protect by {closed.label} rather than {open_.label} costs nothing that is told apart from chance"
    )  # fmt: skip
    return [
        said
        + (f", and brings {_and(better)}" if better else "")
        + (f"; not told apart: {_and(same)}" if same else "")
        + "."
    ]


def _and(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
