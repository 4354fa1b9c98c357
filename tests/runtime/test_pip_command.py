"""What an installation lacks is added from where the installation came."""

import json

import pytest

from fleetledger.runtime import pip_command
from fleetledger.runtime.pip_command import pip_install

WHEEL = "file:///srv/kit%20one/fleetledger-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "pip install 'fleetledger[cpu,train]'"),
        (
            {"url": "file:///src/fleetledger", "dir_info": {}},
            "pip install '/src/fleetledger[cpu,train]'",
        ),
        (
            {"url": "file:///src/fleetledger", "dir_info": {"editable": True}},
            "pip install -e '/src/fleetledger[cpu,train]'",
        ),
        (
            {"url": WHEEL, "archive_info": {}},
            "pip install '/srv/kit one/fleetledger-0.1.0-py3-none-any.whl[cpu,train]'",
        ),
        (
            {"url": "https://kit.example/f.whl", "archive_info": {}},
            "pip install 'fleetledger[cpu,train] @ https://kit.example/f.whl'",
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_came(
    origin: dict[str, object], command: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pip_command, "_origin", lambda: json.dumps(origin) if origin else "")
    assert pip_install("cpu", "train") == command


def test_the_package_itself_needs_no_quotes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pip_command, "_origin", lambda: "")
    assert pip_install() == "pip install fleetledger"
    assert pip_install(options="--force-reinstall") == "pip install --force-reinstall fleetledger"
