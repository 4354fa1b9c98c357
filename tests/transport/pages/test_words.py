"""Words of pages: ages, and code in sentences."""

from __future__ import annotations

import pytest

from fleetledger.transport.pages.words import ago, coded

DAY_NS = 86_400 * 10**9
NOW_NS = 1_800_000_000 * 10**9


def test_what_was_long_ago_has_a_date() -> None:
    assert ago(NOW_NS - 27 * DAY_NS, NOW_NS) == "27 days ago"
    assert ago(NOW_NS - 28 * DAY_NS, NOW_NS) == "on 18 December 2026"
    assert ago(None, NOW_NS) == "–"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Run `a <b>` now.", 'Run <code class="said">a &lt;b&gt;</code> now.'),
        ("one ` alone & more", "one ` alone &amp; more"),
        ("`a` and ` alone", '<code class="said">a</code> and ` alone'),
        ("\u202eturned", "\\u202eturned"),
    ],
)
def test_what_stands_in_backticks_is_code_and_all_is_escaped(text: str, html: str) -> None:
    assert coded(text) == html
