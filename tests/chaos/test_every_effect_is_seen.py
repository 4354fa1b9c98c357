"""The programs change files only in ways that the model of the disk sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.disk import EFFECTS

ROOT = Path(__file__).parents[2]
ROOMS = ("coordinator", "device_agent", "transport")
LEFT_OUT = (
    "transport/brokers/",
    "coordinator/proxy/",
    "coordinator/dashboard/",
    "coordinator/bundles/",
    "coordinator/cli/bundles.py",
    "coordinator/provisioning/",
    "device_agent/models/execution/provider_probe.py",
)
"""A broker's own files, which it may lose; a proxy's and the pages', what a person makes before
there is a fleet, and makes anew, and a temporary folder of the process that tries a provider: no
troubled fleet has them.
"""
BY_MODULE = {
    "os": {
        "link",
        "makedirs",
        "mkdir",
        "remove",
        "rename",
        "replace",
        "rmdir",
        "symlink",
        "unlink",
    },
    "shutil": {"copy", "copyfile", "copytree", "move", "rmtree"},
    "tempfile": {"NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile", "mkdtemp", "mkstemp"},
}
BY_METHOD = {"touch"}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def is_unseen(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "open"
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = ast.unparse(call.func.value)
    # `classes.rename` renames a class of images.
    renames = call.func.attr == "rename" and not owner.endswith("classes")
    return renames or call.func.attr in BY_METHOD | BY_MODULE.get(owner, set())


def test_the_programs_change_files_only_in_ways_that_are_crash_points() -> None:
    files = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    unseen = [
        place
        for path in files
        for place, call in calls(path)
        if is_unseen(call) and not place.startswith(LEFT_OUT)
    ]
    assert not unseen, "let tests/chaos/disk.py see these, or use pathlib's replace and unlink"


def test_what_is_seen_is_what_the_programs_use() -> None:
    texts = [path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    for _, name, _ in EFFECTS:
        assert any(f".{name}(" in text for text in texts), f"nobody uses {name} any more"
