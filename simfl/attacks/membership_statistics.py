"""Who was trained on: statistics of single samples, and how well they tell members from others."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.attacks.base import Curve

Floats = NDArray[np.float64]

POOLED_BELOW = 64
"""Shadow models below which all samples share one deviation."""

PER_RATE = 10
"""False alarms of which a rate must allow so many among the non-members, else it is not measured."""


def margins(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> Floats:
    """log p_y - log sum_{k != y} p_k, (n,), of logits (n, classes), as a difference of logits (Carlini et al. 2022)."""
    from scipy.special import logsumexp

    scores, place = np.array(logits, dtype=np.float64), np.arange(len(labels))
    label_scores = scores[place, labels].copy()
    scores[place, labels] = -np.inf
    return label_scores - logsumexp(scores, axis=1)


def lira(target: Floats, shadows: Floats, inside: NDArray[np.bool_], online: bool) -> Floats:
    """The likelihood-ratio statistic of each sample, (n,); larger = more likely a member (Carlini et al. 2022).

    Means are of each sample; of fewer than 64 shadow models the deviations from them are pooled over the samples.
    Offline it is one-sided: how far the target lies above what models without the sample say.

    Args:
        target: the margin under the attacked model, (n,).
        shadows: under each shadow model, (M, n).
        inside: whether the shadow model was trained on the sample, (M, n); every sample both ways.
        online: use the models that were trained on a sample, too.
    """
    out, away = _normal(shadows, ~inside)
    if not online:
        return (target - out) / away
    mean, near = _normal(shadows, inside)
    return (np.log(away) + ((target - out) / away) ** 2 / 2) - (np.log(near) + ((target - mean) / near) ** 2 / 2)


def _normal(shadows: Floats, chosen: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Means (n,) and deviations (n,) of the chosen entries of each column."""
    count = chosen.sum(axis=0)
    if not count.all():
        raise ValueError("a sample needs shadow models with it and without it")
    mean = np.where(chosen, shadows, 0).sum(axis=0) / count
    squares = np.where(chosen, np.square(shadows - mean), 0)
    if len(shadows) < POOLED_BELOW:
        spread = np.full(len(count), squares.sum() / max(int((count - 1).sum()), 1))
    else:
        spread = squares.sum(axis=0) / np.maximum(count - 1, 1)
    return mean, np.sqrt(spread) + 1e-30


def fedmia(client: Floats, others: Floats) -> Floats:
    """Phi((phi_i - mu) / sigma), (n,): the rank of what a client's update says of samples among what others' say.

    Of margins under the client's recovered model, or cosines of its update with the samples' gradients, (n,); of at
    least two ``others``, (m, n). Reference: Zhu et al. 2024 (FedMIA).
    """
    from scipy.stats import norm

    ranks: Floats = norm.cdf((client - others.mean(axis=0)) / (others.std(axis=0, ddof=1) + 1e-30))
    return ranks


class MembershipRates(NamedTuple):
    """How well a statistic tells members from others.

    Attributes:
        auc_error: its standard error where members and others do not differ.
        balanced: balanced accuracy, the threshold of each half of the samples being the best one of the other half;
            NaN for fewer than two members or others.
        curve: the rates of false and of true alarms.
    """

    auc: float
    auc_error: float
    balanced: float
    curve: Curve
    members: int
    others: int


def rates(statistic: Floats, member: NDArray[np.bool_], title: str = "") -> MembershipRates:
    """
    Args:
        statistic: of each sample, (n,), members and others each in random order; larger = said to be a member.
        member: whether it is one.
        title: of the curve.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    false, true, _ = roc_curve(member, statistic, drop_intermediate=True)
    inside, others = int(member.sum()), int((~member).sum())
    error = float(np.sqrt((inside + others + 1) / (12 * inside * others)))
    return MembershipRates(
        float(roc_auc_score(member, statistic)),
        error,
        _balanced_accuracy(statistic, member),
        Curve(title, false, true),
        inside,
        others,
    )


def _balanced_accuracy(statistic: Floats, member: NDArray[np.bool_]) -> float:
    """Balanced accuracy by cross-fitting: on the samples of a threshold's own choice even noise scores above 0.5."""
    half, accuracies = np.zeros(len(member), dtype=bool), []
    for who in (member, ~member):
        half[who] = np.arange(who.sum()) % 2
    for judged in (half, ~half):
        if not (member[judged].any() and member[~judged].any()) or member[judged].all() or member[~judged].all():
            return float("nan")
        said = statistic[judged] > _threshold(statistic[~judged], member[~judged])
        accuracies.append((said[member[judged]].mean() + 1 - said[~member[judged]].mean()) / 2)
    return float(np.mean(accuracies))


def _threshold(statistic: Floats, member: NDArray[np.bool_]) -> float:
    """Midway between two neighbouring values, where balanced accuracy is best; infinite: nobody, or everybody."""
    values = np.unique(statistic)
    inside, others = (np.sort(statistic[who]) for who in (member, ~member))
    false, true = (1 - np.searchsorted(who, values, side="right") / len(who) for who in (others, inside))
    gain = np.append(0.0, true - false)  # of the threshold above each value; 0: everybody
    cuts = np.concatenate([[-np.inf], (values[:-1] + values[1:]) / 2, [np.inf]])
    return float(cuts[int(np.argmax(gain))])


def tpr_at(roc: MembershipRates, false: float) -> tuple[float, float, float]:
    """The rate of true alarms at a rate of false ones of at most ``false``, and its 95 % Clopper-Pearson interval.

    NaN where there are fewer non-members than 10 / false: the threshold would be a few samples' luck.
    """
    from scipy.stats import beta

    if roc.others * false < PER_RATE:
        return float("nan"), float("nan"), float("nan")
    rate = float(roc.curve.true[roc.curve.false <= false].max(initial=0.0))
    hits, n = round(rate * roc.members), roc.members
    low = float(beta.ppf(0.025, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0
    return rate, low, high
