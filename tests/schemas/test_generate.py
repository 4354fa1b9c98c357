"""What the generated pages of the protocol promise."""

import importlib
import json
import pkgutil
import re
from pathlib import Path
from typing import get_args

import pytest

from fleetledger import schemas
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.envelope import decode
from fleetledger.schemas.generate import FOLDER, main, pages, stale, write
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import PresenceMessage
from fleetledger.schemas.topics import DownLeaf, UpLeaf
from tests.schemas.examples import EXAMPLES

COMMITTED = Path(__file__).parents[2] / FOLDER


def messages_of_this_package() -> set[type[Message]]:
    """Return every model with a kind in `schemas`, found by importing all its modules."""
    for module in pkgutil.iter_modules(schemas.__path__):
        importlib.import_module(f"{schemas.__name__}.{module.name}")
    found, waiting = set(), [Message]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if "kind" in vars(model) and model.__module__.startswith(f"{schemas.__name__}."):
            found.add(model)
    return found


def test_the_committed_pages_are_up_to_date() -> None:
    assert stale(COMMITTED) == [], "run `make schemas` and commit docs/protocol"


def test_every_message_of_this_package_is_in_the_catalogue() -> None:
    assert {entry.model for entry in CATALOGUE} == messages_of_this_package()


def test_no_two_messages_have_one_kind() -> None:
    kinds = [entry.kind for entry in CATALOGUE]
    assert len(set(kinds)) == len(kinds)


def test_the_tests_have_an_example_of_every_message() -> None:
    assert {type(body) for body in EXAMPLES} == {entry.model for entry in CATALOGUE}


def test_every_topic_leaf_is_used_by_a_message() -> None:
    branches = {branch for entry in CATALOGUE for branch in entry.branches if "proxy" not in branch}
    used = {branch.partition("/<device>/")[::2] for branch in branches}
    leaves = {("up", leaf) for leaf in get_args(UpLeaf)}
    leaves |= {("down", leaf) for leaf in get_args(DownLeaf)}
    assert used - {("all/state", ""), ("all/blk/<digest>", "")} == leaves


def test_every_schema_refuses_unknown_fields_but_those_of_presence() -> None:
    kinds = {entry.kind for entry in CATALOGUE if issubclass(entry.model, PresenceMessage)}
    for name, text in pages().items():
        if name.endswith(".schema.json"):
            refuses = json.loads(text).get("additionalProperties") is False
            assert refuses is (name.removesuffix(".schema.json") not in kinds), name


def test_the_heartbeat_that_the_page_shows_is_a_real_one() -> None:
    page = pages()["envelope.md"]
    shown = re.search(r"```json\n(.*)\n```", page)
    assert shown
    envelope = decode(shown[1].encode() + b"\n")
    assert envelope.header.kind == "heartbeat"
    assert envelope.message_id in page


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "protocol")
    return tmp_path / "protocol"


def test_writing_twice_changes_nothing(folder: Path) -> None:
    assert stale(folder) == []
    assert write(folder) == []


def test_checking_names_what_is_stale_and_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "receipt.schema.json").write_text("{}")
    (folder / "birth.schema.json").unlink()
    (folder / "gossip.schema.json").write_text("{}")
    assert main(["--check", str(folder)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"stale: {folder / name}.schema.json" for name in ("birth", "gossip", "receipt")
    ]
    assert not (folder / "birth.schema.json").exists()


def test_writing_mends_what_is_stale(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "receipt.schema.json").write_text("{}")
    (folder / "gossip.schema.json").write_text("{}")
    assert main([str(folder)]) == 0
    assert main(["--check", str(folder)]) == 0
    assert not (folder / "gossip.schema.json").exists()
    assert "written" in capsys.readouterr().out
