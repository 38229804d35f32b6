"""A model choice becomes a module that federated training can use, or is refused; its initial values.

Imported only where torch is.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from math import inf, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from simfl.clients.local_values import Parameter
from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import is_foreign
from simfl.core.scenario_view import ScenarioView
from simfl.learning.backends.trial import first_line
from simfl.learning.models.base import check_size, check_tokens
from simfl.learning.models.convolutions import guard
from simfl.learning.models.criterion import CROSS_ENTROPY, NAMED, loss_method
from simfl.learning.models.dropout import key_dropout, trial_pass
from simfl.learning.models.flat import NORMS, STATISTICS, layout


def build(
    model: Any,
    shape: tuple[int, ...],
    classes: int,
    tokens: bool = False,
    classified: bool = True,
    loss: str | None = None,
    own_steps: bool = False,
) -> nn.Module:
    """The module of a model choice, tried on two blank samples; its dropout layers are handed their masks.

    Its strided convolutions are computed as :mod:`simfl.learning.models.convolutions` says. Without classes, where it
    is not ``classified``, it has a loss of its own or the one that is named, and outputs of any shape. Where training
    has ``own_steps``, dropout layers and other draws are left to torch.

    Raises:
        ScenarioError: it is too large; its output has the wrong shape; it averages all batches or
            draws random numbers in other ways than torch's dropout layers.
    """
    check_tokens(model, tokens)
    check_size(model, shape, classes)
    with torch.random.fork_rng(devices=[]):  # layers draw values at construction; they are overwritten
        module = model.build(shape, classes)
        if not own_steps:
            key_dropout(module)
        guard(module)
        module.train()
        _refuse_cumulative(module)
        state = torch.get_rng_state()
        try:
            with torch.no_grad(), trial_pass(module):
                out = module(torch.zeros(2, *shape, dtype=torch.int64 if tokens else torch.float32))
        except Exception as error:  # somebody else's module may raise anything
            why = first_line(error)
            flat = "; a linear layer takes flat samples: begin with torch.nn.Flatten()"
            hint = flat if len(shape) > 1 and "mat1 and mat2" in why else ""
            raise _refusal(model, f"cannot take samples of shape {list(shape)}: {why}{hint}") from error
        if not isinstance(out, torch.Tensor):
            raise _refusal(model, f"gives {type(out).__name__}, not a tensor of logits (samples, classes)")
        _choose_loss(model, module, classified, loss)
        if classified:
            _require_shape(model, tuple(out.shape), classes)
        if not (own_steps or torch.equal(state, torch.get_rng_state())):
            raise _refusal(
                model,
                "draws from torch's global random state; simfl's draws come from named streams. Layers such as "
                "torch.nn.Dropout and Dropout2d are drawn by simfl; functions such as F.dropout cannot be",
            )
    return module


def _require_shape(model: Any, shape: tuple[int, ...], classes: int) -> None:
    if shape != (2, classes):
        counted = f"; labels are counted from 0, so that those from 1 to {classes - 1} make {classes} classes"
        hint = counted if shape == (2, classes - 1) else ""
        raise _refusal(model, f"gives an output of shape {list(shape)} for 2 samples in {classes} classes{hint}")


def _choose_loss(model: Any, module: nn.Module, classified: bool, loss: str | None) -> None:
    has_loss = loss_method(module) is not None
    if has_loss and loss is not None:
        raise ScenarioError("loss", f"is {loss}, and {model.name} has a method loss; leave one of the two out")
    if loss is not None and not (classified and loss == CROSS_ENTROPY):
        setattr(module, NAMED, loss)
        return
    if not (has_loss or classified):
        raise _refusal(
            model,
            "has no method loss(outputs, targets), and the data's targets are no classes; set learning.loss (mse), "
            "give it one that returns the loss of each sample, (n,), or cut the targets into classes",
        )
    if has_loss and min(model.steepness, model.smoothness) < inf:
        raise _refusal(model, "says how steep cross-entropy is, and has a method loss; leave one of the two out")


def check_bf16(module: nn.Module, shape: tuple[int, ...], tokens: bool = False) -> None:
    """Tries a module in bfloat16 on the CPU, on two blank samples of this shape (of one sample; of tokens if so).

    What torch can compute in bfloat16 depends on the processor: an LSTM, for instance, needs AVX-512.

    Raises:
        ScenarioError: torch cannot compute it.
    """
    tried = deepcopy(module)  # a pass moves the statistics of norm layers
    try:
        with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16), trial_pass(tried):
            tried(torch.zeros(2, *shape, dtype=torch.int64 if tokens else torch.float32))
    except Exception as error:  # somebody else's module may raise anything
        why = first_line(error).partition(". ")[0]
        text = f"torch cannot compute this model in bfloat16 on this processor ({why}); set bf16 to false"
        raise ScenarioError("bf16", text) from error


def _refuse_cumulative(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats and layer.momentum is None:
            raise ScenarioError(
                "model",
                f"layer '{name}' ({type(layer).__name__}) averages all batches it ever saw, whose number no vector of "
                "parameters carries; give it a momentum (torch's default is 0.1)",
            )


def shared_statistics(
    parameters: Sequence[Parameter], private: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
    """The coordinates of running statistics that leave a client, and the least value of each, both (k,); None = none.

    Coordinates that are ``private``, bool (d,), never do.
    """
    every = [np.arange(p.elements.start, p.elements.stop) for p in parameters if p.statistic]
    least = [0.0 if p.name.endswith(STATISTICS[1]) else -inf for p in parameters if p.statistic]
    if not every:
        return None
    at, bounds = np.concatenate(every), np.repeat(np.array(least, dtype=np.float32), [len(part) for part in every])
    sent = np.ones(len(at), dtype=bool) if private is None else ~private[at]
    return (at[sent], bounds[sent]) if sent.any() else None


def refuse_shared_statistics(
    parameters: Sequence[Parameter], at: NDArray[np.int64], averaged: bool, setting: ScenarioView
) -> None:
    """Of running statistics at coordinates that leave a client, perhaps meant to be ``averaged``.

    Raises:
        ScenarioError: they are not meant to be averaged, or their mean is not what the server gets.
    """
    layer = next(p for p in parameters if p.statistic and p.elements.stop > at[0])
    what = f"layer '{layer.name.rpartition('.')[0]}' ({layer.layer}) keeps running statistics of the batches it saw"
    remedies = (
        "keep norm layers private (training.personal: fedbn, or private_layers with keep: norm), use "
        "torch.nn.GroupNorm instead (as resnet18_gn does)"
    )
    if not averaged:
        why = f"{what}, which no average of clients' models carries; {remedies}"
        raise ScenarioError("model", f"{why}, or set learning.norm_statistics to averaged")
    rule, protocol = setting.training, setting.secagg
    culprit = next(
        (f"the stage {stage.name} changes" for stage in setting.privacy.stages
         if is_foreign(stage) or stage.adds_noise or stage.changes_coordinates or stage.observer or stage.certificate),
        f"compression: {setting.compression.name} changes" if setting.compression.codes else "",
    ) or (f"secagg: {protocol.name} adds noise to" if protocol.certificate else "")  # fmt: skip
    if not culprit and rule.asynchronous and not rule.aggregate.sum_only:
        culprit = f"aggregate: {rule.aggregate.name} takes from stale updates apart from"
    if culprit:
        why = f"{what}, and {culprit} their mean: a variance could be negative"
        raise ScenarioError("norm_statistics", f"{why}; {remedies}, or leave that out")


def refuse_single_samples(samples: NDArray[np.int64], batch_size: int | None, why: Callable[[], str | None]) -> None:
    """Of the samples of each client, (..., clients); ``batch_size`` None = all in a step.

    Raises:
        ScenarioError: a step would see one sample, which the model cannot take, for the reason that ``why`` gives.
    """
    sizes = samples.ravel()

    def lone(size: int | None) -> NDArray[np.int64]:
        return np.flatnonzero((sizes == 1) | (sizes % size == 1 if size and size > 1 else size == 1))

    if not (alone := lone(batch_size)).size or (reason := why()) is None:
        return
    near = sorted(range(2, 2 * (batch_size or 1) + 64), key=lambda size: abs(size - (batch_size or 1)))
    valid = next((f"; the nearest valid value is {size}" for size in near if not lone(size).size), "")
    raise ScenarioError(
        "training.batch_size",
        f"is {batch_size}: client {alone[0] % samples.shape[-1]} holds {sizes[alone[0]]} training samples, and in a "
        f"step of one sample the model {reason}{valid}",
    )


def _refusal(model: Any, why: str) -> ScenarioError:
    return ScenarioError("model", f"{model.name} {why}")


def initial(module: nn.Module, rng: np.random.Generator) -> NDArray[np.float32]:
    """The flat vector x(0), float32, shape (d,), in the order of :func:`simfl.learning.models.flat.layout`.

    Linear and convolutional layers: weights and biases uniform on +-1/sqrt(fan-in), which is He et al. 2015 with
    gain sqrt(1/3); where the layer has an attribute ``gain``: weights uniform on +-gain * sqrt(3 / fan-in), biases 0
    (the paper's gain before ReLU is sqrt(2)). Normalisation layers: scale 1, shift 0,
    running mean 0, running variance 1. Embeddings: standard normal. Recurrent layers: uniform on
    +-1/sqrt(hidden units).
    A module with parameters of its own says how to draw them in a method ``draw(name, shape, rng) -> array``.
    Frozen parameters are drawn like others, and set.

    Raises:
        ScenarioError: a layer of another kind holds parameters.
    """
    owners = {id(p): (owner, name) for owner in module.modules() for name, p in owner.named_parameters(recurse=False)}
    parts = []
    for parameter in module.parameters():
        owner, name = owners[id(parameter)]
        value = np.asarray(_draw(owner, name, tuple(parameter.shape), rng), dtype=np.float32)
        if parameter.requires_grad:
            parts.append(np.ravel(value))
        else:
            parameter.data.copy_(torch.from_numpy(value))
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
