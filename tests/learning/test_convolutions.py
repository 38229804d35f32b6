"""Gradients of convolutions are right in every engine, on the processor that there is and as a smaller one."""

import copy
import json
import os
import re
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d

from simfl.learning.models.base import MODELS
from simfl.learning.models.convolutions import BLOCK, Conv2d, StridedConvolutions, guard

GRID = Path(__file__).resolve().parents[1] / "support" / "convolution_grid.py"
SMALLER = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
SMALL_ALREADY = pytest.mark.skipif(SMALLER.items() <= os.environ.items(), reason='the same as "as it is"')
TOLERANCE = 3e-5
DANGEROUS = re.compile(r"_ic(\d+)oc(\d+)_.*kh1sh(\d+)dh0ph0.*kw1sw(\d+)dw0pw0")


def dangerous(line):
    """Whether oneDNN says that it computed what it computes wrongly (its issue 6035)."""
    if "jit_1x1" not in line or "backward_weights" not in line or "src:f32::blocked:acdb" not in line:
        return False
    if not (shape := DANGEROUS.search(line)):
        return False
    inputs, outputs, down, across = map(int, shape.groups())
    channels = outputs if ",deconvolution," in line else inputs  # a transposed one exchanges them
    return channels < BLOCK and (down, across) != (1, 1)


def test_what_is_dangerous_is_recognised():
    logged = (
        "onednn_verbose,v1,primitive,exec,cpu,convolution,jit_1x1:avx2,backward_weights,src:f32::blocked:acdb::f0 "
        "wei:f32:ap:blocked:ABcd8b8a::f0 bia:undef::undef::: dst:f32::blocked:acdb::f0,attr-scratchpad:user,"
        "alg:convolution_direct,mb8_ic4oc6_ih8oh4kh1sh2dh0ph0_iw8ow4kw1sw2dw0pw0,0.0039"
    )
    assert dangerous(logged)
    assert not dangerous(logged.replace("ic4", "ic16"))
    assert not dangerous(logged.replace("sh2", "sh1").replace("sw2", "sw1"))
    assert dangerous(logged.replace("sh2", "sh1"))
    assert not dangerous(logged.replace("acdb", "aBcd8b"))
    transposed = logged.replace("convolution,jit", "deconvolution,conv:any+jit").replace(
        "ic4oc6_ih8oh4", "ic6oc4_ih4oh8"
    )
    assert dangerous(transposed) and not dangerous(transposed.replace("oc4", "oc16"))


@pytest.mark.parametrize(("size", "least"), [("some", 100), pytest.param("full", 250, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "smaller", [pytest.param({}, id="as it is"), pytest.param(SMALLER, id="AVX2", marks=SMALL_ALREADY)]
)
def test_gradients_agree_with_those_without_onednn(smaller, size, least):
    """A crash fails this test, not pytest; oneDNN's own log says whether the memory error is even possible."""
    environment = {**os.environ, **smaller, "ONEDNN_VERBOSE": "1", "OMP_NUM_THREADS": "1"}
    played = subprocess.run([sys.executable, GRID, size], env=environment, capture_output=True, text=True, timeout=300)
    assert played.returncode == 0, played.stderr[-2000:]
    *log, last = played.stdout.splitlines()
    errors = json.loads(last)
    assert len(errors) > least
    assert {name: error for name, error in errors.items() if not error < TOLERANCE} == {}
    assert [line for line in log if dangerous(line)] == []
    if torch.backends.mkldnn.is_available() and any("brgconv" in line for line in log):
        assert any("backward_weights,src:f32::blocked:acdb" in line for line in log), "nothing was in channels-last"


def strided(channels):
    return nn.Sequential(nn.Conv2d(channels, 5, 1, stride=2), nn.Flatten())


def passes(module):
    """What torch computes of an image while the module makes a pass: strides of its convolutions."""
    found = []

    class Noted(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.conv2d:
                found.append(args[3] if len(args) > 3 else 1)
            return func(*args, **(kwargs or {}))

    with Noted():
        module(torch.zeros(2, next(module.parameters()).shape[1], 8, 8))
    return found


def test_only_convolutions_that_need_it_are_computed_otherwise():
    for channels, expected in ((4, 1), (BLOCK - 1, 1), (BLOCK, (2, 2))):
        module = strided(channels)
        guard(module)
        assert passes(module) == [expected]
    plain = nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.Conv2d(6, 16, 3, stride=2))
    guard(plain)
    assert not plain._forward_pre_hooks  # nothing is looked at where nothing can be wrong


def test_copies_and_other_processes_are_guarded_too():
    module = strided(4)
    guard(module)
    restored = ForkingPickler.loads(ForkingPickler.dumps(module))
    assert passes(copy.deepcopy(module)) == passes(restored) == [1]


def test_the_guard_ends_with_the_pass_also_where_it_fails():
    module = strided(4)
    guard(module)
    with pytest.raises(RuntimeError):
        module(torch.zeros(2, 3, 8, 8))
    assert not any(isinstance(mode, StridedConvolutions) for mode in torch.overrides._get_current_function_mode_stack())
    module(torch.zeros(2, 4, 8, 8))
    assert not any(isinstance(mode, StridedConvolutions) for mode in torch.overrides._get_current_function_mode_stack())


@pytest.mark.parametrize("padding", [0, "valid", (0, 1)])
@pytest.mark.parametrize("stride", [2, (1, 3), [2]])
def test_the_same_values_in_every_way_of_calling(stride, padding):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 4, 9, 8), torch.randn(6, 4, 1, 1), torch.randn(6)
    expected = torch.conv2d(x, weight, bias, stride, padding)
    with StridedConvolutions():
        torch.testing.assert_close(torch.conv2d(x, weight, bias, stride, padding), expected)
        torch.testing.assert_close(nn.functional.conv2d(x[0], weight, bias, stride, padding), expected[0])
        given = dict(input=x, weight=weight, bias=bias, stride=stride, padding=padding)
        torch.testing.assert_close(torch.conv2d(**given), expected)


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "padding", "shape"),
    [(3, 6, 5, 0, (32, 32)), (1, 6, 5, 2, (28, 28)), (2, 5, (3, 7), (1, 2), (9, 12)), (3, 4, 1, 0, (3, 4)),
     (3, 6, 5, 0, (8, 11)), (3, 6, 5, 0, (5, 6))],
)  # fmt: skip
@pytest.mark.parametrize("bias", [True, False])
def test_folded_convolutions_are_torchs(channels, outputs, kernel, padding, shape, bias):
    """Values, gradients and their gradients, of small whole numbers, whose sums no order of adding rounds."""
    folded = Conv2d(channels, outputs, kernel, padding=padding, bias=bias)
    plain = nn.Conv2d(channels, outputs, kernel, padding=padding, bias=bias)
    draw = torch.Generator().manual_seed(0)
    weights = [torch.randint(-4, 5, p.shape, generator=draw).float() for p in plain.parameters()]
    x = torch.randint(-4, 5, (3, channels, *shape), generator=draw).float()
    seen = []
    for layer, image in ((plain, x), (folded, x), (folded, x.to(memory_format=torch.channels_last))):
        for parameter, value in zip(layer.parameters(), weights, strict=True):
            parameter.data = value.clone()
        image = image.requires_grad_()
        out = layer(image)
        first = torch.autograd.grad(out.square().sum(), [image, *layer.parameters()], create_graph=True)
        second = torch.autograd.grad(sum(g.sum() for g in first), [image, *layer.parameters()])
        seen.append([out, *first, *second])
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other, strict=True))


def test_only_what_gains_is_folded(monkeypatch):
    """Torch's convolution is asked for twice the channels where images are folded: LeNet-5's first ones alone."""
    asked = []
    monkeypatch.setattr(
        nn.functional, "conv2d", lambda x, w, *a, **k: asked.append(w.shape[0]) or conv2d(x, w, *a, **k)
    )
    for name, widths in (("lenet5", [12, 16]), ("multiround_cifar", [12, 16]), ("cnn_mnist", [32, 64])):
        module = MODELS[name]().build((3, 32, 32), 10)
        for form, expected in ((torch.channels_last, widths), (torch.contiguous_format, [min(widths[0], 6), 16])):
            asked.clear()
            module(torch.zeros(2, 3, 32, 32).to(memory_format=form))
            assert asked == (expected if widths[0] < 32 else widths)
