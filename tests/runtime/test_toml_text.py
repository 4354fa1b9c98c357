"""Single values of settings files."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from fleetledger.runtime.toml_text import toml_value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
)


@given(st.one_of(VALUES, st.lists(VALUES, max_size=4)))
def test_what_is_written_is_read_back(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value


def test_a_line_can_go_on_with_a_comment() -> None:
    assert tomllib.loads(f"key = {toml_value('a#b')}  # why") == {"key": "a#b"}
