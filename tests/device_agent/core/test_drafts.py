"""A draft reads as the records would, changes nothing below until it is merged, and then equals."""

from collections.abc import Mapping, Set
from copy import deepcopy
from typing import get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.device_agent.core.changes import Put, drafted
from fleetledger.device_agent.core.draft import LAYERS, Draft, Groups, Members, Overlay
from fleetledger.device_agent.core.state import AgentRecords
from tests.device_agent import making

KEYS = st.integers(0, 5)
STEPS = st.lists(st.tuples(st.sampled_from(("put", "drop", "clear")), KEYS, st.integers(0, 3)))


def do(target, step) -> None:
    what, key, value = step
    if what == "put":
        target[key] = value
    elif what == "drop":
        target.pop(key, None)
    elif value == 0:
        target.clear()


@given(below=st.dictionaries(KEYS, st.integers(0, 3)), steps=STEPS)
def test_a_mapping_is_what_it_would_be_in_the_same_order(below, steps) -> None:
    plain, kept = dict(below), dict(below)
    overlay = Overlay(below)
    for step in steps:
        do(plain, step)
        do(overlay, step)
        assert dict(overlay) == plain
        assert len(overlay) == len(plain)
        assert all((key in overlay) == (key in plain) for key in range(6))
    assert below == kept
    overlay.merge()
    assert below == plain
    assert sorted(below) == sorted(plain)


def test_what_is_taken_out_and_put_again_comes_last() -> None:
    below = {1: "a", 2: "b", 3: "c"}
    overlay = Overlay(below)
    overlay[3] = "in place"
    del overlay[1]
    overlay[1] = "again"
    assert list(overlay) == [2, 3, 1]
    overlay.merge()
    assert list(below.items()) == [(2, "b"), (3, "in place"), (1, "again")]


@given(below=st.sets(KEYS), steps=STEPS)
def test_a_set_is_what_it_would_be(below, steps) -> None:
    plain, kept = set(below), set(below)
    members = Members(below)
    for what, key, _ in steps:
        if what == "put":
            plain.add(key)
            members.add(key)
        else:
            plain.discard(key)
            members.discard(key)
        assert set(members) == plain
        assert len(members) == len(plain)
    assert below == kept
    members.merge()
    assert below == plain


@given(
    below=st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(0, 3), min_size=1)),
    steps=st.lists(st.tuples(KEYS, st.tuples(st.sampled_from(("put", "drop")), KEYS, KEYS))),
)
def test_groups_are_what_they_would_be_and_none_is_left_empty(below, steps) -> None:
    plain, kept = deepcopy(below), deepcopy(below)
    groups = Groups(below)
    for group, step in steps:
        do(plain.setdefault(group, {}), step)
        do(groups[group], step)
        plain = {key: items for key, items in plain.items() if items}
        assert {key: dict(items) for key, items in groups.items()} == plain
    assert below == kept
    groups.merge()
    assert below == plain


def test_every_record_of_many_values_is_drafted() -> None:
    many = {
        name
        for name, kind in get_type_hints(AgentRecords).items()
        if get_origin(kind) in (Mapping, Set)
    }
    assert many == set(LAYERS)


def test_a_draft_that_is_let_go_has_changed_nothing() -> None:
    records = AgentRecords()
    draft = Draft.of(records)
    draft.answered.add(3)
    draft.counted[making.digest("lineage")]
    draft.next_part = 4
    assert records == AgentRecords()
    draft.merge(records)
    assert records == AgentRecords(answered={3}, next_part=4)


def test_single_values_are_put_by_their_names() -> None:
    records = AgentRecords()
    draft = drafted(records, [Put(next_part=4, silent=2.0), Put(next_part=5)])
    assert records == AgentRecords()
    draft.merge(records)
    assert records == AgentRecords(next_part=5, silent=2.0)
    assert Put(next_part=4) == Put(next_part=4) != Put(next_part=5)


@pytest.mark.parametrize("name", ["next_prat", "answered", "refusals", "merge"])
def test_a_name_of_no_single_value_is_refused_before_anything_is_drafted(name: str) -> None:
    with pytest.raises(TypeError, match=f"records: no single value is named {name}"):
        Put(silent=1.0, **{name: None})
