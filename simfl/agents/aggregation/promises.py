"""Whether plugins keep what they promise and certificates rest on, looked at in every aggregation.

Of simfl's own parts, which tests compare with exact sums, the sum is looked at where noise rests on it.
"""

from collections.abc import Callable, Sequence
from math import isclose
from types import MappingProxyType
from typing import Any

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.core.errors import PluginError
from simfl.core.payload import SUMMABLE
from simfl.core.registration.protocol import is_foreign
from simfl.core.types import Aggregate, Arrays, Floats, Job, Updates, Vectors
from simfl.core.validation import checked_arrays, checked_pair, checked_vectors, read_only
from simfl.privacy.certify.chain import noise_where
from simfl.privacy.certify.maps import Bound, norms
from simfl.privacy.stage import Members, Stage
from simfl.secagg.sessions import ClientUpdates
from simfl.training.base import Rule

ROUNDED = 1e-5
"""By so much of the largest coordinate sums of 32 bits may be off; what is off by more makes other rows."""

WRAPS = 2**30
"""Below this, and half of the protocol's field, sums of whole numbers are what they are."""


def require_sum(
    parts: Components[Rule], client_updates: ClientUpdates, total: Aggregate, members: Members, shares: Floats
) -> None:
    """Looks whether an aggregate that says so is a multiple of the weighted sum; a protocol may have moved each
    coordinate of an update by the step of its grid.

    Raises:
        PluginError: it is not.
    """
    aggregate, protocol = parts.rule.aggregate, parts.protocol
    noisy = any(it.adds_noise is not None or it.certificate for it in parts.stages)
    if not aggregate.sum_only or not (noisy or is_foreign(aggregate) or is_foreign(protocol)):
        return
    if protocol.certificate:
        return  # adds noise of its own
    vector, step = total.vector.astype(np.float64), total.step * np.abs(shares).sum()
    sent = client_updates.vectors
    if any(it.whole for it in parts.stages):  # these may wrap around
        inside = np.abs(sent.astype(np.float64)).sum(axis=0) < min(WRAPS, (protocol.field or np.inf) / 2)
        if is_foreign(protocol) and len(inside) and not inside.any():
            raise PluginError(f"secagg '{protocol.name}'", "adds numbers that all may wrap around; use fewer bits")
        vector, sent = vector[inside], sent[:, inside]
    clipped = np.clip(np.nan_to_num(sent), -protocol.clip, protocol.clip) if total.clipped else sent
    summed = [np.einsum("n,nd->d", shares, vectors.astype(np.float64)) for vectors in (sent, clipped)]
    gain = None  # any multiple of it tells what it tells
    if noisy:
        ones, used = np.ones((len(shares), 1), dtype=np.float32), shares * members.divisor
        gain = float(aggregate.combine(ones, used, members.divisor)[0]) / (float(shares.sum()) or 1.0)
    step += ROUNDED * np.abs(sent).max(initial=0.0) * np.abs(shares).sum()  # of numbers that nearly cancel
    off = min(_off(vector, each, gain, step) for each in summed)
    if not off <= ROUNDED * np.abs(vector).max(initial=0.0):
        if not is_foreign(protocol) and (protocol.shows_updates or protocol.sums_whoever_comes):
            raise PluginError(aggregate, "combine gives no fixed multiple of the weighted sum; say sum_only = False")
        why = f"add is off the weighted sum by {off:.3g}, more than the step of its grid, {total.step:g}; say its step"
        raise PluginError(f"secagg '{protocol.name}'", why)


def _off(vector: Floats, summed: Floats, gain: float | None, step: float) -> float:
    """By how much more than a step a sum is off the gain times another one; None = the gain that fits best."""
    if gain is None:
        gain = float(vector @ summed) / (float(summed @ summed) or 1.0)
    return float(np.abs(vector - gain * summed).max(initial=0.0)) - abs(gain) * step


def train_as_said(parts: Components[Rule], jobs: Sequence[Job]) -> Updates:
    """What training makes of these jobs.

    Raises:
        PluginError: of more samples than their clients are said to hold, or in coordinates of which nobody has said
            that clients tell which ones they hold.
    """
    learner, algorithm = parts.learner, parts.rule.algorithm
    updates = learner.train(jobs)
    if is_foreign(learner) and learner.sizes_vary and {part.kind for part in algorithm.sends} <= SUMMABLE:
        why = "sets sizes_vary, so that a message's size or time may tell of its client's samples"
        raise PluginError(learner, f"{why}; have the client algorithm declare in `sends` what it tells")
    if learner.dimension and (updates.examples > learner.samples[[job.client for job in jobs]]).any():
        raise PluginError(learner, "trains on more samples of a client than its `samples` says")
    if updates.mask is not None and not (algorithm.partial or any(part.kind == "mask" for part in algorithm.sends)):
        raise PluginError(learner, "gives updates a mask, which no client algorithm has declared (partial)")
    return updates


def required_changes(parts: Components[Rule], jobs: Sequence[Job], deltas: Vectors, model: Vectors) -> Vectors:
    """What the rule sums of the clients' changes, (n, d). Of a rule of a plugin that says that it sums these it looks
    whether what it makes of them differs by them from what it makes of none.

    Raises:
        PluginError: it does not.
    """
    rule = parts.rule

    def downloads() -> list[Vectors]:
        return [parts.learner.get(job.start) for job in jobs]

    deltas = read_only(deltas)
    contributions = rule.contributions(deltas, downloads, model)
    if not (is_foreign(rule) and rule.keeps_changes):
        return contributions
    changes = contributions - rule.contributions(np.zeros_like(deltas), downloads, model)
    sound = np.isfinite(contributions).all(axis=1)
    if not np.allclose(changes[sound], deltas[sound], rtol=1e-3, atol=1e-5):
        why = "sums something else than clients' changes; say sends_changes = False"
        raise PluginError(f"training '{rule.name}'", why)
    return contributions


def states_for(stages: Sequence[Stage], states: Sequence[Arrays]) -> list[Any]:
    """What stages are given of their states: a plugin keeps something only by giving it back."""
    return [
        MappingProxyType({name: read_only(np.asarray(value)) for name, value in state.items()})
        if is_foreign(stage)
        else state
        for stage, state in zip(stages, states, strict=True)
    ]


def required_release(stages: Sequence[Stage], i: int, released: Any, before: Arrays, shape: tuple[int | None]) -> Any:
    """What stage ``i`` makes of a sum, and the state that it keeps: nothing of a sum to which noise is yet to come.

    Raises:
        PluginError: it gives something else, or does not say of what it keeps that it is public.
    """
    stage = stages[i]
    checked_pair(released, named := f"stage '{stage.name}'", "server", "(vector, state)")
    checked_vectors(released[0], shape, named, "server gives as vector")
    after = checked_arrays(released[1], named, "server")
    noised = any(noise_where(it) == "server" for it in stages[: i + 1])
    if noised and is_foreign(stage) and not stage.public_state:
        if after.keys() != before.keys() or not all(_same(after[name], before[name]) for name in after):
            why = "server keeps what may follow from a sum without its noise; say public_state, if it does not"
            raise PluginError(f"stage '{stage.name}'", why)
    return released


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays of a state are equal, numbers that are none too."""
    floats = np.asarray(one).dtype.kind == np.asarray(other).dtype.kind == "f"
    return bool(np.array_equal(one, other, equal_nan=floats))


def require_fixed(rule: Rule, divisor: float) -> None:
    """
    Raises:
        PluginError: a rule that says that its sums are divided by a fixed number divides by another one.
    """
    if rule.fixed_denominator is not None and not isclose(rule.fixed_denominator, divisor, rel_tol=1e-9):
        why = f"says fixed_denominator = {rule.fixed_denominator:g}, and divides by {divisor:g}"
        raise PluginError(f"training '{rule.name}'", why)


def require_maps(stage: Stage, before: Vectors, after: Vectors, first: Callable[[], Vectors]) -> None:
    """Looks whether what a plugin's stage sends of finite updates is finite; without noise at clients, whether it is as
    short as its maps say, and the same for the first client, whoever else is there.

    Raises:
        PluginError: it is not.
    """
    if not is_foreign(stage):
        return
    if np.isfinite(before).all() and not np.isfinite(after).all():
        raise PluginError(f"stage '{stage.name}'", "client makes numbers that are not finite of updates that are")
    if noise_where(stage) in ("client", "share"):
        return
    links = stage.links
    if links and all(link.per_client for link in links) and not np.allclose(first(), after[:1], 1e-3, 1e-5, True):
        raise PluginError(f"stage '{stage.name}'", "says that it treats each update by itself (maps), and does not")
    if all(type(link).__module__.startswith("simfl.") for link in links):
        bound = Bound(norms(before), norms(before, 1), np.abs(before).max(axis=1, initial=0.0))
        for link in links:
            bound = link.bound(bound, {})
        if (norms(after) > 1.001 * np.asarray(bound.l2) + 1e-6).any():
            raise PluginError(f"stage '{stage.name}'", "sends longer updates than it says (maps)")
