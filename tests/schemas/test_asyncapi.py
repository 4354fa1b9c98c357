"""The AsyncAPI document names every message, every topic, and nothing that is not there."""

import json
from typing import Any

import pytest

from fleetledger.schemas import asyncapi, generate
from fleetledger.schemas.catalogue import CATALOGUE, CatalogueEntry
from fleetledger.schemas.topics import DOWN_LEAVES, UP_LEAVES

DOCUMENT: dict[str, Any] = json.loads(asyncapi.document())
EVERY = [(entry, branch) for entry in CATALOGUE for branch in entry.branches]


def refs(value: Any) -> list[str]:
    """Every reference in a document."""
    if isinstance(value, list):
        return [found for item in value for found in refs(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if "$ref" in value else []
    return own + [found for item in value.values() for found in refs(item)]


def resolved(ref: str) -> Any:
    found: Any = DOCUMENT
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    return found


def operations_of(entry: CatalogueEntry, branch: str) -> list[dict[str, Any]]:
    address = branch.replace("<device>", "{device}").replace("<digest>", "{digest}")
    return [
        operation
        for operation in DOCUMENT["operations"].values()
        if resolved(operation["channel"]["$ref"])["address"].endswith(f"}}/{address}")
        and resolved(operation["messages"][0]["$ref"])
        == {"$ref": f"#/components/messages/{entry.kind}"}
    ]


@pytest.mark.parametrize(("entry", "branch"), EVERY, ids=str)
def test_every_message_has_one_operation_on_each_of_its_topics(
    entry: CatalogueEntry, branch: str
) -> None:
    (operation,) = operations_of(entry, branch)
    upwards = branch.split("/", maxsplit=1)[0] == "up" or branch.startswith("proxy/up")
    assert operation["action"] == ("send" if upwards else "receive")
    assert operation["bindings"]["mqtt"]["retain"] == entry.retained
    unconfirmed = branch.removesuffix("/<digest>").rpartition("/")[2] in {"hb", "req", "blk"}
    assert operation["bindings"]["mqtt"]["qos"] == (0 if unconfirmed else 1)


def test_no_operation_is_left_over() -> None:
    assert len(DOCUMENT["operations"]) == len(EVERY)
    assert {item["tags"][0]["name"] for item in DOCUMENT["operations"].values()} == {
        "device",
        "proxy",
    }


def test_every_reference_leads_somewhere() -> None:
    found = refs(DOCUMENT)
    assert found
    files = generate.pages()
    for ref in found:
        if ref.startswith("#/"):
            assert resolved(ref)
        else:
            assert ref.removeprefix("./") in files


def test_every_leaf_of_the_topics_is_spoken_on() -> None:
    leaves = {branch.removesuffix("/<digest>").rpartition("/")[2] for _, branch in EVERY}
    assert leaves == {*UP_LEAVES, *DOWN_LEAVES, "state"}


def test_an_address_has_a_parameter_for_each_of_its_names() -> None:
    for channel in DOCUMENT["channels"].values():
        names = {part[1:-1] for part in channel["address"].split("/") if part.startswith("{")}
        assert names == set(channel["parameters"])


def test_attachments_are_told() -> None:
    messages = DOCUMENT["components"]["messages"]
    told = {kind for kind, message in messages.items() if "description" in message}
    assert told == {entry.kind for entry in CATALOGUE if entry.attachment}
