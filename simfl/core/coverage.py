"""Which parts of what leaves a client every certificate covers: the one rule that refuses, or withdraws, a certificate.

A certificate is what a scenario promises about its clients: an aggregation protocol, that only sums are seen; an
accountant, an epsilon; a stage, an epsilon of its own; the privacy columns, how many clients each one hides among. It
holds only if it covers *every* part that leaves a client (:mod:`simfl.core.payload`). A promise that does not is
refused when the scenario is read (:func:`coverage_problems`). What is only measured, the privacy columns and theory's
guarantee, is then 1 (:func:`exposing`); and so is what is certain of it where updates that stay are summed at lengths
that change (:func:`changing_lengths`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.payload import ALONE, DEPARTURE, KINDS, MASK, SAMPLES, SUMMABLE, PayloadPart
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.packages import packages
from simfl.core.scenario_view import ScenarioView, agents_send_own, changing_weights

if TYPE_CHECKING:
    from simfl.privacy.stage import Stage

SERVERS = "simfl.agents.servers"
"""The module of the registry of servers, which few scenarios need before a run."""

STALEST = 1000
"""Up to this staleness the weights of updates are looked at; those of simfl's rules fall with it."""

SAMPLE_COUNTS = 2 ** np.arange(31)
"""Numbers of samples that are tried where nobody knows how many clients hold."""

LOSSES = ("loss", "loss_rms")
"""The fields of a view that need clients to tell a loss."""

LOSS = PayloadPart("the loss of the model on its samples", "score", instead="another selection")

ACCURACY = PayloadPart("the accuracy of the model on its samples", "score", instead="another selection")

COUNT = PayloadPart("the number of its samples by itself", "count", instead="another selection")

CHOICE = PayloadPart("the choice whether to send", "score", instead="agents.client: standard")
"""Told by clients that answer, or do not, as their samples decide."""

PUBLIC = frozenset({"samples", "count"})
"""Kinds that differential privacy of updates takes to be known: its neighbouring inputs differ in updates only."""

Promise = tuple[str, frozenset[str], str]
"""Who promises: its name, the kinds of parts that it covers, and what to choose instead of it."""


def looks_ahead(setting: ScenarioView) -> bool:
    """Whether what is summed depends on the server's model of the moment, which a client cannot know.

    It can neither mask that nor clip and noise it, and a real server would need what it has trained as it is.
    """
    rule = setting.training
    if not rule.asynchronous:
        return False
    zero = np.zeros((1, 1), dtype=np.float32)
    one, other = (rule.contributions(zero, lambda: [zero[0]], zero[0] + model) for model in (0, 1))
    return not rule.sends_changes or bool((one != other).any())


def blind_noise(setting: ScenarioView) -> str:
    """Why clients cannot add noise themselves, or parts of it, not knowing what is summed; empty where they do."""
    if not looks_ahead(setting):
        return ""
    why = "noises an update at its client before the model exists that it is to be compared with"
    return f"{why}; add the clients' changes (training.mix: deltas), or use a central mechanism"


def unstated_weights(setting: ScenarioView, samples: NDArray[np.int64] | None = None) -> bool:
    """Whether updates count otherwise than the rule states them to: what its row says of their staleness, times their
    client's samples where it is by samples. A run sees what they count, in advance it is not known.

    Args:
        samples: training samples of each client, (clients,); None = not known.
    """
    rule = setting.training
    sample_counts = np.unique(SAMPLE_COUNTS if samples is None or not samples.any() else samples[samples > 0])
    ages = np.arange(STALEST + 1 if rule.asynchronous else 1)
    tried = [
        (sample_counts, np.zeros_like(sample_counts)),
        *((np.full_like(ages, most), ages) for most in (sample_counts[0], sample_counts[-1])),
    ]
    stated = [rule.row(age) * (count if rule.by_samples else 1) for count, age in tried]
    used = [rule.weights(*each) for each in tried]
    aggregate, two = rule.aggregate, np.ones((2, 1), dtype=np.float32)
    if aggregate.sum_only and not np.allclose(aggregate.combine(two, np.ones(2), 2.0), 1.0):
        return True  # it makes of two equal updates anything but their mean
    return (aggregate.weighted or aggregate.sum_only) and not all(map(np.allclose, used, stated))


def sent(setting: ScenarioView) -> tuple[PayloadPart, ...]:
    """The parts of what each client sends, in jobs and before the first one."""
    return (*sent_by_algorithm(setting), *told_by_compression(setting), *reports_for_selection(setting))


def told_by_compression(setting: ScenarioView) -> tuple[PayloadPart, ...]:
    """What compressed updates tell beside their sum.

    No sum covers it. Noise does (:func:`compression_problems` refuses what it would not): it is in the update
    before that is compressed, or the server, which alone sees single updates, is not whom it protects against.
    """
    return setting.compression.exposes(setting) if sent_by_algorithm(setting) else ()


def compression_place(stages: "Sequence[Stage]") -> int:
    """How many of the privacy stages work before the compression.

    Those after it begin with the first that noises sums, or adds its part of such noise: that stage clips what
    compression has made of the update, so that its sensitivity holds. Noise that protects each update by itself stands
    before the compression, which then only processes what is private already.
    """
    in_sum = (
        i for i, stage in enumerate(stages) if stage.adds_noise is not None and stage.adds_noise.where != "client"
    )
    return next(in_sum, len(stages))


def changing_lengths(setting: ScenarioView) -> str:
    """What makes another vector of an update that stays the same from sum to sum; empty where nothing does.

    The rule, learning or compression, of which nothing is known, or a stage: its norm moves, or it clips what the
    compression has left of the update, other coordinates in each round. Rows of a participation matrix then do not say
    what updates count.
    """
    rule, compression, stages = setting.training, setting.compression, setting.privacy.stages
    if not (rule.keeps_changes and setting.learning.per_client):
        return "learning, which does not say per_client" if rule.keeps_changes else f"training: {rule.name}"
    if not agents_send_own(setting):
        return "agents.client, which sends more than its own update says, or tells other samples"
    if compression.codes and (compression.error_feedback or not compression.per_client):
        return f"compression: {compression.name}"
    after = stages[compression_place(stages) :] if compression.subsamples else ()
    moving = (stage for stage in stages if not all(link.stays for link in stage.links))
    return next((f"privacy.stages: {stage.name}" for stage in (*after, *moving)), "")


def reports_for_selection(setting: ScenarioView) -> tuple[PayloadPart, ...]:
    """The numbers that each client tells for the selection, one by one, whatever is summed."""
    policy = setting.selection
    reports = {LOSS: policy.asks or not policy.reads.isdisjoint(LOSSES), ACCURACY: "accuracy" in policy.reads}
    return (*(part for part, is_reported in reports.items() if is_reported), *(COUNT,) * ("samples" in policy.reads))


def sent_by_algorithm(setting: ScenarioView) -> tuple[PayloadPart, ...]:
    rule = setting.training
    parts: tuple[PayloadPart, ...] = rule.algorithm.sends
    algorithm = rule.algorithm
    implied = {MASK: algorithm.partial, DEPARTURE: algorithm.follows_data, ALONE: algorithm.needs_server}
    implied[CHOICE] = setting.agents.reads_data
    said = {part.kind for part in parts}
    parts += tuple(part for part, there in implied.items() if there and part.kind not in said)
    return (*parts, SAMPLES) if parts and rule.by_samples else parts


def exposing(setting: ScenarioView) -> tuple[PayloadPart, ...]:
    """The parts that tell of single clients whatever is summed: with any of them nobody hides among others.

    Sums hide updates, and sample counts, which they are weighted with. Numbers told for the selection are no such parts
    where the scenario says that they are public (``scalars: clear``).
    """
    public = frozenset(reports_for_selection(setting)) if setting.selection.scalars == "clear" else frozenset()
    return tuple(part for part in sent(setting) if part.kind not in setting.privacy.covers and part not in public)


def forms(setting: ScenarioView) -> dict[str, str]:
    """In which form each part reaches the server: ``masked``, ``noisy`` or ``clear``, by the part's name."""
    protocol, hidden = setting.secagg, frozenset[str]()
    stages = (stage for stage in setting.privacy.stages if stage.adds_noise and stage.adds_noise.where == "client")
    noisy = frozenset[str]().union(*(stage.covers for stage in stages))
    if noisy:  # what compression tells is of the noisy update
        noisy |= {part.kind for part in setting.compression.exposes(setting)}
    if not protocol.shows_updates:
        hidden = protocol.covers & SUMMABLE
    return {
        part.name: "masked" if part.kind in hidden else "noisy" if part.kind in noisy else "clear"
        for part in sent(setting)
    }


def clear(setting: ScenarioView) -> list[str]:
    """The names of the parts that reach the server as they are."""
    return [name for name, form in forms(setting).items() if form == "clear"]


def beside_sums(setting: ScenarioView) -> list[str]:
    """The names of what the server needs of single clients, or learns of them, so that sums may hide nobody."""
    if not sent(setting):
        return []
    rule, protocol = setting.training.aggregate, setting.secagg
    why = "" if rule.sum_only or protocol.sums_units else f"aggregate: {rule.name}"
    why = why or (f"secagg: {protocol.name}" if protocol.shows_updates else "")
    needed = [f"each client's update, by itself ({why})"] if why else []
    needed += [messages] if (messages := silent_server(setting)) else []
    if setting.training.own_models:
        needed.append("models of clients, which hold others' updates")
    lengths = [f"how updates that stay change from sum to sum ({it})" for it in [changing_lengths(setting)] if it]
    weights = ["how weights change from sum to sum as samples grow (training.weighting: samples)"]
    return [
        *needed,
        *(part.name for part in exposing(setting)),
        *lengths,
        *(weights if changing_weights(setting) else []),
    ]


def coverage_problems(setting: ScenarioView) -> list[str]:
    """What the scenario promises of its clients and cannot keep, in words about the client algorithm."""
    parts, problems, protocol = sent_by_algorithm(setting), list[str](), setting.secagg
    if protocol.certificate and (protocol.shows_updates or not setting.training.keeps_changes):
        why = f"{protocol.certificate} of secagg: {protocol.name} is of a sum of what clients train"
        problems.append(f"{why}, which the protocol (shows_updates) or training (sends_changes) does not say there is")
    expanding = [stage.name for stage in setting.privacy.stages if stage.moves_apart]
    if protocol.certificate and expanding:
        why = f"{protocol.certificate} of secagg: {protocol.name} is of what clients train"
        problems.append(f"{why}, which privacy.stages: {expanding[0]} may move further apart; leave that stage out")
    for who, covers, otherwise in _promises(setting):
        if not parts:
            problems.append(f"sends nothing that {who} could protect; use {otherwise}")
        for part in parts:
            if part.kind not in covers:
                alternatives = " or ".join(way for way in (part.instead, otherwise) if way)
                problems.append(f"sends {part.name}, which {who} does not cover; use {alternatives}")
    if not setting.training.algorithm.uses_outcomes:
        return problems
    for stage in setting.privacy.stages:
        shares = stage.adds_noise is not None and stage.adds_noise.where == "share"
        does = (
            "codes it" if stage.changes_coordinates else "hides it by shares of noise, which its next update tells of"
        )
        if stage.changes_coordinates or shares:
            why = f"compares what it has sent with its model, but privacy.stages: {stage.name} {does}"
            problems.append(f"{why}; use no such stage")
    return problems


def selection_problems(setting: ScenarioView) -> list[str]:
    """What the scenario promises of its clients and cannot keep, in words about the selection."""
    parts, problems = reports_for_selection(setting), []
    clear = setting.selection.scalars == "clear"
    a_key = "scalars" in (each.name for each in fields(setting.selection))
    promises = [] if clear and not setting.secagg.certificate else protocol_promise(setting)
    for who, covers, otherwise in [*promises, *_noise_promises(setting)]:
        for part in parts:
            if part.kind not in covers:
                of_epsilon = who.startswith(("the epsilon", "epsilon"))
                public = "" if of_epsilon or clear or not a_key else "scalars: clear or "
                problems.append(f"reads {part.name}, which {who} does not cover; use {public}{otherwise}")
    return problems


def cautions(setting: ScenarioView) -> list[str]:
    """What no certificate covers and the scenario does all the same, in words about the client algorithm."""
    privacy = setting.privacy
    certified = (privacy.protects and privacy.accountants) or any(stage.certificate for stage in privacy.stages)
    if certified or all(part.kind != "departure" for part in sent(setting)):
        return []
    return ["a client that leaves tells all that its model hardly changes any more; no sum and no epsilon covers that"]


def _promises(setting: ScenarioView) -> Iterator[Promise]:
    yield from protocol_promise(setting)
    yield from _noise_promises(setting)


def protocol_promise(setting: ScenarioView) -> Iterator[Promise]:
    protocol = setting.secagg
    if not protocol.shows_updates:
        certified = f"secagg: {protocol.name}" if not protocol.certificate else (
            f"{protocol.certificate} of secagg: {protocol.name}")  # fmt: skip
        besides = PUBLIC if protocol.certificate else frozenset({"departure"})
        yield certified, protocol.covers & SUMMABLE | besides, "secagg: plain"


def _noise_promises(setting: ScenarioView) -> Iterator[Promise]:
    privacy = setting.privacy
    for stage in privacy.stages:
        if stage.certificate:
            who = f"{stage.certificate} of privacy.stages: {stage.name}"
            yield who, stage.covers & SUMMABLE | PUBLIC | {"departure"}, "no such stage"
        else:  # all the same, a stage changes every coordinate, so that no mask tells any more which ones are sent
            yield f"privacy.stages: {stage.name}", frozenset(KINDS - {"mask"}), "no such stage"
    noisy = [stage for stage in privacy.stages if stage.observer]
    if noisy and privacy.accountants:
        covers = frozenset[str]().union(*(stage.covers for stage in noisy)) & SUMMABLE | PUBLIC | {"departure"}
        names = ", ".join(accountant.name for accountant in privacy.accountants)
        yield f"the epsilon of privacy.accountants: {names}", covers, "accountants: [], which prints no epsilon"


def compression_problems(setting: ScenarioView) -> list[str]:
    """What the scenario promises of its clients and compression would break, in words about the compression.

    What it tells of a single update (:meth:`simfl.compression.base.Compression.exposes`) a protocol would have to
    cover. Noise that is added one by one and accounted in the sum would no longer be what is accounted.
    """
    if not setting.compression.codes:
        return []
    rule, algorithm, exposed = setting.training, setting.training.algorithm, setting.compression.exposes(setting)
    parts, problems = sent_by_algorithm(setting), []
    if not any(part.kind == "update" for part in parts):
        problems.append(f"codes updates, but {algorithm.name} sends none; use compression: none")
    for part in (part for part in parts if part.kind == "mask"):
        problems.append(f"changes all coordinates, but {algorithm.name} sends {part.name}; use compression: none")
    if not rule.sends_changes:
        problems.append(f"codes changes, but training: {rule.name} mixes whole models; use training.mix: deltas")
    for who, covers, otherwise in protocol_promise(setting):
        for part in (part for part in exposed if part.kind not in covers):
            problems.append(f"sends {part.name}, which {who} does not cover; use {part.instead} or {otherwise}")
    if certificate := setting.secagg.certificate:
        why = (
            f"scales updates before secagg: {setting.secagg.name} adds noise, and {certificate} is of the trained ones"
        )
        problems.append(f"{why}; use compression: none")
    stages, place = setting.privacy.stages, compression_place(setting.privacy.stages)
    changes = exposed or not setting.compression.leaves_sent
    for stage in (stage for stage in stages[:place] if changes and stage.certificate):
        why = f"changes noisy updates one by one, but privacy.stages: {stage.name} has an epsilon of their sum"
        instead = exposed[0].instead if exposed else "compression: random_k"
        problems.append(f"{why}; use {instead} or compression: none")
    for stage in (stage for stage in stages[:place] if stage.changes_coordinates):
        problems.append(f"codes the model's coordinates, but privacy.stages: {stage.name} sends others; use none")
    for stage in stages[place:]:
        noisy = stage.adds_noise is not None and stage.adds_noise.where != "server"
        if exposed and (noisy or not all(link.sparse for link in stage.links)):
            why = f"comes before privacy.stages: {stage.name}, which then changes every coordinate"
            problems.append(f"{why}; use compression: none or no such stage")
    return problems


def silent_server(setting: ScenarioView) -> str:
    """The server of a plugin that does not say that it counts every message and sum; empty where there is none."""
    server = plugin_server(setting)
    counts = server is None or server.counts_unsummed
    return "" if counts else f"messages that nobody counts (server: {setting.training.server})"


def follows_policy(setting: ScenarioView) -> bool:
    """Whether whoever works has been selected by the policy."""
    server = _server(setting)
    return server is None or bool(server.follows_policy)


def confirms(setting: ScenarioView) -> bool:
    """Whether the server has clients check each round, where they do."""
    server = _server(setting)
    return server is None or bool(server.confirms)


def plugin_server(setting: ScenarioView) -> Any:
    """The class of a plugin's server; None = it is simfl's own."""
    server = _server(setting)
    return None if server is None or server.__module__.startswith("simfl.") else server


def _server(setting: ScenarioView) -> Any:
    """The class of the server; None = no server has been imported, and no package has one of this name."""
    name: Any = setting.training.server
    if any(entry.name == name for entry in packages("simfl.server")):
        import_module(SERVERS)  # whose registry then loads it
    return FAMILIES.imported.get("server", {name: None}).get(name)
