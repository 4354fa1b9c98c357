"""The settings that the page of rounds shows for asynchronous rounds, and what it says of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.coordinator.topics.rounds.buffers import buffering_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = Path(__file__).parents[2] / "docs" / "rounds.md"


def test_what_the_page_sets_is_fedbuff_and_fedasync() -> None:
    page = PAGE.read_text("utf-8")
    section = page[page.index("## Asynchronous rounds") :].split("\n## ")[0]
    blocks = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    found = [
        CoordinatorSettings.model_validate(
            {"fleet": "demo", "method": {"name": "rounds"}, **tomllib.loads(text)}
        ).rounds.asynchronous
        for text in blocks
    ]
    fedbuff, fedasync = [buffering_of(rules) for rules in found if rules is not None]
    assert (fedbuff.answers, fedbuff.mixes, fedbuff.rate) == (10, False, 1.0)
    assert fedbuff.staleness_weights[3] == 128, "(1 + 3)^-0.5 of 256"
    assert (fedasync.answers, fedasync.mixes, fedasync.rate) == (1, True, 0.6)
