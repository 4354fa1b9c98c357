"""The owner of a device gives it the fleet's root, and may let its trust begin anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.cli.doctor import examine
from fleetledger.device_agent.core.changes import Put
from fleetledger.device_agent.core.records import Height
from fleetledger.device_agent.core.releases import heights_taken, root_taken
from fleetledger.device_agent.core.state import AgentRules, AgentState, DeviceIdentity
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.pinned_root import check_taken, pinned_of
from fleetledger.device_agent.home.store.blobs import make_folder
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.program.assembly import rules_of
from fleetledger.device_agent.program.status import describe_trust
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.values import BootId
from tests.device_agent import making
from tests.schemas import signing

NEXT = signing.root(2)
OTHER = signing.root(2, release_keys=(signing.SPARE.verify_key,))
RELEASE = signing.release(7)


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def begun(folder: Path, fleet: str = signing.FLEET) -> AgentHome:
    """Make an agent's folder with the fleet's first root."""
    file = folder / "given.json"
    file.write_bytes(signing.root().canonical_bytes() + b"\n")
    words = ("init", "--device", "dev-1", "--fleet", fleet, "--root", file)
    run(*words, "--home", folder / "home")
    return AgentHome.open(folder / "home")


def used(home: AgentHome) -> AgentStore:
    """Let the agent have followed the next root, and taken a release."""
    make_folder(home.state_folder)
    store = AgentStore(home.state_folder / "agent.db")
    heights = {RELEASE.signature.key: Height(7, RELEASE.release.digest)}
    taken = (root_taken(NEXT, {}), heights_taken(heights), Put(release=RELEASE))
    store.commit(store.load(), taken)
    return store


def state_of(home: AgentHome, store: AgentStore) -> AgentState:
    identity = DeviceIdentity(store.installation, BootId.fresh(), making.CAPABILITIES)
    return AgentState(rules_of(home), identity, store.load())


def test_the_root_is_copied_into_the_agents_folder_and_pinned(tmp_path: Path) -> None:
    home = begun(tmp_path)
    (tmp_path / "given.json").unlink()
    pinned = pinned_of(home)
    assert pinned is not None
    assert (pinned.device, pinned.root) == ("dev-1", signing.root())
    assert rules_of(home).pinned == pinned


def test_without_the_option_nothing_is_pinned(tmp_path: Path) -> None:
    run("init", "--device", "dev-1", "--fleet", "orchard", "--home", tmp_path / "home")
    assert pinned_of(AgentHome.open(tmp_path / "home")) is None
    assert AgentRules().pinned is None


def test_a_root_of_another_fleet_or_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is of the fleet 'orchard'"):
        begun(tmp_path, "harbour")
    home = begun(tmp_path)
    for data in (b"", b"{}", signing.root(by=signing.ROOTS[:1]).canonical_bytes()):
        (home.folder / "root.json").write_bytes(data)
        with pytest.raises(SettingsError, match=r"root\.json: .*`fleetledger trust publish`"):
            pinned_of(home)
    (home.folder / "root.json").unlink()
    with pytest.raises(SettingsError, match="No such file"):
        pinned_of(home)


def test_a_root_beside_the_history_that_was_followed_is_told(tmp_path: Path) -> None:
    home = begun(tmp_path)
    records = used(home).load()
    for good in (signing.root(), NEXT, signing.root(3)):
        (home.folder / "root.json").write_bytes(good.canonical_bytes())
        check_taken(pinned_of(home), records)
    (home.folder / "root.json").write_bytes(OTHER.canonical_bytes())
    with pytest.raises(HomeError, match="`fleetledger agent forget --root`"):
        check_taken(pinned_of(home), records)


def test_the_doctor_looks_at_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetledger.device_agent.cli.doctor.BROKER_SECONDS", 0.1)
    home = begun(tmp_path)

    def found() -> list[tuple[str, str]]:
        findings = examine(home.folder)
        return [(item.verdict, item.text) for item in findings if item.about == "root"]

    assert found() == [("ok", "version 1; only released models are installed")]
    (home.folder / "root.json").write_text("{}", encoding="utf-8")
    ((verdict, text),) = found()
    assert verdict == "missing"
    assert "root.json: root: document: is missing" in text


def test_trust_begins_anew_where_the_owner_says_so(tmp_path: Path) -> None:
    home = begun(tmp_path)
    assert "no newer root" in run("forget", "--root", "--home", home.folder)
    used(home).close()
    said = run("forget", "--root", "--home", home.folder)
    assert said == "forgotten: root version 2, and that release 7 was taken\n"
    records = AgentStore(home.state_folder / "agent.db").load()
    assert (records.root, records.heights, records.release) == (None, {}, None)


def test_the_status_says_which_root_counts_and_which_release_runs(tmp_path: Path) -> None:
    home = begun(tmp_path)
    store = used(home)
    assert describe_trust(state_of(home, store)) == "root version 2, release 7 runs"
    store.close()
    run("forget", "--root", "--home", home.folder)
    again = AgentStore(home.state_folder / "agent.db")
    assert describe_trust(state_of(home, again)) == "root version 1, no release runs"
