"""A device's kit: the folder that the coordinator makes for it, and that is installed there.

    kit.toml                  who the device is, and where its broker is: this file's model
    ca.pem                    the CA that signed the broker's certificate
    device.pem, device.key    the device's own certificate, where the broker asks for one
    broker.password           its password, where the broker asks for that
    token                     what it enrols its key with, once
    root.json                 the fleet's root, where it has one
    fleetledger-agent.service how systemd runs the agent
    fleetledger-infer.service how it runs what answers applications, where it is enabled

What only the device may know has mode 0600: `device.key`, `broker.password` and `token`.
"""

from __future__ import annotations

from pathlib import Path

import tomli_w
from pydantic import Field

from fleetledger.runtime.settings_file import load_settings
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.schemas.variants import VariantChoice

KIT_FILE = "kit.toml"
CA_FILE = "ca.pem"
CERTIFICATE_FILE = "device.pem"
KEY_FILE = "device.key"
KIT_PASSWORD_FILE = "broker.password"  # noqa: S105 - a file's name
TOKEN_FILE = "token"  # noqa: S105 - as above
KIT_ROOT_FILE = "root.json"
PRIVATE_FILES = (KEY_FILE, KIT_PASSWORD_FILE, TOKEN_FILE)


class Kit(Strict):
    """What `kit.toml` says; which other files there are says the folder itself."""

    device: DeviceId
    fleet: FleetId
    host: str = Field(min_length=1, max_length=253)
    """Of the MQTT broker, as its certificate names it."""
    port: int = Field(ge=1, le=65535)
    data: str | None = Field(default=None, min_length=1, max_length=4096)
    """Folder of the device's samples; left out where it has nothing to learn from."""
    evaluation: str | None = Field(default=None, min_length=1, max_length=4096)
    """Folder of held-out samples; left out where there are none."""
    files: str | None = Field(default=None, min_length=1, max_length=253)
    """Host at which the coordinator serves files; left out, the broker's."""
    variant: VariantChoice | None = None
    """What models run on here; left out for the reference."""

    def toml(self) -> str:
        """Return the text of the file."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def read_kit(folder: Path) -> Kit:
    """Read the kit in a folder; raise `SettingsError` naming file, field and value."""
    return load_settings(folder / KIT_FILE, Kit)
