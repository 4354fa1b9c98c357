"""Files that others read appear whole or not at all, and every room writes them so."""

import os
import re
from pathlib import Path

import pytest

from fleetledger.runtime.whole_file import write_whole

ROOMS = ("coordinator", "device_agent", "export", "transport", "runtime", "schemas")
IN_PLACE = re.compile(r"\.write_(text|bytes)\(|open\(.*['\"][wx]\+?b?['\"]")
ALLOWED = {
    "coordinator/bundles/debian.py": "a scratch tree of which a package is made",
    "coordinator/bundles/bundle_maker.py": "beside its place, then renamed",
    "coordinator/ledger/folder_store.py": "beside its place, or read by its own process",
    "coordinator/ledger/fsspec_store.py": "an object store shows whole objects alone",
    "coordinator/ledger/verify_progress.py": "its own notes, line by line, checked when read",
    "device_agent/home/part_secret.py": "beside its place, then linked",
    "device_agent/models/comparison/live.py": "beside its place, then renamed",
    "device_agent/home/health/textfile.py": "beside its place, then renamed; no wait for the disk",
    "device_agent/home/home.py": "beside its place, looked over, then renamed",
    "device_agent/models/inbox/inbox.py": "beside its place, then renamed",
    "device_agent/home/status_file.py": "beside its place, then renamed; no wait for the disk",
    "device_agent/home/store/blobs.py": "beside its place, then renamed",
    "device_agent/models/trial/trial.py": "in memory",
    "export/judging_child.py": "a pipe to its parent",
    "runtime/bundle_installer.py": "a scratch folder of its own",
    "runtime/child_limits.py": "a file of the kernel",
    "schemas/generate.py": "schemas in a checkout, for people",
    "runtime/whole_file.py": "what this is about",
    "transport/part_file.py": "a part file, which becomes a blob by its new name",
    "transport/pages/grants.py": "beside its place, then renamed",
}


def test_nothing_else_writes_in_place() -> None:
    root = Path(__file__).parents[2]
    found = {
        str(path.relative_to(root))
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        if IN_PLACE.search(path.read_text(encoding="utf-8"))
    }
    assert found - ALLOWED.keys() == set(), "use fleetledger.runtime.whole_file.write_whole"
    assert ALLOWED.keys() - found == set(), "not needed any more"


def test_a_file_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "coordinator.pub"
    write_whole(path, "first\n")
    seen = []
    replace = Path.replace

    def watched(beside: Path, target: Path) -> Path:
        seen.append((target.read_bytes(), beside.read_bytes()))
        return replace(beside, target)

    monkeypatch.setattr(Path, "replace", watched)
    write_whole(path, b"second\n")
    assert seen == [(b"first\n", b"second\n")]
    assert [item.name for item in tmp_path.iterdir()] == ["coordinator.pub"]


def test_what_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    write_whole(path, b"good", 0o600)
    assert path.stat().st_mode & 0o777 == 0o600

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        write_whole(path, b"bad")
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"good"
    assert [item.name for item in tmp_path.iterdir()] == ["key"]
