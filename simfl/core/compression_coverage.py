"""What compression would break of a scenario's promises about its clients."""

from simfl.core.coverage import compression_place, keeps_short, protocol_promise, sent_by_algorithm
from simfl.core.scenario_view import ScenarioView


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
        problems.append(f"codes changes of the model, but training: {rule.name} mixes whole models; use mix: deltas")
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
        if exposed and not keeps_short(stage):
            why = f"comes before privacy.stages: {stage.name}, which then changes every coordinate"
            problems.append(f"{why}; use compression: none or no such stage")
    return problems
