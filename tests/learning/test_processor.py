"""What simfl knows about the processor, and what it says where a precision has no instructions there."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from click.testing import CliRunner
from torch import nn

from simfl.cli import simfl
from simfl.core.processor import CPUINFO, Processor, processor
from simfl.learning.backends.choices import GROUPED_CAUTION
from simfl.learning.models.build import check_bf16
from simfl.scenario import Scenario

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "scenarios").glob("*.yaml"))
X86 = "processor\t: 0\nflags\t\t: fpu sse2 {}\nprocessor\t: 1\nflags\t\t: fpu sse2\n"


@pytest.fixture(autouse=True)
def unlimited(monkeypatch):
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)


def flags(tmp_path, text):
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (X86.format("avx avx2 avx512f avx512_bf16 amx_bf16"), ("AVX-512", True)),
        (X86.format("avx avx2 avx512f"), ("AVX-512", False)),
        (X86.format("avx avx2 fma"), ("AVX2", False)),
        (X86.format("avx"), ("AVX", False)),
        (X86.format(""), ("neither AVX nor AVX2", False)),
        ("processor : 0\nFeatures : fp asimd bf16 sve\n", ("NEON", True)),
        ("processor : 0\nFeatures : fp asimd\n", ("NEON", False)),
        ("processor : 0\n", (None, None)),
    ],
)
def test_instructions_are_read_from_linux(tmp_path, text, expected):
    assert processor(flags(tmp_path, text)) == Processor(*expected, None)


def test_elsewhere_they_are_unknown(tmp_path):
    assert processor(tmp_path / "none") == Processor(None, None, None)


def test_what_onednn_is_kept_from_does_not_count(tmp_path, monkeypatch):
    path = flags(tmp_path, X86.format("avx avx2 avx512f avx512_bf16"))
    for limit, bf16 in (("AVX2", False), ("avx512_core", False), ("AVX512_CORE_BF16", True), ("ALL", True)):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        assert processor(path) == Processor("AVX-512", bf16, limit.upper())


@pytest.mark.skipif(not CPUINFO.exists(), reason="only Linux tells")
def test_this_machine_has_what_torch_uses():
    uses, order = torch.backends.cpu.get_cpu_capability(), ["DEFAULT", "AVX2", "AVX512"]
    if uses in order:
        has = {"AVX-512": 2, "AVX2": 1}.get(processor().widest or "", 0)
        assert order.index(uses) <= has


def slow(monkeypatch, found):
    monkeypatch.setattr("simfl.learning.supervised.processor", lambda: Processor("AVX2", found, None))


ROUGH = """
name: rough
clients: 4
devices: {computation: 0.1}
selection: all
training: {name: fedavg, rounds: 1}
learning: {data: digits, model: logistic, bf16: true}
"""


def test_a_precision_without_instructions_is_said_before_the_run(tmp_path, monkeypatch):
    file = tmp_path / "rough.yaml"
    file.write_text(ROUGH)
    said = "learning: bf16: this processor has no instructions for bfloat16"
    for found, lines in ((False, 1), (True, 0), (None, 0)):
        slow(monkeypatch, found)
        valid = CliRunner().invoke(simfl, ["validate", str(file)])
        assert valid.exit_code == 0 and (valid.stdout + valid.stderr).count(said) == lines
        played = CliRunner().invoke(simfl, ["run", str(file), "--out", str(tmp_path / f"out-{found}")])
        assert played.exit_code == 0 and played.stderr.count(said) == lines
        quiet = CliRunner().invoke(simfl, ["run", str(file), "-q", "--force", "--out", str(tmp_path / "quiet")])
        assert quiet.exit_code == 0 and said not in quiet.stderr
        assert not Scenario.load(file, ["learning.bf16=false"]).cautions()
        assert not Scenario.load(file, ["learning.device=cuda"]).cautions()


def test_doctor_names_the_instructions(monkeypatch):
    for bf16, words in (
        (True, "bfloat16 in hardware"),
        (False, "no bfloat16 instructions"),
        (None, "bfloat16 unknown"),
    ):
        monkeypatch.setattr("simfl.core.processor.processor", lambda bf16=bf16: Processor("AVX2", bf16, "AVX2"))
        line = next(line for line in CliRunner().invoke(simfl, ["doctor"]).stdout.splitlines() if "processor " in line)
        assert "AVX2, " in line and "oneDNN at most AVX2" in line and words in line
        assert torch.backends.cpu.get_cpu_capability() in line
    shown = json.loads(CliRunner().invoke(simfl, ["doctor", "--json"]).stdout)["processor"]
    assert shown == {
        "instructions": "AVX2",
        "torch_uses": torch.backends.cpu.get_cpu_capability(),
        "onednn_limit": "AVX2",
        "bf16": None,
    }


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_scenarios_ask_for_float32_and_leave_the_backend_to_simfl(file):
    learning = yaml.safe_load(file.read_text()).get("learning")
    assert isinstance(learning, str | None) or not {"bf16", "backend"} & set(learning)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Processor("AVX-512", True, None), False),
        (Processor("AVX-512", False, "AVX512_CORE"), False),
        (Processor("AVX-512", False, "AVX2"), True),
        (Processor("AVX2", False, None), True),
        (Processor(None, None, None), False),  # nobody knows
    ],
)
def test_grouped_is_slower_without_avx512_and_that_is_said(monkeypatch, known, said):
    monkeypatch.setattr("simfl.learning.backends.choices.processor", lambda: known)
    text = (
        "{clients: 4, selection: {name: random, k: 2}, training: {name: fedavg, rounds: 2}, learning: {data: digits, "
    )
    found = {
        backend: Scenario.parse(f"{text}model: mlp, backend: {backend}}}}}", "s").cautions()
        for backend in ("grouped", "auto", "sequential")
    }
    assert any(GROUPED_CAUTION in line for line in found["grouped"]) is said
    assert not any("grouped" in line for backend in ("auto", "sequential") for line in found[backend])


class SinglePrecision(nn.Module):
    """A network that cannot be computed in bfloat16, as an LSTM cannot on processors without AVX-512."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        logits = self.layers(x)
        if logits.dtype is not torch.float32:
            raise RuntimeError("could not create a primitive. Run it again to learn more.")
        return logits


def test_a_model_that_has_no_bfloat16_is_refused_before_anything_is_written(tmp_path):
    file = tmp_path / "rough.yaml"
    file.write_text(ROUGH.replace("logistic", f"{{name: python, object: '{__name__}:SinglePrecision'}}"))
    refused = CliRunner().invoke(simfl, ["run", str(file), "-q", "--out", str(tmp_path / "out")])
    assert refused.exit_code == 2 and not (tmp_path / "out").exists()
    told = "learning.bf16: torch cannot compute this model in bfloat16 on this processor (could not create a primitive)"
    assert told + "; set bf16 to false" in refused.stderr and refused.stderr.count("\n") == 1
    full = ["run", str(file), "learning.bf16=false", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(simfl, full).exit_code == 0


def test_the_trial_in_bfloat16_leaves_the_statistics_of_norm_layers_alone():
    module = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)).train()
    before = [each.clone() for each in module.state_dict().values()]
    check_bf16(module, (1, 8, 8))
    assert all(map(torch.equal, before, module.state_dict().values()))
