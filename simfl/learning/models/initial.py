"""Initial weights from a numpy stream, with the distributions that torch's layers have by default.

Imported only where torch is.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray
from torch import nn

from simfl.core.errors import ScenarioError
from simfl.learning.models.flat import NORMS, STATISTICS, layout


def initial(module: nn.Module, rng: np.random.Generator) -> NDArray[np.float32]:
    """The flat vector x(0), float32, shape (d,), in the order of :func:`simfl.learning.models.flat.layout`.

    Linear and convolutional layers: weights and biases uniform on +-1/sqrt(fan-in), which is He et al. 2015 with
    gain sqrt(1/3); where the layer has an attribute ``gain``: weights uniform on +-gain * sqrt(3 / fan-in), biases 0
    (the paper's gain before ReLU is sqrt(2)). Normalisation layers: scale 1, shift 0,
    running mean 0, running variance 1. Embeddings: standard normal. Recurrent layers: uniform on
    +-1/sqrt(hidden units).
    A module with parameters of its own says how to draw them in a method ``draw(name, shape, rng) -> array``.

    Raises:
        ScenarioError: a layer of another kind holds parameters.
    """
    owners = {id(p): (owner, name) for owner in module.modules() for name, p in owner.named_parameters(recurse=False)}
    parts = []
    for parameter in module.parameters():
        owner, name = owners[id(parameter)]
        parts.append(np.ravel(_draw(owner, name, tuple(parameter.shape), rng)).astype(np.float32))
    for entry in layout(module):
        if not entry.trained:
            parts.append(np.full(prod(entry.shape), entry.name.endswith(STATISTICS[1]), dtype=np.float32))
    return np.concatenate([*parts, np.empty(0, np.float32)])


def _draw(owner: nn.Module, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.floating]:
    if (draw := getattr(owner, "draw", None)) is not None:
        return draw(name, shape, rng)
    if isinstance(owner, (nn.Linear, nn.modules.conv._ConvNd)):
        fan_in = nn.init._calculate_fan_in_and_fan_out(owner.weight)[0]
        gain = getattr(owner, "gain", None)
        if gain is not None and name == "bias":
            return np.zeros(shape)
        bound = fan_in**-0.5 if gain is None else gain * (3 / fan_in) ** 0.5
        return rng.uniform(-bound, bound, shape)
    if isinstance(owner, NORMS):
        return np.ones(shape) if name == "weight" else np.zeros(shape)
    if isinstance(owner, nn.Embedding):
        return rng.standard_normal(shape)
    if isinstance(owner, nn.RNNBase):
        bound = owner.hidden_size**-0.5
        return rng.uniform(-bound, bound, shape)
    raise ScenarioError(
        "model",
        f"{type(owner).__name__} holds the parameter '{name}', which simfl cannot draw; "
        "give the module a method draw(name, shape, rng) that returns its initial values",
    )
