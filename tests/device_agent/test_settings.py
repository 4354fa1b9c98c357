"""The settings file: what `agent init` writes, and what is told about a file that is wrong."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import AgentHome, NewHome, lock_home, write_home
from fleetledger.device_agent.program.main import mqtt_connect
from fleetledger.device_agent.settings import AgentBrokerSettings, AgentDataSettings, AgentSettings
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.mqtt_settings import settings_by_role

NEW = NewHome(DeviceId("bench-3"), FleetId("workshop"), host="broker.lan", port=8883)


def home_with(folder: Path, text: str) -> Path:
    (folder / "agent.toml").write_text(text, encoding="utf-8")
    return folder


def test_what_init_writes_can_be_read(tmp_path: Path) -> None:
    path = write_home(tmp_path / "home", NEW)
    home = AgentHome.open(path.parent)
    assert (home.settings.device, home.settings.fleet) == ("bench-3", "workshop")
    assert (home.settings.broker.host, home.settings.broker.port) == ("broker.lan", 8883)
    assert home.data_folder == path.parent / "data"
    assert home.data_folder.is_dir()
    assert home.evaluation_folder is None
    assert home.settings.model.threads == 1
    assert home.settings == AgentSettings(
        device=NEW.device,
        fleet=NEW.fleet,
        broker=AgentBrokerSettings(host="broker.lan", port=8883),
        data=AgentDataSettings(folder=Path("data")),
    )


def test_names_with_quotes_survive_the_settings_file(tmp_path: Path) -> None:
    odd = NewHome(
        NEW.device, NEW.fleet, data_folder='my "best" images', password_file="it's\\secret"
    )
    home = AgentHome.open(write_home(tmp_path, odd).parent)
    assert home.data_folder == tmp_path / 'my "best" images'
    assert home.settings.broker.password_file == Path("it's\\secret")


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    write_home(tmp_path, NEW)
    with pytest.raises(HomeError, match=r"agent\.toml: is there already"):
        write_home(tmp_path, NEW)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("device = ", "not TOML"),
        ('device = "a"\n[data]\nfolder = "d"\n', "fleet: is missing"),
        ('device = "a b"\nfleet = "f"\n[data]\nfolder = "d"\n', "device: 'a b'"),
        ('device = "a"\nfleet = "f"\nspeed = 3\n[data]\nfolder = "d"\n', "speed: no such setting"),
        (
            'device = "a"\nfleet = "f"\n[data]\nfolder = "d"\nscan_seconds = 0\n',
            r"data\.scan_seconds: 0",
        ),
        (
            'device = "a"\nfleet = "f"\n[data]\nfolder = "d"\n[model]\nproviders = ["CUDA"]\n',
            "end with 'CPUExecutionProvider'",
        ),
        (
            'device = "a"\nfleet = "f"\n[data]\nfolder = "d"\n[training]\nexemplars = "all"\n',
            r"training\.exemplars: 'all'",
        ),
        (
            'device = "a"\nfleet = "f"\n[data]\nfolder = "d"\n[training]\ndevice = "tpu"\n',
            r"training\.device: 'tpu'",
        ),
    ],
)
def test_a_wrong_file_is_told_with_field_and_value(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        AgentHome.open(home_with(tmp_path, text))
    assert "agent.toml" in str(caught.value)


def test_the_owner_decides_what_is_kept_and_what_leaves(tmp_path: Path) -> None:
    plain = 'device = "a"\nfleet = "f"\n[data]\nfolder = "d"\n'
    settings = AgentHome.open(home_with(tmp_path, plain)).settings
    assert (settings.training.exemplars, settings.policy.publish_features) == ("images", False)
    chosen = '[training]\nexemplars = "features"\nfeature_cache_megabytes = 5\n'
    allowed = "[policy]\npublish_features = true\n"
    settings = AgentHome.open(home_with(tmp_path, plain + chosen + allowed)).settings
    assert (settings.training.exemplars, settings.policy.publish_features) == ("features", True)
    assert settings.training.feature_cache_megabytes == 5


def test_a_missing_file_is_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="make one with `init`"):
        AgentHome.open(tmp_path)


def home_with_password(folder: Path, content: bytes | None, mode: int = 0o600) -> AgentHome:
    if content is not None:
        (folder / "secret").write_bytes(content)
        (folder / "secret").chmod(mode)
    return AgentHome.open(
        home_with(
            folder,
            'device = "a"\nfleet = "f"\n[broker]\npassword_file = "secret"\n[data]\nfolder = "d"\n',
        )
    )


def test_a_password_is_one_line_of_a_private_file(tmp_path: Path) -> None:
    home = home_with_password(tmp_path, b"s3cret\n")
    settings = settings_by_role(home.settings.broker, home.folder, "a")
    assert settings("control").secret() == "s3cret"


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (None, 0, "cannot be read"),
        (b"s3cret\n", 0o644, "chmod 600"),
        (b"", 0o600, "0 lines"),
        (b"one\ntwo\n", 0o600, "2 lines"),
    ],
)
def test_a_password_file_that_is_wrong_is_told_without_its_content(
    tmp_path: Path, content: bytes | None, mode: int, told: str
) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        mqtt_connect(home_with_password(tmp_path, content, mode))
    assert "s3cret" not in str(caught.value)


def test_two_agents_cannot_run_in_one_home(tmp_path: Path) -> None:
    lock = lock_home(tmp_path)
    assert lock >= 0
    with pytest.raises(HomeError, match="another agent runs here"):
        lock_home(tmp_path)


def test_a_device_without_samples_needs_no_folder(tmp_path: Path) -> None:
    new = NewHome(NEW.device, NEW.fleet, data_folder=None)
    home = AgentHome.open(write_home(tmp_path, new).parent)
    assert home.settings.data == AgentDataSettings(samples="none")
    assert not home.data_folder.exists()


def test_a_device_with_samples_says_where_they_are() -> None:
    with pytest.raises(ValidationError, match=r"folder: is missing; .* samples = \"none\""):
        AgentDataSettings(samples="text")
