"""`fleetledger coordinator init`: safe by default, and plain about a fleet that is for trying."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.settings import load
from fleetledger.coordinator.topics.releases.views import newest_root


def say(home: Path, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--home", str(home)], env={"COLUMNS": "200"})
    nobody_serves = 3 if "status" in words else 0
    assert done.exit_code in {0, nobody_serves}, done.output + repr(done.exception)
    return done.output


def test_a_fleet_begins_with_a_root_a_release_key_and_keys_of_devices(tmp_path: Path) -> None:
    home, key = tmp_path / "home", tmp_path / "safe" / "root.pem"
    told = say(home, "coordinator", "init", "--fleet", "orchard", "--root-key", str(key))

    settings, root = load(home), newest_root(home)
    assert settings.security.require_keys
    assert not settings.trial
    assert root is not None
    assert key.exists()
    for file in (key, home / settings.release.key):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"Keep {key} elsewhere" in told
    assert "coordinator provision" in told
    assert "for trying" not in say(home, "coordinator", "status")


def test_the_root_key_lies_in_the_home_where_no_other_place_is_said(tmp_path: Path) -> None:
    told = say(tmp_path / "home", "coordinator", "init", "--fleet", "orchard")
    assert (tmp_path / "home" / "keys" / "root.pem").exists()
    assert "delete it here" in told


def test_a_fleet_for_trying_has_no_keys_and_says_so(tmp_path: Path) -> None:
    told = say(tmp_path, "coordinator", "init", "--fleet", "orchard", "--trial")
    assert "for trying" in told
    assert load(tmp_path).trial
    assert not load(tmp_path).security.require_keys
    assert "trial = true" in (tmp_path / "coordinator.toml").read_text()
    assert not (tmp_path / "keys" / "root.pem").exists()

    say(tmp_path, "coordinator", "admit", "camera-1")
    assert newest_root(tmp_path) is None
    assert "for trying: devices need no keys" in say(tmp_path, "coordinator", "status")
    assert json.loads(say(tmp_path, "coordinator", "status", "--json"))["trial"] is True
