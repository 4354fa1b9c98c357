"""The ledger's page: whether it is intact, what was written, and how one entry is proved."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.transport.pages.people import Role
from tests.coordinator.dashboard.asked import told
from tests.coordinator.dashboard.served import a_fleet, browser, settled
from tests.coordinator.dashboard.test_links import every_kind


def test_an_empty_ledger_says_so(tmp_path: Path) -> None:
    Ledger.open(ledger_path(tmp_path)).close()
    page = told(browser(settled(tmp_path)), "/ledger")
    assert page["title"] == "The ledger is empty: nothing has happened yet."
    assert page["entries"] == []


def test_entries_are_newest_first_and_go_on_below_the_last(tmp_path: Path) -> None:
    client = browser(every_kind(tmp_path))
    seen, path = [], "/ledger"
    while path:
        page = told(client, path)
        seen += [line["index"] for line in page["entries"]]
        path = f"/ledger?before={page['older']}" if page["older"] is not None else ""
    assert seen == list(range(page["size"]))[::-1]


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ("about=trust&q=release.signed", {"release.signed"}),
        ("about=stages&q=stage.closed", {"stage.closed"}),
        ("q=device.admitted", {"device.admitted"}),
        ("about=models&q=contribution.accepted", set()),
    ],
)
def test_entries_are_found_by_what_they_are_about_and_by_a_word(
    tmp_path: Path, asked: str, kinds: set[str]
) -> None:
    page = told(browser(every_kind(tmp_path)), f"/ledger?{asked}")
    assert {line["kind"] for line in page["entries"]} == kinds


def test_problems_are_what_a_person_looks_at(tmp_path: Path) -> None:
    page = told(browser(every_kind(tmp_path)), "/ledger?about=problems")
    kinds = {line["kind"] for line in page["entries"]}
    assert {"device.problem", "device.doubled", "model.failed", "round.failed"} <= kinds
    assert not {"device.born", "stage.opened"} & kinds
    states = [e["what"] for e in page["entries"] if e["kind"] == "device.model_status"]
    assert not [sentence for sentence in states if "is active" in sentence]


def test_every_entry_is_proved_from_its_leaf_to_the_signed_root(tmp_path: Path) -> None:
    client = browser(a_fleet(tmp_path))
    for index in range(told(client, "/ledger")["size"]):
        one = told(client, f"/ledger?entry={index}")["entry"]
        stands = bytes.fromhex(one["entry"]["leaf"])
        for step in one["steps"]:
            given = bytes.fromhex(step["given"])
            pair = given + stands if step["side"] == "left" else stands + given
            stands = sha256(b"\x01" + pair).digest()
            assert stands.hex() == step["result"]
        assert stands.hex() == one["root"]
        assert one["holds"]


@pytest.mark.parametrize("index", ["999999", "-1", "x", "1" * 30, "\u0663"])
def test_an_entry_that_is_not_there_is_told_so(tmp_path: Path, index: str) -> None:
    answer = browser(a_fleet(tmp_path)).get("/ledger", params={"entry": index})
    assert answer.status_code == 404
    assert "it holds 0 to" in answer.text


def test_a_viewer_verifies_the_ledger_and_the_title_says_what_came_of_it(tmp_path: Path) -> None:
    client = browser(every_kind(tmp_path), role=Role.VIEWER)
    assert "verify it" in told(client, "/ledger")["title"]
    begun = client.post("/ledger/verify", headers={"sec-fetch-site": "same-origin"})
    assert (begun.status_code, begun.headers["location"]) == (303, "/ledger#verify")
    client.app.state.verification.wait()  # type: ignore[attr-defined]
    page = told(client, "/ledger")
    last = page["size"] - 1
    assert page["title"] == f"The ledger fits: entries 0 to {last} are as they were written."
    assert page["verification"]["state"] == "fits"


def test_a_changed_entry_is_named_in_the_title(tmp_path: Path) -> None:
    home = a_fleet(tmp_path)
    with closing(sqlite3.connect(ledger_path(home))) as db, db:
        db.execute("DROP TRIGGER entry_update_guard")
        db.execute("UPDATE entry SET time_ns = time_ns + 1 WHERE idx = 3")
    client = browser(home)
    client.post("/ledger/verify", headers={"sec-fetch-site": "same-origin"})
    client.app.state.verification.wait()  # type: ignore[attr-defined]
    page = told(client, "/ledger?before=3")
    assert page["title"].startswith("The ledger does not fit: entry 3")
    assert page["verification"]["report"]["mismatch_index"] == 3


def test_another_page_on_the_web_cannot_begin_a_verification(tmp_path: Path) -> None:
    client = browser(a_fleet(tmp_path))
    answer = client.post("/ledger/verify", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert told(client, "/ledger")["verification"] is None
