"""A device's own key: made, confirmed, followed by another, whoever is killed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.cli.enrolment import enrol, rotate_key
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home import keys as keys_module
from fleetledger.device_agent.home.home import AgentHome, NewHome, lock_home, write_home
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.enrolment import Enrolment, KeyRotation, check_approval, check_mac
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.presence import Death
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId, FleetId

FLEET, CRANE = FleetId("harbour"), DeviceId("crane-7")
COORDINATOR = SigningKey.fresh(KeyName("harbour/coordinator")).verify_key
TOKEN, SECOND = (Token.fresh(FLEET, CRANE, COORDINATOR, 10) for _ in range(2))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_home(tmp_path / "crane-7", NewHome(CRANE, FLEET)).parent


def ring(home: Path) -> KeyRing:
    return KeyRing.beside(home, FLEET, CRANE)


def enrolled(home: Path) -> KeyRing:
    """Return the keys of a device whose first one was confirmed."""
    enrol(home, TOKEN.text)
    made = ring(home)
    made.adopt()
    return made


def waiting_of(home: Path) -> SigningKey:
    waiting = ring(home).waiting
    assert waiting is not None
    return waiting


def current_of(home: Path) -> SigningKey:
    current = ring(home).current
    assert current is not None
    return current


def test_a_device_without_a_key_signs_nothing(home: Path) -> None:
    made = ring(home)
    assert (made.current, made.waiting, made.newest, made.asks) == (None, None, None, None)
    assert made.signer_for(Death()) is None
    assert made.describe() == ""


def test_a_token_makes_a_key_that_waits(home: Path) -> None:
    assert enrol(home, TOKEN.text).startswith("the key is made; start the agent")
    made = ring(home)
    asks = made.asks
    assert isinstance(asks, Enrolment)
    check_mac(TOKEN.secret_bytes, FLEET, CRANE, asks)
    assert made.waiting is not None
    assert asks.key == made.waiting.verify_key
    assert asks.key.name == "harbour/device/crane-7"
    assert made.signer_for(asks) is made.waiting
    assert made.signer_for(Death()) is None
    assert made.newest is made.waiting
    assert AgentHome.open(home).settings.coordinator_key == COORDINATOR


def test_the_same_token_again_makes_no_second_key(home: Path) -> None:
    enrol(home, TOKEN.text)
    first = waiting_of(home).verify_key
    enrol(home, TOKEN.text)
    assert waiting_of(home).verify_key == first
    enrol(home, SECOND.text)
    assert waiting_of(home).verify_key != first


def test_a_key_that_is_confirmed_counts_and_its_secret_is_gone(home: Path) -> None:
    made = enrolled(home)
    key = made.current
    assert key is not None
    again = ring(home)
    assert again.current is not None
    assert again.current.verify_key == key.verify_key
    assert (again.waiting, again.asks) == (None, None)
    assert again.signer_for(Death()) == again.current
    for file in (home / "keys").iterdir():
        assert TOKEN.secret not in file.read_text(encoding="ascii")
    assert enrol(home, TOKEN.text) == "this device has enrolled with this token already"
    assert ring(home).waiting is None


def test_another_key_is_signed_for_by_the_present_one(home: Path) -> None:
    enrolled(home)
    rotate_key(home)
    made = ring(home)
    asks = made.asks
    assert isinstance(asks, KeyRotation)
    assert made.current is not None
    check_approval(made.current.verify_key, FLEET, CRANE, asks)
    assert made.signer_for(asks) is made.waiting
    assert made.signer_for(Death()) is made.current
    first = waiting_of(home).verify_key
    rotate_key(home)
    assert waiting_of(home).verify_key == first, "asked twice, made once"
    made.adopt()
    assert current_of(home).verify_key == asks.key


def test_there_is_nothing_to_rotate_without_a_key(home: Path) -> None:
    with pytest.raises(HomeError, match="there is no key to rotate; ask the operator for a token"):
        rotate_key(home)


def test_a_revoked_device_enrols_another_key(home: Path) -> None:
    former = enrolled(home).current
    enrol(home, SECOND.text)
    made = ring(home)
    assert isinstance(made.asks, Enrolment)
    made.adopt()
    assert former is not None
    assert current_of(home).verify_key != former.verify_key


def test_key_files_are_for_their_owner_alone(home: Path) -> None:
    enrolled(home)
    rotate_key(home)
    folder = home / "keys"
    assert folder.stat().st_mode & 0o077 == 0
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    (folder / "device.pem").chmod(0o640)
    with pytest.raises(HomeError, match=r"device\.pem: others may read it \(mode 0640\)"):
        ring(home)


def test_damaged_key_files_are_named_and_not_shown(home: Path) -> None:
    enrolled(home)
    rotate_key(home)
    waiting = home / "keys" / "waiting.json"
    text = waiting.read_text(encoding="ascii")
    waiting.write_text(text[:-9], encoding="ascii")
    with pytest.raises(HomeError, match=r"waiting\.json: cannot be read; delete it") as error:
        ring(home)
    assert text[20:60] not in str(error.value)
    waiting.unlink()
    (home / "keys" / "device.pem").write_bytes(b"no key")
    with pytest.raises(HomeError, match="no private key in PEM"):
        ring(home)


def test_a_key_that_waits_for_one_that_is_lost_is_told(home: Path) -> None:
    enrolled(home)
    rotate_key(home)
    (home / "keys" / "device.pem").unlink()
    with pytest.raises(HomeError, match=r"device\.pem: is missing, and another key waits"):
        _ = ring(home).asks


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (Token.fresh(FleetId("mill"), CRANE, COORDINATOR, 10), "fleet: is 'harbour'.*'mill'"),
        (Token.fresh(FLEET, DeviceId("lift"), COORDINATOR, 10), "device: is 'crane-7'.*'lift'"),
    ],
)
def test_a_token_of_somebody_else_is_refused(home: Path, token: Token, told: str) -> None:
    before = (home / "agent.toml").read_bytes()
    with pytest.raises(HomeError, match=told) as error:
        enrol(home, token.text)
    assert token.secret not in str(error.value)
    assert (home / "agent.toml").read_bytes() == before
    assert not (home / "keys").exists()


def test_what_is_no_token_is_refused_without_being_quoted(home: Path) -> None:
    with pytest.raises(SchemaError, match="token: this is none") as error:
        enrol(home, TOKEN.text[:-1])
    assert TOKEN.text[10:30] not in str(error.value)


def test_nothing_is_changed_beside_a_running_agent(home: Path) -> None:
    lock = lock_home(home)
    assert lock
    for act in (lambda: enrol(home, TOKEN.text), lambda: rotate_key(home)):
        with pytest.raises(HomeError, match="another agent runs here; stop it first"):
            act()


SETTINGS: dict[str, Callable[[str], str]] = {
    "as init wrote it": lambda text: text,
    "without the comment": lambda text: "\n".join(
        line for line in text.splitlines() if "coordinator_key" not in line
    ),
    "set already": lambda text: f'coordinator_key = "{COORDINATOR}"\n{text}',
}


@pytest.mark.parametrize("case", SETTINGS)
def test_the_coordinators_key_goes_into_the_settings(home: Path, case: str) -> None:
    file = home / "agent.toml"
    file.write_text(SETTINGS[case](file.read_text(encoding="utf-8")), encoding="utf-8")
    file.chmod(0o640)
    before = AgentHome.open(home).settings
    enrol(home, TOKEN.text)
    after = AgentHome.open(home).settings
    assert after == before.model_copy(update={"coordinator_key": COORDINATOR})
    assert file.stat().st_mode & 0o777 == 0o640
    assert not list(home.glob("*.new"))


def test_another_coordinators_key_is_not_written_over(home: Path) -> None:
    enrol(home, TOKEN.text)
    stranger = SigningKey.fresh(COORDINATOR.name).verify_key
    with pytest.raises(HomeError, match=r"coordinator_key: has the hash .* delete the line if you"):
        enrol(home, Token.fresh(FLEET, CRANE, stranger, 10).text)


class Killed(BaseException):
    """The program ends here."""


class Kills:
    """Ends the program at the n-th step that changes a file, before it or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.at, self.steps = at, 0
        for owner, name in (
            (keys_module, "write_private"),
            (keys_module, "sync_folder"),
            (Path, "unlink"),
        ):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            self._step()
            found = act(*arguments, **named)
            self._step()
            return found

        return watched

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise Killed


def test_whoever_is_killed_at_any_step_ends_with_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way from no key to a second one, killed once at each step and begun again there."""
    at, steps = 0, 1
    while at < steps:
        at += 1
        home = write_home(tmp_path / str(at), NewHome(CRANE, FLEET)).parent
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: None)  # files are written some hundred times
            kills = Kills(patch, at)
            confirmed = two_keys(home)
            steps = kills.steps
        assert len(confirmed) == 2
        assert current_of(home).verify_key == confirmed[-1]
        assert ring(home).asks is None
    assert steps > 20


def two_keys(home: Path) -> list[str]:
    """Enrol a key and rotate it, beginning each step again that is killed; return what counted."""
    confirmed: list[str] = []

    def confirm() -> None:
        """Start the agent: the coordinator confirms the key that waits, if it may."""
        made = ring(home)
        asks = made.asks
        if asks is not None and confirmed[-1:] != [asks.key]:
            former = None if made.current is None else made.current.verify_key
            expected = None if isinstance(asks, Enrolment) else confirmed[-1]
            assert former == expected, "the coordinator would refuse it"
            confirmed.append(asks.key)
        made.adopt()

    steps = [lambda: enrol(home, TOKEN.text), confirm, lambda: rotate_key(home), confirm]
    for step in steps:
        try:
            step()
        except Killed:
            step()
    return confirmed


def run(home: Path, *arguments: str, given: str = "") -> Result:
    result = CliRunner().invoke(app, [*arguments, "--home", str(home)], input=given)
    if result.exception is not None:
        raise result.exception
    return result


def test_the_token_is_read_from_standard_input(home: Path) -> None:
    said = run(home, "enrol", given=f"{TOKEN.text}\n").output
    assert "the key is made" in said
    assert TOKEN.text not in said
    assert isinstance(ring(home).asks, Enrolment)
    ring(home).adopt()
    assert "the new key is made" in run(home, "rotate-key").output


def test_the_token_may_be_an_argument(home: Path) -> None:
    run(home, "enrol", TOKEN.text)
    assert isinstance(ring(home).asks, Enrolment)
