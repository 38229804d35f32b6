"""The scenario itself: defaults, digest, data files, cross checks, and reading back what was written."""

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from simfl.core.errors import ScenarioError
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.protocol import plain
from simfl.core.registration.registry import Registry
from simfl.core.storage.data_folder import DataFolder, DataPath
from simfl.network.base import NETWORKS
from simfl.scenario import InvalidScenario, Scenario, data_files
from simfl.scenario.fields import keys_of
from simfl.scenario.resolution import check_all, resolve
from tests.support.scenario_samples import GOOD

HOME = Path(__file__).resolve().parents[2]
SMALLEST = "clients: 3\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 1}\n"
SHIPPED = sorted((HOME / "scenarios").glob("*.yaml"))


def test_three_keys_are_enough():
    found = Scenario.parse(SMALLEST).plain()
    assert found["name"] == "scenario" and found["seed"] == 0 and found["trace"] == "rounds"
    assert found["network"]["name"] == "star" and found["secagg"] == {"name": "ideal"}
    assert found["devices"]["availability"] == {"name": "always"} and found["devices"]["failure"] == {"name": "none"}
    learning = found["learning"]
    assert [learning["data"]["name"], learning["partition"]["name"], learning["model"]["name"]] == [
        "digits",
        "iid",
        "mlp",
    ]


@pytest.mark.parametrize(
    ("file", "name"), [("a-b_1.yaml", "a-b_1"), ("my run (2).yaml", "my_run__2_"), (".x.yaml", "x")]
)
def test_the_name_is_the_files_unless_given(tmp_path, file, name):
    (tmp_path / file).write_text(SMALLEST)
    assert Scenario.load(tmp_path / file).name == name
    assert Scenario.load(tmp_path / file, ["name=other"]).name == "other"


@pytest.mark.parametrize(
    "name", ["..", ".", "../x", "/x", "a/b", "-x", "", ".hidden", "a\\b", "a b", "é", "x\n", "a" * 101, "C:x", "~"]
)
def test_no_name_leads_out_of_the_results(name):
    with pytest.raises(InvalidScenario, match="name: "):
        Scenario.parse(SMALLEST + f"name: {name!r}")


def test_a_scenario_is_frozen_equal_by_content_and_can_be_sent_to_workers():
    scenario = Scenario.parse(GOOD, "x")
    with pytest.raises(FrozenInstanceError):
        scenario.seed = 3
    assert scenario == Scenario.parse(GOOD, "x") != Scenario.parse(GOOD, "x", ["seed=1"])
    again = pickle.loads(pickle.dumps(scenario))  # noqa: S301
    assert again == scenario and again.digest == scenario.digest and again.source == scenario.source
    assert replace(scenario, seed=5).source == scenario.source


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_survive_being_written(path, tmp_path):
    scenario = Scenario.load(path)
    (tmp_path / "scenario.yaml").write_text(scenario.to_yaml(tmp_path))
    again = Scenario.load(tmp_path / "scenario.yaml")
    assert again.plain() == scenario.plain(tmp_path) and again.digest == scenario.digest


def test_there_are_scenarios_to_test():
    assert len(SHIPPED) >= 2


# -- digest ----------------------------------------------------------------------------------------


def test_the_digest_is_that_of_the_resolved_scenario():
    scenario = Scenario.parse(GOOD, "x")
    assert scenario.digest == Scenario.parse("# a comment\n" + scenario.to_yaml(), "x").digest
    assert len(scenario.digest) == 12 and int(scenario.digest, 16) >= 0
    others = {Scenario.parse(GOOD, "x", [change]).digest for change in ("seed=1", "name=y", "training.rounds=61")}
    assert len(others | {scenario.digest}) == 4
    assert Scenario.parse(GOOD, "x", ["training.learning_rate=1"]).digest == (
        Scenario.parse(GOOD, "x", ["training.learning_rate=1.0"]).digest
    )


def test_the_digest_does_not_depend_on_the_process():
    code = f"from simfl.scenario import Scenario; print(Scenario.parse({GOOD!r}, 'x').digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(HOME)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert found == {Scenario.parse(GOOD, "x").digest}


# -- data files --------------------------------------------------------------------------------------


@pytest.fixture
def file_network():
    """A network that names a file, a folder and a list of files; gone again after the test."""

    @NETWORKS("of_files")
    @dataclass(frozen=True)
    class OfFiles:
        """For these tests."""

        path: DataPath
        root: Annotated[DataFolder | None, Field(description="where")] = None
        more: tuple[DataPath, ...] = ()

        def build(self, setting, streams):
            raise NotImplementedError

    yield OfFiles
    del NETWORKS._plugins["of_files"]


WITH_FILES = SMALLEST + "network: {name: of_files, path: data/a.csv, root: data, more: [data/a.csv]}\n"


def test_data_files_are_found_from_the_scenarios_folder_also_after_it_moved(file_network, tmp_path):
    (tmp_path / "here" / "data").mkdir(parents=True)
    (tmp_path / "here" / "data" / "a.csv").write_text("1")
    (tmp_path / "here" / "s.yaml").write_text(WITH_FILES)
    scenario = Scenario.load(tmp_path / "here" / "s.yaml")
    assert scenario.file("data/a.csv").read_text() == "1"
    assert scenario.network.path == "data/a.csv", "the scenario keeps what the user wrote"

    results = tmp_path / "results" / "s" / scenario.digest
    results.mkdir(parents=True)
    (results / "scenario.yaml").write_text(scenario.to_yaml(results))
    again = Scenario.load(results / "scenario.yaml")
    assert again.network.path == "../../../here/data/a.csv" == again.network.more[0]
    assert again.network.root == "../../../here/data"
    assert again.file(again.network.path).read_text() == "1"
    assert again.digest == scenario.digest, "the same data are the same scenario"


def test_the_digest_is_of_the_files_content(file_network, tmp_path):
    def digest(content, folder):
        (tmp_path / folder / "data").mkdir(parents=True)
        (tmp_path / folder / "data" / "a.csv").write_text(content)
        (tmp_path / folder / "s.yaml").write_text(WITH_FILES)
        return Scenario.load(tmp_path / folder / "s.yaml").digest

    assert digest("1", "a") == digest("1", "b") != digest("2", "c")


def test_data_files_may_lie_anywhere_or_in_the_data_folder(file_network, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere.csv").write_text("7")
    text = SMALLEST + f"network: {{name: of_files, path: {tmp_path / 'elsewhere.csv'}}}"
    scenario = Scenario.parse(text, folder=tmp_path / "data")
    assert scenario.file(scenario.network.path).read_text() == "7"
    assert scenario.plain(Path("/"))["network"]["path"] == str(tmp_path / "elsewhere.csv")

    monkeypatch.setenv("SIMFL_DATA", str(tmp_path))
    scenario = Scenario.parse(SMALLEST + "network: {name: of_files, path: elsewhere.csv}", folder=tmp_path / "data")
    assert scenario.file("elsewhere.csv") == tmp_path / "elsewhere.csv"
    assert scenario.plain(Path("/"))["network"]["path"] == "elsewhere.csv", "it is found there from everywhere"


@pytest.mark.parametrize("path", ["nowhere.csv", ".", "/dev/zero", "x" * 3000])
def test_a_data_file_that_is_none_is_located(file_network, tmp_path, path):
    with pytest.raises(InvalidScenario, match=r"scenario:4:33: network.path: .* is no file beside the scenario"):
        Scenario.parse(SMALLEST + f"network: {{name: of_files, path: {path}}}", folder=tmp_path)


def test_an_error_of_the_build_is_located_too():
    scenario = Scenario.parse(GOOD, "s.yaml", ["training.rounds=3"])
    error = scenario.locate(ScenarioError("devices.availability.dropout", "is broken"))
    assert str(error) == "s.yaml:4:44: devices.availability.dropout: is broken"
    assert (
        str(scenario.locate(ScenarioError("training.rounds", "no")))
        == "override training.rounds=3: training.rounds: no"
    )
    assert str(scenario.locate(ScenarioError("elsewhere.0", "no"))).startswith("s.yaml:1:1: elsewhere.0: no")


def test_every_field_that_names_a_file_says_so():
    for family in FAMILIES.values():
        for name, cls in family.items():
            for key in keys_of(Annotated[Any, family], name):
                if key in ("path", "file", "root", "folder") or key.endswith(("_path", "_file")):
                    assert key in data_files.path_fields(cls), (
                        f"{family.family} {name}.{key} is no DataPath or DataFolder"
                    )


# -- automatic fields and cross checks -----------------------------------------------------------------


PARTS = Registry("part of a test")
del FAMILIES["part of a test"]


@PARTS("inner")
@dataclass(frozen=True)
class Inner:
    size: int | None = None

    def resolve(self, scenario):
        return replace(self, size=scenario.total) if self.size is None else self

    def check(self, scenario):
        return [("size", f"is {self.size}")] if self.size > 5 else []


@PARTS("outer")
@dataclass(frozen=True)
class Outer:
    parts: tuple[Inner, ...]
    most: int = 0

    def resolve(self, scenario):
        return replace(self, most=max(part.size for part in self.parts))

    def check(self, scenario):
        return [("", f"most is {self.most}"), ("parts.0.size", "odd")] if self.most > 5 else []


@dataclass(frozen=True)
class Top:
    total: int
    first: Any
    second: Any = None


def test_plugins_are_resolved_from_the_inside_and_see_what_came_before():
    top, problems = resolve(Top(4, Outer((Inner(2), Inner()))))
    assert not problems and top == Top(4, Outer((Inner(2), Inner(4)), 4))
    assert check_all(top) == []


def test_problems_of_checks_have_full_paths():
    top, _ = resolve(Top(9, Outer((Inner(), Inner(1)))))
    assert check_all(top) == [
        (("first", "parts", 0, "size"), "is 9"),
        (("first",), "most is 9"),
        (("first", "parts", 0, "size"), "odd"),
    ]


def test_a_resolve_that_fails_is_a_problem():
    @PARTS("fails")
    @dataclass(frozen=True)
    class Fails:
        def resolve(self, setting):
            raise ScenarioError("x", "cannot be")

    assert resolve(Top(1, Fails()))[1] == [(("first", "x"), "cannot be")]


# -- registry ------------------------------------------------------------------------------------------


@pytest.fixture
def shapes():
    registry = Registry("shape of a test", number=("circle", "radius"), default="square")

    @registry("circle")
    @dataclass(frozen=True)
    class Circle:
        """Round.

        Very round.
        """

        radius: Annotated[float, Field(ge=0)]

    @registry("square")
    @dataclass(frozen=True)
    class Square:
        side: float = 1.0
        at: tuple[float, ...] = ()

    yield registry
    del FAMILIES["shape of a test"]


def test_a_plugin_is_chosen_by_name_number_or_default(shapes):
    assert plain(shapes.of("square")) == {"name": "square", "side": 1.0, "at": []}
    assert plain(shapes.of(2)) == {"name": "circle", "radius": 2.0}
    assert plain(shapes.of({"side": 3, "at": [1, 2]})) == {"name": "square", "side": 3.0, "at": [1.0, 2.0]}
    assert shapes.of(shapes["square"](2.0)) == shapes["square"](2.0)
    for wrong in ("oval", "circle", True, None, [], {"name": ["circle"]}, {"name": None}, {"radius": 1}, -1):
        with pytest.raises(ValidationError):
            shapes.of(wrong)


def test_a_plugin_registered_late_is_known_at_once(shapes):
    shapes.of("square")

    @shapes("dot")
    @dataclass(frozen=True)
    class Dot:
        pass

    assert shapes.of("dot") == Dot()


def test_a_registry_refuses_what_cannot_be_chosen(shapes):
    with pytest.raises(ValueError, match="registered already, by .*test_scenario.py"):
        shapes("circle")(shapes["circle"])
    with pytest.raises(TypeError, match="must be a dataclass"):
        shapes("line")(object)
    with pytest.raises(TypeError, match="that key chooses the plugin"):

        @shapes("named")
        @dataclass(frozen=True)
        class Named:
            name: str
