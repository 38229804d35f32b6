"""Who was trained on: membership inference on the final model, or on the clients' recovered updates."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.attacks.base import OBSERVERS, AttackerKnowledge, Curve, Finding, GroundTruth, unread, with_label
from simfl.attacks.least_squares import Recovered, Recovery
from simfl.core.columns import Column
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Arrays, Bools, Floats, Integers, Vectors

RANKS = "fedmia", "fedmia_gradient"
RATES = {"membership_tpr_1": 0.01, "membership_tpr_01": 0.001}

POOLED_BELOW = 64
"""Shadow models below which all samples share one deviation."""

PER_RATE = 10
"""False alarms of which a rate must allow so many among the non-members, else it is not measured."""

FINALS = (
    Column("membership_auc", "Membership, AUC", "share",
           "Probability that membership inference ranks a training sample above another one; 0.5 = it knows nothing.",
           -1, None),
    Column("membership_tpr_1", "Membership, TPR at 1 %", "share",
           "Share of the training samples found while at most 1 % of the others are accused; empty with fewer than "
           "1,000 others.", -1, None),
    Column("membership_balanced_accuracy", "Membership, balanced accuracy", "share",
           "Balanced accuracy of membership inference, with a threshold that was chosen on other samples; 0.5 = it "
           "knows nothing.", -1, None, shown=False),
)  # fmt: skip


def margins(logits: NDArray[np.floating], labels: Integers) -> Floats:
    """log p_y - log sum_{k != y} p_k, (n,), of logits (n, classes), as a difference of logits (Carlini et al. 2022)."""
    from scipy.special import logsumexp

    scores, place = np.array(logits, dtype=np.float64), np.arange(len(labels))
    label_scores = scores[place, labels].copy()
    scores[place, labels] = -np.inf
    return label_scores - logsumexp(scores, axis=1)


def lira(target: Floats, shadows: Floats, inside: Bools, online: bool) -> Floats:
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


def _normal(shadows: Floats, chosen: Bools) -> tuple[Floats, Floats]:
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

    return norm.cdf((client - others.mean(axis=0)) / (others.std(axis=0, ddof=1) + 1e-30))


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


def rates(statistic: Floats, member: Bools, title: str = "") -> MembershipRates:
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


def _balanced_accuracy(statistic: Floats, member: Bools) -> float:
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


def _threshold(statistic: Floats, member: Bools) -> float:
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


class Candidates(NamedTuple):
    """The samples that an attacker is asked about, (n, *shape) and (n,), and whom: members and others mixed.

    Attributes:
        client: int32 (n,): whose member each is or is not; -1 = the federation's.
        member: bool (n,); the attacker is not given it.
    """

    x: Vectors
    y: Integers
    client: NDArray[np.int32]
    member: Bools


@OBSERVERS("membership")
@dataclass(frozen=True, kw_only=True)
class Membership(Recovery):
    """Says which samples were trained on, after the last aggregation.

    ``in_federation``: by anybody, from the final model; ``in_client``: by a client, from its recovered update.
    """

    game: Annotated[
        Literal["in_federation", "in_client"], Field(description="a sample of anybody, or of a certain client")
    ] = "in_federation"
    statistic: Annotated[
        Literal["loss", "logits", "fedmia", "fedmia_gradient"],
        Field(description="a threshold on the loss; a regression on the logits, taught by half of the samples; or the "
              "rank of the loss, or of the gradient's cosine with the update, among those of the other clients"),
    ] = "loss"  # fmt: skip
    clients: Annotated[tuple[int, ...], Field(min_length=1, description="of in_client: whose samples")] = (0, 1, 2, 3)
    candidates: Annotated[int, Field(ge=10, description="members asked about at most, and as many others")] = 2000
    others: Annotated[
        Literal["any", "alike"],
        Field(description="the others are any samples that nobody trains on; or as many of each class as the members: "
              "else whoever knows a client's classes knows something of its members"),
    ] = "any"  # fmt: skip

    @property
    def finals(self) -> tuple[Column, ...]:
        return with_label(FINALS, self.label)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = unread(setting, self.view)
        wrong = [client for client in self.clients if not 0 <= client < setting.clients]
        if self.game == "in_client" and wrong:
            problems.append(("clients", f"names {wrong[0]}; clients are 0 to {setting.clients - 1}"))
        if self.statistic in RANKS and self.game != "in_client":
            problems.append(("statistic", f"is {self.statistic}, which compares clients; use game: in_client, or loss"))
        return problems

    # -- the game --------------------------------------------------------------------------------------

    def draw_candidates(self, truth: GroundTruth, streams: Streams) -> Candidates:
        """As many members as others, of the same federation or clients."""
        clients = self.clients if self.game == "in_client" else (-1,)
        return draw_candidates(truth, clients, self.candidates, streams, self.others == "alike")

    def challenge(self, truth: GroundTruth, streams: Streams) -> Candidates:
        return self.draw_candidates(truth, streams)._replace(member=np.zeros(0, dtype=bool))

    def answer(
        self, challenge: Candidates, state: Arrays, knowledge: AttackerKnowledge, streams: Streams
    ) -> Floats | None:
        from simfl.attacks.matching import logits_of

        if "model" not in state:
            return None
        if self.game == "in_federation":
            return self._statistic_of(logits_of(knowledge, np.asarray(state["model"]), challenge.x), challenge.y)
        width = knowledge.classes if self.statistic == "logits" else 1
        batches, scores = self.recovered_updates(state), np.full((len(challenge.y), width), np.nan)
        for client in self.clients:
            mine = challenge.client == client
            x, y = challenge.x[mine], challenge.y[mine]
            seen = [said for batch in batches if (said := self._of(client, batch, knowledge, x, y)) is not None]
            if seen:
                scores[mine] = np.mean(seen, axis=0).reshape(-1, width)
        return scores if width > 1 else scores[:, 0]

    def _of(
        self, client: int, batch: Recovered, knowledge: AttackerKnowledge, x: Vectors, y: Integers
    ) -> Floats | None:
        """What one batch of recovered updates tells of a client's samples; None = nothing."""
        of_client = batch.clients == client
        if not of_client.any() or (self.statistic in RANKS and len(of_client) < 3):
            return None
        if self.statistic == "fedmia_gradient":
            from simfl.attacks.matching import alignments

            said = alignments(knowledge, batch.starts, batch.updates, x, y)
            return fedmia(said[of_client][0], said[~of_client])
        from simfl.attacks.matching import logits_of

        models = batch.starts + batch.updates
        mine = logits_of(knowledge, models[of_client][0], x)
        if self.statistic != "fedmia":
            return self._statistic_of(mine, y)
        others = (margins(logits_of(knowledge, other, x), y) for other in models[~of_client])
        return fedmia(margins(mine, y), np.stack(list(others)))

    def _statistic_of(self, logits: Floats, y: Integers) -> Floats:
        return logits if self.statistic == "logits" else margins(logits, y)

    def score(
        self, answer: Floats | None, truth: GroundTruth, knowledge: AttackerKnowledge, streams: Streams
    ) -> Finding:
        if answer is None:
            return Finding({})
        member = self.draw_candidates(truth, streams).member
        known = ~np.isnan(answer).any(axis=tuple(range(1, answer.ndim)))
        if len(set(member[known].tolist())) < 2:
            return Finding({})
        if self.statistic == "logits":
            finding = _regression_finding(answer[known], member[known], streams)
        else:
            finding = membership_finding(rates(answer[known], member[known], f"{self.statistic}, {self.game}"))
        return finding._replace(numbers=self.column_names(finding.numbers))


def draw_candidates(
    truth: GroundTruth, clients: tuple[int, ...], most: int, streams: Streams, alike: bool = False
) -> Candidates:
    """As many members as others for each client asked about (-1 = the federation); of each class, if ``alike``."""
    parts = []
    for client in clients:
        rng = streams("attack/membership", client + 1)
        positions = rng.permutation(truth.trained if client < 0 else truth.positions_of(client))
        members, others = positions[:most], rng.permutation(len(truth.y_test))
        if alike:
            pairs = _alike(truth.y[members], truth.y_test[others])
            members, others = members[pairs[:, 0]], others[pairs[:, 1]]
        n = min(len(members), len(others))
        x = np.concatenate([truth.x[members[:n]], truth.x_test[others[:n]]])
        y = np.concatenate([truth.y[members[:n]], truth.y_test[others[:n]]])
        mixed = rng.permutation(2 * n)
        parts.append(Candidates(x[mixed], y[mixed], np.full(2 * n, client, np.int32), (np.arange(2 * n) < n)[mixed]))
    return Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _alike(mine: Integers, others: Integers) -> Integers:
    """Positions of pairs of the same class, (m, 2), as many as there are."""
    pairs = [
        list(zip(np.flatnonzero(mine == label), np.flatnonzero(others == label), strict=False))
        for label in np.unique(mine)
    ]
    return np.array([pair for some in pairs for pair in some], dtype=np.int64).reshape(-1, 2)


def membership_finding(roc: MembershipRates) -> Finding:
    """The numbers and the curve of a membership attack."""
    numbers = {
        "membership_auc": roc.auc,
        "membership_auc_error": roc.auc_error,
        "membership_balanced_accuracy": roc.balanced,
        "membership_members": float(roc.members),
    }
    for name, false in RATES.items():
        rate, low, high = tpr_at(roc, false)
        numbers |= {name: rate, f"{name}_low": low, f"{name}_high": high}
    return Finding(numbers, curves=(roc.curve,))


def _regression_finding(logits: Floats, member: Bools, streams: Streams) -> Finding:
    """Logistic regression on the logits of half of the samples, judged on the other half (MIT thesis 2022, B.4.3).

    Nothing is found where either half has only members, or none.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    half = streams("attack/half").permutation(len(member)) < len(member) // 2
    if any(len(np.unique(member[part])) < 2 for part in (half, ~half)):
        return Finding({})
    scale = StandardScaler().fit(logits[half])
    model = LogisticRegression(max_iter=1000).fit(scale.transform(logits[half]), member[half])
    score = model.decision_function(scale.transform(logits[~half]))
    finding = membership_finding(rates(score, member[~half], "logits"))
    right = (score > 0) == member[~half]
    accuracy = float((right[member[~half]].mean() + right[~member[~half]].mean()) / 2)
    return finding._replace(numbers={**finding.numbers, "membership_balanced_accuracy": accuracy})
