"""A name is a class that is there, or a new one that nobody takes for another."""

import pytest

from fleetledger.device_agent.errors import LabelError
from fleetledger.device_agent.models.inbox.meant_class import class_meant
from fleetledger.schemas.values import ClassName

KNOWN = frozenset({ClassName("apple"), ClassName("café"), ClassName("Pear"), ClassName("pear")})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("apple", "apple"),
        (" apple ", "apple"),
        ("cafe\u0301", "café"),
        ("Pear", "Pear"),
        ("quince", "quince"),
        ("eau de parfum", "eau de parfum"),
    ],
)
def test_a_class_is_the_one_that_is_there_or_a_new_one(text: str, meant: str) -> None:
    assert class_meant(text, KNOWN) == meant


@pytest.mark.parametrize(
    "text", ["", "  ", ".hidden", "../apple", "a/b", "a\\b", "x" * 101, "é" * 128, "a\x00b", "a\nb"]
)
def test_what_is_no_folder_is_refused(text: str) -> None:
    with pytest.raises(LabelError):
        class_meant(text, KNOWN)


@pytest.mark.parametrize("text", ["Apple", "APPLE", "PEAR", "\u0430pple", "app1e"])
def test_what_looks_like_a_class_that_is_there_is_refused_and_that_one_named(text: str) -> None:
    with pytest.raises(LabelError, match=r"which is there|one script"):
        class_meant(text, KNOWN)


@pytest.mark.parametrize("text", ["zero\u200bwidth", "two  spaces", "p\u0430ir"])
def test_what_a_fleet_would_refuse_is_refused_here(text: str) -> None:
    with pytest.raises(LabelError):
        class_meant(text, KNOWN)
