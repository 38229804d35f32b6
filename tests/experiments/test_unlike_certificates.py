"""Certificates that do not say the same are shown, and it is said in what they differ, but they are never compared."""

import csv
import json

import pytest
import yaml
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core.certificate_words import (
    NOT_SERVER,
    SERVER_TOO,
    UNSAID,
    UNSAID_DELTA,
    against,
    promises,
    unite_columns,
    unlike_sentences,
)
from simfl.core.columns import Column, unknown
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.stage import STAGES
from simfl.report.advice import cautions
from simfl.report.html_page import page
from simfl.report.page_tables import equal_table, group_table
from simfl.report.study_reader import read_study
from simfl.report.study_tables import latex
from simfl.scenario.column_owners import with_bases
from simfl.secagg.base import PROTOCOLS

pytestmark = pytest.mark.usefixtures("sweeps_here")

TEXT = """
name: noisy
clients: 10
selection: all
training: {name: fedavg, rounds: 8, weighting: equal}
learning: none
privacy: {stages: [central_gaussian], accountants: [zero_out]}
"""
DELTAS = "Largest ε and Median ε: of 0.05 at δ = 0.05; of 1e-7 at δ = 1e-07; these cannot be compared"


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
    said = [choice["against"]["epsilon_max"] for choice in document["choices"]]
    assert ["at δ = 0.05" in said[0], "at δ = 1e-07" in said[1]] == [True, True] and len(said[0]) == len(said[1]) == 5


def test_epsilons_of_one_delta_are_compared(like_ones):
    text, path = like_ones
    assert (
        "cannot be compared" not in text
        and text.count("at δ = 1e-05") == 1
        and {"epsilon_max", "epsilon_median"} <= metrics_of(path, "paired.csv")
    )
    study = read_study([path])
    assert not any("compared" in sentence for sentence in cautions(study))
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


@pytest.mark.parametrize("name", ["zero_out", "pld", "rdp"])
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
    assert shown.count("not compared") == 4 + shown.count("not compared: ")
    assert "of 1e-5 / 2 and 1e-5 / 4 at δ = 1e-05; of 1e-6 / 2 and 1e-6 / 4 at δ = 1e-06" in shown


def test_old_comparisons_say_nothing_of_deltas(unlike_ones):
    from simfl.experiments.compare.show import unlike_warnings

    document = json.loads((unlike_ones[1] / "comparison.json").read_text())
    for choice in document["choices"]:
        del choice["against"]
    assert not unlike_warnings(document)


def test_every_epsilon_of_simfls_own_says_its_delta():
    """Where it has one: of pure epsilons it is 0."""
    for registry in (ACCOUNTANTS, STAGES, PROTOCOLS):
        for name, cls in registry.items():
            keys = getattr(cls, "__dataclass_fields__", {})
            columns = () if isinstance(cls.columns, property) else cls.columns  # of a protocol within another
            has = cls.__module__.startswith("simfl.") and any(c.name.startswith("epsilon") for c in columns)
            if has and "delta" in keys:
                given = cls.example | {"delta": 0.01, **({"mechanism": "gaussian"} if "mechanism" in keys else {})}
                assert cls(**given).epsilon_delta == 0.01, name


def test_sentences_group_columns_count_many_configurations_and_say_what_differs():
    x, y = (Column(name, name.upper(), "number", "", -1, observer="them", protects="a") for name in "xy")
    same = {label: promises([x, y]) for label in "ab"} | {"c": promises([x])}
    assert not unlike_sentences(same, {})
    many = {str(i): promises([x._replace(assumes=f"at δ = {0.1 if i else 0.0:g}")]) for i in range(6)}
    assert unlike_sentences(many, {"x": x}) == [
        "X: of 0 at δ = 0; of 5 configurations at δ = 0.1; these cannot be compared"
    ]
    more = {"a": promises([x]), "b": promises([x._replace(assumes="all is well")])}
    assert unlike_sentences(more, {}) == ["x: of a nothing more; of b if all is well; these cannot be compared"]


def test_what_does_not_say_whom_it_is_against_is_never_better():
    mine = unknown("my_epsilon")._replace(better=-1, **UNSAID)
    assert unite_columns([mine, mine])["my_epsilon"].better == 0 and unite_columns([mine])["my_epsilon"].better == -1


def test_who_says_nothing_beside_one_who_says_something_is_told_apart():
    bare = Column("x", "X", "number", "", -1)
    said = bare._replace(observer="them", protects="a", assumes="b")
    for columns in ([bare, said], [said, bare]):
        united = unite_columns(columns)["x"]
        assert (united.observer, united.protects, united.better) == ("them", "a", 0)
    (text,) = unlike_sentences({"a": promises([bare], "x"), "b": promises([said], "x")}, {"x": bare})
    assert text == "X: of a nothing more; of b against them, protects a, if b; these cannot be compared"


def test_two_deltas_of_a_plugins_own_key_are_not_compared():
    mine = unknown("epsilon_mine")._replace(better=-1, observer="them", protects="a")
    both = (mine._replace(assumes=f"at δ = {delta}") for delta in (0.1, 0.2))
    assert unite_columns(both)["epsilon_mine"].better == 0


@pytest.mark.parametrize("space", ["secagg=ideal,secagg", "secagg=ideal,secagg_plus"])
@pytest.mark.parametrize("goal", ["guarantee_semi_strong", "privacy_semi_strong"])
def test_no_search_is_made_over_certificates_that_do_not_say_the_same(tmp_path, space, goal):
    (tmp_path / "noisy.yaml").write_text(TEXT.replace("[central_gaussian]", "[]").replace("[zero_out]", "[]"))
    words = ["search", str(tmp_path / "noisy.yaml"), space, "--maximise", goal, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == 2 and f"{goal}: in the space it is" in done.stderr


def test_an_epsilon_that_says_no_delta_is_compared_with_none():
    """Whoever else it is against: a larger delta makes any epsilon smaller."""
    scenario = simfl.load({**yaml.safe_load(TEXT), "name": "x"})
    mine = unknown("epsilon_mine")._replace(better=-1, observer="them", protects="a")
    (column,) = with_bases(scenario, [mine])
    assert column.assumes.startswith(UNSAID_DELTA)
    assert unite_columns([column, column])["epsilon_mine"].better == 0
    (own,) = with_bases(scenario, [ACCOUNTANTS["zero_out"].columns[0]])
    assert own.assumes.startswith("at δ = 1e-05") and unite_columns([own, own])[own.name].better == -1
