"""Names on a command line."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.arguments import names_among


def test_names_are_read_in_the_order_in_which_they_are_given() -> None:
    assert names_among(["one", "two"])("two,one") == ["two", "one"]


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'three' is none of one, two"):
        names_among(["one", "two"])("two,three")
