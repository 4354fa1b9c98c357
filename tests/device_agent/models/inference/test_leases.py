"""Leases across processes: what is read stays, and whoever dies holds nothing."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleetledger.device_agent.models.inference.leases import (
    CURRENT,
    leave_unless_leased,
    take_lease,
)
from tests.device_agent import model_files as models
from tests.device_agent.models.inference.homes import ServingHome
from tests.test_architecture import ROOT

HOLDER = """
import sys
from pathlib import Path
from fleetledger.device_agent.models.inference.leases import take_lease
lease = take_lease(Path(sys.argv[1]))
print(lease.folder.name, flush=True)
sys.stdin.read()
"""


def holder(home: Path) -> subprocess.Popen[str]:
    """A process that leases the current model until its standard input ends."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, str(home)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)


@pytest.fixture
def home(tmp_path: Path) -> ServingHome:
    made = ServingHome(tmp_path / "agent-home")
    made.switch(models.exported(1))
    return made


def switch_away(home: ServingHome) -> None:
    for version in (2, 3):
        home.switch(models.exported(version))


def test_ten_processes_keep_a_model_and_the_last_that_goes_lets_it_go(home: ServingHome) -> None:
    with ExitStack() as stack:
        holders = [stack.enter_context(holder(home.folder)) for _ in range(10)]
        (leased,) = {process.stdout.readline().strip() for process in holders}
        switch_away(home)
        for process in holders:
            assert leased in home.folders()
            process.communicate()
            home.published.follow()
    assert len(home.folders()) == 2
    assert leased not in home.folders()


def test_a_killed_holder_blocks_nothing(home: ServingHome) -> None:
    with holder(home.folder) as process:
        leased = process.stdout.readline().strip()
        switch_away(home)
        assert leased in home.folders()
        process.kill()
        process.wait()
        home.published.follow()
        assert leased not in home.folders()
        assert len(home.folders()) == 2


def test_a_lease_is_of_the_folder_that_has_its_name_still(
    home: ServingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is replaced between the look at the link and the lock."""
    former = (home.folder / CURRENT).resolve()
    looked = []

    def once(path: Path) -> Path:
        if not looked:
            looked.append(path)
            switch_away(home)
            return Path("models") / former.name
        return readlink(path)

    readlink = Path.readlink
    monkeypatch.setattr("fleetledger.device_agent.models.inference.leases.Path.readlink", once)
    assert take_lease(home.folder).folder.name.startswith("3-")


def test_a_lease_that_nobody_refers_to_ends(home: ServingHome, tmp_path: Path) -> None:
    lease = take_lease(home.folder)
    folder = lease.folder
    assert not leave_unless_leased(folder, tmp_path / "elsewhere")
    del lease
    assert leave_unless_leased(folder, tmp_path / "elsewhere")
