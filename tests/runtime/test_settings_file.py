"""What reading a settings file promises."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.settings_file import SettingsError, load_settings, read_secret
from fleetledger.schemas.values import FleetId


class Broker(BaseModel):
    model_config = ConfigDict(extra="forbid")
    host: str
    port: int = Field(default=1883, ge=1, le=65535)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    fleet: FleetId
    broker: Broker


GOOD = 'fleet = "harbour"\n[broker]\nhost = "localhost"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.toml"


def refusal(path: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(path, Settings)
    assert isinstance(refused.value, FleetledgerError)
    return str(refused.value)


def test_a_good_file_becomes_settings(path: Path) -> None:
    path.write_text(GOOD)
    assert load_settings(path, Settings) == Settings(
        fleet=FleetId("harbour"), broker=Broker(host="localhost")
    )


def test_a_missing_file_is_named_with_the_command_that_makes_it(path: Path) -> None:
    assert refusal(path) == f"{path}: there is no such settings file; make one with `init`"


def test_a_folder_in_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir()
    assert refusal(path).startswith(f"{path}: cannot be read: ")


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b"fleet = '\xff'")
    assert refusal(path).endswith("it must be UTF-8 text")


def test_what_is_not_toml_is_refused_with_its_line(path: Path) -> None:
    path.write_text("fleet = harbour\n")
    told = refusal(path)
    assert told.startswith(f"{path}: not TOML: ")
    assert "line 1" in told


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"harbour"', '"Big Fleet"', "fleet: 'Big Fleet' is not allowed; give"),
        ('host = "localhost"', "", "broker.host: is missing; give it"),
        ("[broker]", "[broker]\nport = 70000", "broker.port: 70000: must be less than or equal"),
        ("[broker]", "[broker]\nport = 'x'", "broker.port: 'x': must be a valid integer"),
        ("[broker]", "[[broker]]", "broker: [{'host': 'localhost'}]: must be a section"),
        ("[broker]", "[brokr]", "broker: is missing; give it; brokr: no such setting; did you "),
        ("[broker]", "[broker]\nzzz = 1", "broker.zzz: no such setting; settings here: host, port"),
        ("[broker]", "[broker]\nhots = 1", "broker.hots: no such setting; did you mean 'host'?"),
    ],
)
def test_a_wrong_setting_is_named_with_file_and_value(
    path: Path, old: str, new: str, told: str
) -> None:
    path.write_text(GOOD.replace(old, new))
    assert refusal(path).startswith(f"{path}: {told}")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_editor_may_put_its_mark_in_front(encoding: str, path: Path) -> None:
    path.write_bytes(GOOD.replace("\n", "\r\n").encode(encoding))
    assert load_settings(path, Settings).fleet == "harbour"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_password_file_has_one_line_in_any_form(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.password"
    file.write_bytes("se\u2028cret\r\n".encode(encoding))
    file.chmod(0o600)
    assert read_secret(tmp_path, Path("broker.password")) == "se\u2028cret"
