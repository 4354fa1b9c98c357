"""Commands that people are shown, each with the `--home` that this program was given.

Rules and sentences name a command in backticks and know no home: `fleetledger model list`. Where a
text leaves the program, for a terminal, a log or a page, `with_homes` adds it.
"""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote

PROGRAM = "fleetledger"
ON_DEVICES = frozenset({"agent"})
"""Verbs whose home is the agent's."""
OF_OPERATORS = frozenset(
    {"coordinator", "device", "class", "model", "rollout", "trust", "ledger", "dashboard"}
)
"""Verbs whose home is the coordinator's."""
ELSEWHERE = frozenset(
    {"coordinator proxy", "coordinator proxy-init", "ledger audit", "trust sign", "agent install"}
)
"""Commands of these verbs that run with another home, or with none."""
_DEFAULTS = frozenset({Path("agent-home"), Path("coordinator-home")})
_IN_TEXT = re.compile(rf"`({PROGRAM} [^`\n]+)`")

_given: dict[frozenset[str], Path] = {}


def remember_home(verbs: frozenset[str], home: Path) -> Path:
    """Have commands of `verbs` that this process shows name `home` from here on; return it."""
    _given[verbs] = home
    return home


def command_at(line: str, home: Path, verbs: frozenset[str] = OF_OPERATORS) -> str:
    """Return a command line that finds `home`; one that needs none, or has one, stays."""
    typed, redirection, file = line.partition(" > ")
    words = typed.split()
    named = " ".join(words[1:3])
    stays = home in _DEFAULTS or "--home" in words or "--help" in words
    if words[:1] != [PROGRAM] or len(words) < 3 or words[1] not in verbs:
        return line
    if stays or named in ELSEWHERE:
        return line
    return f"{typed} --home {quote(str(home))}{redirection}{file}"


def commands_at(text: str, home: Path, verbs: frozenset[str] = OF_OPERATORS) -> str:
    """Return a text in which every command in backticks finds `home`."""
    return _IN_TEXT.sub(lambda found: f"`{command_at(found[1], home, verbs)}`", text)


def with_homes(text: str) -> str:
    """Return a text whose commands find the homes that this process was given."""
    for verbs, home in _given.items():
        text = commands_at(text, home, verbs)
    return text
