"""A model choice becomes a module that federated training can use, or is refused. Imported only where torch is."""

from typing import Any

import torch
from torch import nn

from simfl.errors import ScenarioError
from simfl.learning.models.base import check_size

__all__ = ["build"]


def build(model: Any, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The module of a model choice, tried on two blank samples.

    Raises:
        ScenarioError: it is too large; its output has the wrong shape; it keeps statistics or draws random numbers.
    """
    check_size(model, shape, classes)
    with torch.random.fork_rng(devices=[]):  # layers draw values at construction; they are overwritten
        module = model.build(shape, classes)
        module.train()
        _refuse_statistics(module)
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        state = torch.get_rng_state()
        try:
            with torch.no_grad():
                out = module(torch.zeros(2, *shape))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            why = str(error).splitlines()[0]
            raise _refused(model, f"cannot take samples of shape {list(shape)}: {why}") from error
        if tuple(out.shape) != (2, classes):
            raise _refused(model, f"gives an output of shape {list(out.shape)} for 2 samples in {classes} classes")
        if not torch.equal(state, torch.get_rng_state()):
            raise _refused(
                model,
                "draws from torch's global random state (dropout?); simfl's draws come from named streams: remove it",
            )
        if any(not torch.equal(before[name], buffer) for name, buffer in module.named_buffers()):
            raise _refused(model, "changes a buffer in its forward pass; an average of models cannot carry that")
    return module


def _refuse_statistics(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
            raise ScenarioError(
                "model",
                f"layer '{name}' ({type(layer).__name__}) keeps running statistics of the batches it saw, which no "
                "average of clients' models carries; use torch.nn.GroupNorm instead (as resnet18_gn does)",
            )


def _refused(model: Any, why: str) -> ScenarioError:
    return ScenarioError("model", f"{model.name} {why}")
