"""Commands in texts name the home that the program was given, and only where they need one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.runtime.shown_commands import ON_DEVICES, command_at, commands_at

HOME = Path("/srv/my fleet")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("fleetledger model push 3", "fleetledger model push 3 --home '/srv/my fleet'"),
        (
            "fleetledger ledger prove 3 > p.json",
            "fleetledger ledger prove 3 --home '/srv/my fleet' > p.json",
        ),
        ("fleetledger model push 3 --home here", None),
        ("fleetledger trust --help", None),
        ("fleetledger trust sign FILE --key FILE", None),
        ("fleetledger agent doctor", None),
        ("fleetledger simulate digits", None),
        ("pip install fleetledger", None),
    ],
)
def test_a_command_of_the_operator_finds_the_coordinators_home(line, shown) -> None:
    assert command_at(line, HOME) == (shown or line)
    assert command_at(line, Path("coordinator-home")) == line


def test_every_command_of_a_text_finds_it() -> None:
    text = "`fleetledger class list` has them; `agent status`, or `fleetledger agent status`"
    assert commands_at(text, HOME) == text.replace("list`", "list --home '/srv/my fleet'`")
    assert commands_at(text, HOME, ON_DEVICES).endswith("agent status --home '/srv/my fleet'`")
