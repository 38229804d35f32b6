"""Keeps strided 1 x 1 convolutions of few channels away from an error in oneDNN. Imported only where torch is.

oneDNN (in torch 2.13: 3.12) computes the gradient by weights of a 1 x 1 convolution with a stride from a copy of the
pixels that the stride keeps. In channels-last layout the copy has room for the input's channels, but its parts are
written a block of channels apart (8 numbers with AVX2, 16 with AVX-512): with fewer channels than a block it writes
past the end, as soon as an image is copied in more than one part. The process then crashes, or another number changes
silently (https://github.com/uxlfoundation/oneDNN/issues/6035). Groups, larger kernels, padding and stride 1 take other
ways; a transposed convolution takes this one with the roles of input and output exchanged.

A convolution with kernel 1 and stride s is the same convolution with stride 1 of every s-th pixel. So that is what is
computed in their place, in whatever layout, whether a layer or a function asks for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from torch.overrides import TorchFunctionMode

BLOCK = 16
"""Channels of oneDNN's largest block of float32. The same for every processor, so that this decides no result's bits
differently from one processor to another."""

Pair = int | tuple[int, ...] | list[int]


class StridedConvolutions(TorchFunctionMode):
    """A block in which torch's 1 x 1 convolutions with a stride and fewer than ``BLOCK`` channels are computed safely.

    Functions inside a ``torch.jit.ScriptModule`` are not seen.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.conv2d:
            return _convolution(*args, **kwargs)
        if func is torch.conv_transpose2d:
            return _transposed_convolution(*args, **kwargs)
        return func(*args, **kwargs)


STRIDED = StridedConvolutions()


def guard(module: nn.Module) -> None:
    """Makes every pass through the module such a block, if it has such a convolution or a layer that may hide one.

    The module, its copies and what arrives in another process are guarded; its parameters and their names stay.
    """
    if any(_is_strided(layer) or not _known(layer) for layer in module.modules()):
        module.register_forward_pre_hook(_enter)
        module.register_forward_hook(_leave, always_call=True)


def _enter(module: nn.Module, inputs: object) -> None:
    STRIDED.__enter__()  # type: ignore[no-untyped-call]  # torch has no types for it


def _leave(module: nn.Module, inputs: object, output: object) -> None:
    STRIDED.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch has no types for it


def _known(layer: nn.Module) -> bool:
    """Whether what the layer computes stands in its type: a layer of torch's or simfl's own."""
    return type(layer).__module__.startswith(("torch.nn.modules.", "simfl.learning.models."))


def _is_strided(layer: nn.Module) -> bool:
    if not isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
        return False
    channels = layer.out_channels if isinstance(layer, nn.ConvTranspose2d) else layer.in_channels
    return _needs_guard(layer.weight, channels, layer.stride, layer.groups)


def _needs_guard(weight: torch.Tensor, channels: int, stride: Pair, groups: int) -> bool:
    once = all(s == 1 for s in _pair(stride))
    return tuple(weight.shape[-2:]) == (1, 1) and not once and groups == 1 and channels < BLOCK


def _pair(value: Pair) -> tuple[int, int]:
    """One number for both directions, or one for each."""
    both = [value] if isinstance(value, int) else list(value)
    return both[0], both[-1]


def _has_no_padding(padding: Pair | str) -> bool:
    return padding == "valid" if isinstance(padding, str) else not any(_pair(padding))


def _convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Pair = 1,
    padding: Pair | str = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> torch.Tensor:
    if _needs_guard(weight, weight.shape[1], stride, groups) and _has_no_padding(padding):
        down, across = _pair(stride)
        return torch.conv2d(input[..., ::down, ::across], weight, bias)
    return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)


def _transposed_convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
) -> torch.Tensor:
    if _needs_guard(weight, weight.shape[1], stride, groups):
        # .contiguous() would leave a tensor of one channel in channels-last layout
        input, weight = (tensor.to(memory_format=torch.contiguous_format) for tensor in (input, weight))
    return torch.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)


# -- Convolutions of few channels, computed of pairs of columns. Imported only where torch is ------------------
# Vector instructions multiply 8 or 16 channels at once, whatever a convolution has. In channels-last layout the
# channels of two neighbouring columns lie one behind the other, so that an image of c channels is, without a copy,
# one of half the width and 2 c channels. A kernel of odd width k over single columns is one of (k + 1) / 2 over
# pairs: its two outputs' weights are the same ones, beside a column of zeros behind or before. That is (k + 1) / k as
# many products, and with six channels of output five eighths of the time of LeNet-5's first layer.


class Conv2d(nn.Conv2d):
    """torch's layer of this name, with stride 1, a kernel of odd width and an even padding of columns.

    Images (n, channels, height, width) of even width are folded where they are channels-last on a processor.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.device.type != "cpu" or input.stride(1) != 1 or input.shape[3] % 2:
            return super().forward(input)
        outputs, channels, height, width = self.weight.shape
        pair = torch.stack([pad(self.weight, (0, 1)), pad(self.weight, (1, 0))])
        weight = pair.view(2, outputs, channels, height, -1, 2).permute(0, 1, 5, 2, 3, 4)
        weight = weight.reshape(2 * outputs, 2 * channels, height, -1)
        bias = None if self.bias is None else self.bias.repeat(2)
        rows = input.permute(0, 2, 3, 1)
        folded = rows.reshape(*rows.shape[:2], -1, 2 * channels).permute(0, 3, 1, 2)
        vertical, horizontal = map(int, self.padding)
        rows = nn.functional.conv2d(folded, weight, bias, padding=(vertical, horizontal // 2)).permute(0, 2, 3, 1)
        return rows.reshape(*rows.shape[:2], -1, outputs).permute(0, 3, 1, 2)
