"""What was perhaps meant: the nearest valid name or number, for the end of a message."""

import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from simfl.core.errors import nearest
from simfl.core.json_data import JsonObject

ALSO_CALLED = {
    "lr": ("learning_rate",),
    "eta": ("learning_rate",),
    "alpha": ("beta",),
    "epochs": ("local_epochs",),
    "batch": ("batch_size",),
    "wd": ("weight_decay",),
    "nrounds": ("rounds",),
    "numrounds": ("rounds",),
    "nclients": ("clients",),
    "numclients": ("clients",),
    "randomseed": ("seed",),
    "dataset": ("data",),
    "type": ("name",),
    "fractionfit": ("k",),
    "minfitclients": ("k",),
    "numparticipants": ("k",),
    "clientsperround": ("k",),
    "fraction": ("k",),
    "cohort": ("k",),
    "policy": ("selection",),
    "sampler": ("selection",),
    "optimizer": ("server_optimiser",),
    "optimiser": ("server_optimiser",),
    "topology": ("network",),
    "fmnist": ("fashion_mnist",),
    "strategy": ("training",),
    "algorithm": ("training",),
    "fedadam": ("adam",),
    "fedadagrad": ("adagrad",),
    "fedyogi": ("yogi",),
    "topk": ("compression",),
    "randomk": ("compression",),
    "sparsify": ("compression",),
    "quantisation": ("compression",),
    "quantization": ("compression",),
    "qsgd": ("quantise",),
    "signsgd": ("sign",),
    "bandwidthbytespers": ("down_bytes_per_s",),
}
"""What other programs and papers call a key."""

BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false", "1": "true", "0": "false"}
"""What other languages call true and false."""


def name_suggestion(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the most similar known name, or nothing."""
    near = _nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def _nearest(word: str, known: Iterable[str]) -> str | None:
    known = list(known)
    if same := same_name(word, known):
        return same
    return nearest(word, known)


def same_name(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word is but for case and punctuation, or what it is called elsewhere."""
    plainly = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in known}
    word = re.sub(r"[^a-z0-9]", "", word.lower())
    return plainly.get(word) or next((name for name in known if name in ALSO_CALLED.get(word, ())), None)


def like_name(value: object) -> str | None:
    """The key of a mapping that was to be ``name``."""
    keys = [key for key in value if isinstance(key, str)] if isinstance(value, dict) else []
    return next((key for key in keys if same_name(key, ("name",)) or nearest(key, ["name"])), None)


def without_space(key: str) -> str:
    """What to write for a key like ``k:4``; nothing for others."""
    return (
        f"; write a space behind the colon, {key.replace(':', ': ', 1)!r}" if 0 < key.find(":") < len(key) - 1 else ""
    )


def nearest_number(kinds: JsonObject, value: float, annotation: Any = Any) -> str:
    """``"; the nearest valid value is 1"``, or nothing where it is not known.

    Args:
        kinds: pydantic's complaints about the value, with their bounds.
        value: what stands there.
        annotation: what may stand there; a whole number beside the value keeps its bounds.
    """
    near: Any = None
    if "greater_than_equal" in kinds:
        near = kinds["greater_than_equal"]["ge"]
    elif "less_than_equal" in kinds:
        near = kinds["less_than_equal"]["le"]
    elif "multiple_of" in kinds:
        near = round(value / kinds["multiple_of"]["multiple_of"]) * kinds["multiple_of"]["multiple_of"]
    elif ("int_type" in kinds or "int_from_float" in kinds) and isinstance(value, float):
        near = _within(round(value), annotation)
    elif "greater_than" in kinds and isinstance(value, int) and isinstance(kinds["greater_than"]["gt"], int):
        near = kinds["greater_than"]["gt"] + 1
    elif "less_than" in kinds and isinstance(value, int) and isinstance(kinds["less_than"]["lt"], int):
        near = kinds["less_than"]["lt"] - 1
    elif "bool_type" in kinds and value in (0, 1):
        return f"; did you mean {BOOLEANS[str(int(value))]}?"
    if isinstance(near, float) and near.is_integer() and abs(near) < 1e15:
        near = int(near)
    return "" if near is None else f"; the nearest valid value is {near}"


def _within(number: int, annotation: Any) -> int:
    """The number itself, or the bound that it violates."""
    try:
        TypeAdapter[Any](annotation).validate_python(number)
    except ValidationError as error:
        for one in error.errors():
            bounds = one.get("ctx", {})
            number = int(bounds.get("ge", bounds.get("le", number)))
    return number


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
