"""What a stack may take: what the settings say, or a share of what is free, which is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fleetledger.learning.training import memory
from fleetledger.learning.training.free_memory import free_bytes
from fleetledger.learning.training.memory import agents_per_stack, stack_bytes
from fleetledger.learning.training.settings import TrainingEngineSettings
from tests.learning.training.agents import make_works

pytestmark = pytest.mark.torch

MIB = 1 << 20


def written(root: Path, **files: str) -> Path:
    """A machine whose files say this; two underscores are a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


MEMINFO = "MemTotal:       24683920 kB\nMemFree:  16750000 kB\nMemAvailable:   20480 kB\n"


def test_a_host_tells_what_is_available(tmp_path: Path) -> None:
    assert free_bytes("cpu", written(tmp_path, proc__meminfo=MEMINFO)) == 20 * MIB
    assert free_bytes("cpu") > 0


@pytest.mark.parametrize(
    ("limit", "free"),
    [("max\n", 20 * MIB), (str(10 * MIB), 7 * MIB), (str(4 * MIB), MIB), ("1", 0)],
)
def test_a_container_has_what_its_limit_leaves_with_files_that_may_go(
    tmp_path: Path, limit: str, free: int
) -> None:
    root = written(
        tmp_path,
        proc__meminfo=MEMINFO,
        sys__fs__cgroup__memory_max=limit,
        sys__fs__cgroup__memory_current=f"{5 * MIB}\n",
        sys__fs__cgroup__memory_stat=f"anon 3\ninactive_file {2 * MIB}\nactive_file 9\n",
    )
    assert free_bytes("cpu", root) == free


def test_a_machine_that_tells_nothing_is_taken_to_have_some(tmp_path: Path) -> None:
    assert free_bytes("cpu", tmp_path) == 4 << 30
    assert free_bytes("cpu", written(tmp_path, proc__meminfo="MemAvailable: much\n")) == 4 << 30


def test_a_card_tells_what_is_free_and_torch_what_it_holds_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: dict[str, Any] = {
        "mem_get_info": (60 * MIB, 80 * MIB),
        "memory_reserved": 15 * MIB,
        "memory_allocated": 5 * MIB,
    }
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for name, value in told.items():
        monkeypatch.setattr(torch.cuda, name, lambda place, value=value: value)
    assert free_bytes("cuda") == 70 * MIB
    assert stack_bytes(TrainingEngineSettings(device="cuda")) == 35 * MIB


def test_what_the_settings_say_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 80 * MIB)
    assert stack_bytes(TrainingEngineSettings()) == 10 * MIB
    assert stack_bytes(TrainingEngineSettings(stack_bytes=3)) == 3


def test_more_free_memory_takes_more_agents_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    works, found = make_works((64, 8)), []
    for mebibytes in (4, 40):
        monkeypatch.setattr(memory, "free_bytes", lambda device, now=mebibytes: now * MIB)
        found.append(agents_per_stack(works, TrainingEngineSettings()))
    assert 1 < found[0] < found[1]
