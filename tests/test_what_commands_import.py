"""Everyday commands answer at once: each imports what its answer needs, counted in modules."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleetledger.device_agent.home.home import AgentHome, NewHome, write_home
from fleetledger.device_agent.home.status_file import write_status
from fleetledger.schemas.values import DeviceId, FleetId
from tests.coordinator.every_kind.facts import unpack
from tests.device_agent.cli.test_doctor_and_status import status_of

ROOT = Path(__file__).parents[1]
PROGRAM = (
    "import sys\nfrom fleetledger import command_line\n"
    "sys.argv = ['fleetledger', *sys.argv[1:]]\n"
    "code = 0\n"
    "try: command_line.main()\n"
    "except SystemExit as end: code = end.code\n"
    "print('IMPORTED', code, *sys.modules)\n"
)
HEAVY = frozenset(
    {"torch", "onnx", "onnxruntime", "numpy", "PIL", "paho", "sqlite_utils", "safetensors"}
    | {"cryptography", "ssl", "asyncio", "psutil", "zstandard", "starlette", "jinja2", "fsspec"}
)


@dataclass(frozen=True)
class Case:
    """A command, where it looks, and what its answer may cost."""

    arguments: tuple[str, ...]
    code: int
    modules: int
    """Most modules of this project; a change that needs more says why."""
    home: str = ""
    heavy: frozenset[str] = field(default_factory=frozenset)
    """Heavy packages that it cannot do without."""


CASES = (
    Case(("--help",), 0, 1),
    Case(("agent", "status"), 0, 40, "agent"),
    Case(("agent", "--help"), 0, 40),
    Case(("coordinator", "status"), 3, 215, "coordinator"),
)


def test_what_a_device_can_learn_is_known_without_numpy() -> None:
    asking = (
        "import sys\nfrom fleetledger.methods.registry import METHODS, can_learn\n"
        "from fleetledger.schemas.presence import Capabilities\n"
        "said = dict(agent_version='1', python='3', machine='x', features=(), memory_mib=1)\n"
        "able = Capabilities(**said)\n"
        "print(*(can_learn(able, name) for name in METHODS), 'numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", asking],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    *able, imported = done.stdout.split()
    assert len(able) > 5
    assert imported == "False"


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a home for each verb with a status."""
    folder = tmp_path_factory.mktemp("homes")
    agent = folder / "agent"
    write_home(agent, NewHome(DeviceId("camera-1"), FleetId("home")))
    opened = AgentHome.open(agent)
    now = {"process": os.getpid(), "written_ns": time.time_ns()}
    write_status(opened.status_file, status_of(opened, **now))
    return {"agent": agent, "coordinator": unpack(folder / "coordinator")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case.arguments))
def test_a_command_imports_what_its_answer_needs(case: Case, homes: dict[str, Path]) -> None:
    where = ("--home", str(homes[case.home])) if case.home else ()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *case.arguments, *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    code, *imported = done.stdout.rpartition("IMPORTED ")[2].split()
    assert int(code) == case.code, done.stderr
    packages = {name.partition(".")[0] for name in imported}
    assert "typer" in packages
    assert packages & HEAVY <= case.heavy
    own = sorted(name for name in imported if name.startswith("fleetledger."))
    assert len(own) <= case.modules, own
