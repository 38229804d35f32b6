"""Epsilons of different deltas are shown, and said to be of different deltas, but never compared."""

import csv
import json
from dataclasses import fields

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as group
from simfl.core.certificate_words import NOT_SERVER, SERVER_TOO, against
from simfl.core.columns import unknown
from simfl.experiments.compare.deltas import ACCOUNTED, PERTURBED, PURE, delta_sentences, deltas, unlike
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.stage import STAGES
from simfl.report.advice import cautions
from simfl.report.equal_budget import equal_table
from simfl.report.html_page import page
from simfl.report.latex import latex
from simfl.report.page_tables import group_table
from simfl.report.study_reader import read_study
from simfl.secagg import PROTOCOLS

pytestmark = pytest.mark.usefixtures("sweeps_here")

TEXT = """
name: noisy
clients: 10
selection: all
training: {name: fedavg, rounds: 8, weighting: equal}
learning: none
privacy: {stages: [central_gaussian], accountants: [zero_out]}
"""
DELTAS = "Largest ε and Median ε: δ = 1e-07 for 1e-7, δ = 0.05 for 0.05; ε of different δ cannot be compared"


def compared(folder, *overrides):
    """The output of a comparison of two seeds, and its folder."""
    (folder / "noisy.yaml").write_text(TEXT)
    words = ["compare", str(folder / "noisy.yaml"), *overrides, "--replications", "2", "--jobs", "1"]
    result = CliRunner().invoke(group, [*words, "--out", str(folder / "out")])
    assert result.exit_code == 0, result.output
    (path,) = (folder / "out" / "noisy").glob("compare-*")
    return result.output, path


@pytest.fixture(scope="module")
def unlike_ones(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("unlike"), "privacy.accountants.0.delta=0.05,1e-7")


@pytest.fixture(scope="module")
def like_ones(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("like"), "privacy.stages.0.noise_multiplier=2,4")


def metrics_of(path, name):
    with open(path / name, newline="", encoding="utf-8") as file:
        return {row["metric"] for row in csv.DictReader(file)}


def test_a_comparison_names_the_deltas_and_tests_nothing_of_them(unlike_ones):
    text, path = unlike_ones
    assert f"warning: {DELTAS}\n" in text
    for name in ("paired.csv", "equal_paired.csv"):
        assert "time_s" in metrics_of(path, name) and not {"epsilon_max", "epsilon_median"} & metrics_of(path, name)
    assert {"epsilon_max", "epsilon_median"} <= metrics_of(path, "comparison.csv")
    document = json.loads((path / "comparison.json").read_text())
    assert [choice["deltas"]["epsilon_max"] for choice in document["choices"]] == [[0.05], [1e-7]]


def test_epsilons_of_one_delta_are_compared(like_ones):
    text, path = like_ones
    assert "δ" not in text and {"epsilon_max", "epsilon_median"} <= metrics_of(path, "paired.csv")
    study = read_study([path])
    assert not any("δ" in sentence for sentence in cautions(study))
    assert best_cells(group_table(study), "epsilon_max") == [False, True]
    assert study.columns["epsilon_max"].better == -1


def test_epsilons_against_different_observers_are_not_compared(tmp_path):
    central, local = (f"{kind}: privacy.stages=[{kind}_gaussian]" for kind in ("central", "local"))
    text, path = compared(tmp_path, "--case", central, "--case", local)
    named = next(line for line in text.splitlines() if line.startswith("warning: Largest ε and Median ε: of central"))
    assert NOT_SERVER in named and f"of local against {SERVER_TOO}" in named and "cannot be compared" in named
    assert metrics_of(path, "comparison.csv") >= {"epsilon_max", "epsilon_median"}
    assert not {"epsilon_max", "epsilon_median"} & metrics_of(path, "paired.csv")
    study = read_study([path])
    assert study.columns["epsilon_max"].better == 0 and best_cells(group_table(study), "epsilon_max") == [False, False]
    assert any("cannot be compared" in sentence for sentence in cautions(study))


@pytest.mark.parametrize("name", sorted(ACCOUNTED))
def test_an_epsilon_of_a_run_is_against_the_server_only_where_all_noise_is(name):
    for column in ACCOUNTANTS[name].columns:
        if "epsilon" in column.name:
            assert against(column, ["server"]).observer == against(column, ["server"] * 2).observer == SERVER_TOO
            for noisy in ([], ["outside"], ["server", "outside"]):
                assert not against(column, noisy).observer.startswith("the server")


def best_cells(table, name):
    (place,) = (i for i, head in enumerate(table.columns) if head.name == name)
    return [row.cells[place].best for row in table.rows]


def test_a_report_says_so_and_no_epsilon_is_the_best(unlike_ones):
    study = read_study([unlike_ones[1]])
    assert f"{DELTAS}." in cautions(study) and f"{DELTAS}." in page(study)
    table = group_table(study)
    assert not any(best_cells(table, "epsilon_max")) and not any(best_cells(table, "epsilon_median"))
    equal = equal_table(study)
    (place,) = (i for i, head in enumerate(equal.columns) if head.name == "epsilon_max")
    assert all(not row.cells[place].best and not row.cells[place].half for row in equal.rows)
    assert r"\textbf" not in latex(study, ["epsilon_max"])


def test_with_a_baseline_of_one_of_them_only_its_own_are_subtracted(tmp_path):
    shown, path = compared(tmp_path, "privacy.accountants.0.delta=1e-5,1e-6", "privacy.stages.0.noise_multiplier=2,4")
    with open(path / "paired.csv", newline="", encoding="utf-8") as file:
        rows = [row["choice"] for row in csv.DictReader(file) if row["metric"] == "epsilon_max"]
    assert rows == ["1e-5 / 4"]
    assert "other δ" in shown and "δ = 1e-06 for 1e-6 / 2 and 1e-6 / 4, δ = 1e-05 for 1e-5 / 2 and 1e-5 / 4" in shown


def test_old_comparisons_say_nothing_of_deltas(unlike_ones):
    from simfl.experiments.compare.show import delta_warnings

    document = json.loads((unlike_ones[1] / "comparison.json").read_text())
    for choice in document["choices"]:
        del choice["deltas"]
    assert not list(delta_warnings(document))


def test_every_epsilon_of_simfls_own_has_its_delta():
    for name, cls in ACCOUNTANTS.items():
        if cls.__module__.startswith("simfl.") and "delta" in {field.name for field in fields(cls)}:
            assert ACCOUNTED[name] == tuple(column.name for column in cls.columns)
    epsilons = {name: [column.name for column in cls.columns if "epsilon" in column.name]
                for registry in (STAGES, PROTOCOLS) for name, cls in registry.items()
                if cls.__module__.startswith("simfl.")}  # fmt: skip
    known = {"output_perturbation": list(PERTURBED), **{name: list(names) for name, names in PURE.items()}}
    assert {name: names for name, names in epsilons.items() if names} == known


@pytest.mark.parametrize("privacy, secagg, expected", [
    ({"accountants": [{"name": "zero_out", "delta": 1e-5}, {"name": "pld", "delta": 1}]}, "plain",
     {"epsilon_max": (1e-5,), "epsilon_pld": (1.0,)}),
    ({"stages": [{"name": "output_perturbation", "mechanism": "gaussian", "delta": 0.1}]}, "plain",
     {"epsilon_weight": (0.1,)}),
    ({"stages": [{"name": "output_perturbation", "mechanism": "laplace", "delta": 0.1}]}, "plain",
     {"epsilon_weight": (0.0,)}),
    ({}, "oblivious", {"epsilon_weight": (0.0,)}),
    ({"accountants": [{"name": "own", "delta": 0.1}, {"name": "other", "delta": 0.2}]}, "plain",
     {"my_epsilon": (0.1, 0.2)}),
    ({"accountants": ["zero_out", {"name": "own"}, {"name": "odd", "delta": "none"}], "stages": None}, "plain", {}),
    ("none", "plain", {}),
])  # fmt: skip
def test_deltas_are_those_of_the_scenario(privacy, secagg, expected):
    columns = ["epsilon_max", "epsilon_pld", "epsilon_weight", "my_epsilon", "time_s"]
    assert deltas({"privacy": privacy, "secagg": {"name": secagg}}, columns) == expected


def test_sentences_group_columns_and_count_many_configurations():
    same = {"a": {"x": (0.1,), "y": (0.1,)}, "b": {"x": (0.1,), "y": (0.1,)}, "c": {"x": (0.1,)}}
    assert not unlike(same) and not list(delta_sentences(same, {}))
    many = {str(i): {"x": (0.1 if i else 0.0,)} for i in range(6)}
    (text,) = delta_sentences(many, {"x": unknown("x")})
    assert text.startswith("X: δ = 0 for 0, δ = 0.1 for 5 configurations;")
