"""A user's torch module, or what builds one, as a model."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING, Any, ClassVar

from simfl.core.errors import ScenarioError
from simfl.core.types import Vectors
from simfl.learning.objects.global_seeds import seed_generators

if TYPE_CHECKING:
    import torch

SIZES: dict[str, Callable[[tuple[int, ...], int], object]] = {
    "shape": lambda shape, classes: shape,
    "input_shape": lambda shape, classes: shape,
    "in_features": lambda shape, classes: prod(shape),
    "input_size": lambda shape, classes: prod(shape),
    "in_channels": lambda shape, classes: shape[0],
    "classes": lambda shape, classes: classes,
    "num_classes": lambda shape, classes: classes,
    "n_classes": lambda shape, classes: classes,
    "out_features": lambda shape, classes: classes,
    "output_size": lambda shape, classes: classes,
}
"""Parameters of a class or function that builds a module, which get their values from the data."""


def read_model(value: object) -> object:
    """A ``torch.nn.Module`` (its values are those with which training begins), or a class or function that gives one.

    Raises:
        ValueError: it is neither.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        _refuse_unusable(value)
        return value
    if not callable(value):
        kind = type(value).__name__
        raise ValueError(f"a torch.nn.Module, or a class or function that gives one, is needed (got {kind})")
    _parameters(value)
    return value


def _refuse_unusable(module: Any) -> None:
    """
    Raises:
        ValueError: federated training of one vector in float32 is not possible.
    """
    torch = sys.modules["torch"]
    parameters = list(module.named_parameters())
    if not any(parameter.requires_grad for _, parameter in parameters):
        missing = "every parameter has requires_grad=False" if parameters else "the module has no parameters"
        raise ValueError(f"{missing}, so that there is nothing to train")
    for name, parameter in parameters:
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            raise ValueError(f"parameter '{name}' has no shape yet (a lazy layer); pass one sample through the module")
        if parameter.requires_grad and parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise ValueError(f"parameter '{name}' is {kind}, and simfl trains in float32: call .float() on the module")


def _parameters(builder: Callable[..., object]) -> list[str]:
    """The parameters that get their values from the data.

    Raises:
        ValueError: one without a default is none of :data:`SIZES`.
    """
    try:
        known = inspect.signature(builder).parameters.values()
    except (TypeError, ValueError):  # of a builtin
        return []
    wanted = []
    for each in known:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if each.name in SIZES and each.kind is not each.POSITIONAL_ONLY:
            wanted.append(each.name)
        elif each.default is each.empty:
            raise ValueError(
                f"{_name(builder)} needs the argument '{each.name}', which the data do not give (they give "
                f"{', '.join(SIZES)}); use functools.partial({_name(builder)}, {each.name}=...) or an instance"
            )
    return wanted


def _name(builder: object) -> str:
    return builder.__qualname__ if inspect.isclass(builder) or inspect.isroutine(builder) else type(builder).__name__


@dataclass
class UserNetwork:
    """A user's model, ready to be built.

    Attributes:
        name: of the model, in messages.
        value: what :func:`read_model` returned.
        seed: of the random numbers that a class draws when it is called.
        start: the module's own initial values in the order of its flat vector, (d,), once it is built.
    """

    name: str
    value: Any
    seed: int
    start: "Vectors | None" = None

    tokens: ClassVar[None] = None
    steepness: ClassVar[float] = inf
    smoothness: ClassVar[float] = inf

    def parameters(self, shape: tuple[int, ...], classes: int) -> int | None:
        """Trained parameters of a module; None where it is only built later."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(self.value, torch.nn.Module):
            return None
        return sum(int(each.numel()) for each in self.value.parameters() if each.requires_grad)

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        """The module, or a copy of the one that was given; its values become the initial model.

        Raises:
            ScenarioError: it cannot be built, or not be trained.
        """
        import copy

        from torch import nn

        from simfl.learning.models.flat import values

        module = self.value
        if isinstance(module, nn.Module):
            module = copy.deepcopy(module).cpu()
        else:
            module = self._call(shape, classes)
            if not isinstance(module, nn.Module):
                raise ScenarioError("model", f"{self.name} gives {type(module).__name__}, not a torch.nn.Module")
        try:
            _refuse_unusable(module)
        except ValueError as error:
            raise ScenarioError("model", f"{self.name}: {error}") from None
        self.start = values(module)
        return module

    def initial_values(self) -> "Vectors | None":
        """The values that the module had when it was built, (d,)."""
        return self.start

    def _call(self, shape: tuple[int, ...], classes: int) -> object:
        sizes = {name: SIZES[name](shape, classes) for name in _parameters(self.value)}
        with seed_generators(self.seed):
            try:
                return self.value(**sizes)
            except Exception as error:  # somebody else's code may raise anything
                arguments = ", ".join(f"{name}={size}" for name, size in sizes.items())
                why = " ".join(str(error).split())
                raise ScenarioError(
                    "model", f"{_name(self.value)}({arguments}) raises {type(error).__name__}: {why}"
                ) from error
