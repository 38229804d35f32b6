"""The JSON Schema for editors: it accepts what simfl accepts, and describes every key."""

import json
from pathlib import Path

import jsonschema
import pytest

from simfl.core.registration.family_index import FAMILIES
from simfl.scenario import Scenario
from simfl.scenario.schema import schema
from simfl.scenario.yaml.reader import read
from tests.support.scenario_samples import GOOD

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "scenarios").glob("*.yaml"))


@pytest.fixture(scope="module")
def made():
    return json.loads(json.dumps(schema()))


def every(value):
    """All mappings inside a schema."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from every(item)


def test_the_keys_of_a_scenario(made):
    assert made["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert list(made["properties"]) == [
        "extends", "name", "seed", "clients", "network", "devices", "world", "selection",
        "training", "learning", "compression", "secagg", "privacy", "attacks", "metrics", "agents", "topology",
        "plugins", "trace",
    ]  # fmt: skip
    assert sorted(made["else"]["required"]) == ["clients", "selection", "training"]
    assert made["additionalProperties"] is False
    assert all(body["description"] and body["title"] == key for key, body in made["properties"].items())


def test_every_reference_leads_somewhere_and_stands_alone(made):
    references = [part for part in every(made) if "$ref" in part]
    assert references
    for part in references:
        assert part["$ref"].removeprefix("#/definitions/") in made["definitions"]
        assert len(part) == 1, "draft 7 ignores what stands beside $ref"


def test_nothing_of_later_drafts_or_of_our_own(made):
    used = {key for part in every(made) for key in part if "type" in part or "anyOf" in part}
    assert not used & {"$defs", "discriminator", "oneOf", "x-family", "prefixItems"}


def test_every_plugin_is_there_with_its_fields_and_their_texts(made):
    for family in ("network", "availability", "selection", "training", "learning", "distribution", "partition"):
        bodies = {
            option["properties"]["name"]["const"]: option
            for option in made["definitions"][family]["anyOf"]
            if "properties" in option
        }
        assert sorted(bodies) == list(FAMILIES[family])
        for name, body in bodies.items():
            if not FAMILIES[family][name].__module__.startswith("simfl."):
                continue  # of another test
            assert body["title"] == f"{family} {name}" and body["description"]
            assert body["properties"]["name"]["description"]
            assert body["additionalProperties"] is False


def test_defaults_of_plugins_name_the_plugin(made):
    for part in every(made):
        default = part.get("default")
        if isinstance(default, dict) and "allOf" in part:
            family = part["allOf"][0]["$ref"].removeprefix("#/definitions/")
            assert family not in FAMILIES or default["name"] in FAMILIES[family]


def test_a_bare_name_is_offered_only_where_it_is_enough(made):
    names = [option["const"] for option in made["definitions"]["availability"]["anyOf"] if "const" in option]
    assert "always" in names and "bernoulli" not in names


WRONG = [
    ("k: 8", "kk: 8"),
    ("k: 8", "k: 0"),
    ("k: 8", "k: x"),
    ("name: random, k: 8", "name: randm, k: 8"),
    ("{name: random, k: 8}", "random"),
    ("clients: 40", "clients: 1000000000000"),
    ("clients: 40", "clients: 40\nname: ../x"),
    ("clients: 40", ""),
    ("dropout: 0.2", "dropout: 1.5"),
    ("learning: none", "learning: none\nrounds: 3"),
]


def test_it_accepts_shipped_scenarios_and_refuses_wrong_ones(made):
    jsonschema.Draft7Validator.check_schema(made)
    validator = jsonschema.Draft7Validator(made)
    for path in SHIPPED:
        assert not list(validator.iter_errors(read(path.read_text(), path.name).value)), path
        assert not list(validator.iter_errors(Scenario.load(path).plain())), path
    assert validator.is_valid(read(GOOD, "x").value)
    for before, after in WRONG:
        assert not validator.is_valid(read(GOOD.replace(before, after), "x").value), after


@pytest.mark.parametrize(("evaluate", "good"), [("5", True), ("{every: 5}", True), ("-1", False), ("true", False)])
def test_a_number_is_short_for_when_to_evaluate(made, evaluate, good):
    learning = f"learning: {{data: digits, model: logistic, evaluate: {evaluate}}}"
    text = GOOD.replace("learning: none", learning)
    assert jsonschema.Draft7Validator(made).is_valid(read(text, "x").value) == good
