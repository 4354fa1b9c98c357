"""The settings that the page of rounds shows for robust rounds."""

from __future__ import annotations

import re

from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.methods.training.robust import Robust
from tests.docs.test_asynchronous_rounds import PAGE, tomllib


def test_what_the_page_sets_is_a_bounded_trimmed_mean() -> None:
    section = PAGE.read_text("utf-8").split("## Answers that may be anybody's")[1]
    (block,) = re.findall(r"```toml\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    given = {"fleet": "demo", "method": {"name": "rounds"}, **tomllib.loads(block)}
    found = CoordinatorSettings.model_validate(given).rounds.robust
    assert found == Robust(mean="trimmed", trim=0.25, max_norm=3.0)
