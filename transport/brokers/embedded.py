"""amqtt, a broker in Python, as a child process: for machines without Mosquitto.

It speaks MQTT 3.1.1, keeps everything in memory, and drops messages that a subscriber did not
acknowledge in time, so it serves demos and tests. The process itself is
`transport.brokers.amqtt_server`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path

from fleetledger.runtime.pip_command import pip_install
from fleetledger.runtime.private_file import write_private
from fleetledger.transport.brokers.child import ChildBroker
from fleetledger.transport.errors import BrokerStartError


class EmbeddedBroker(ChildBroker):
    """amqtt with our own authentication and access rules."""

    kind = "amqtt"

    @staticmethod
    def is_installed() -> bool:
        """Say whether the package is there, without importing it."""
        return importlib.util.find_spec("amqtt") is not None

    @property
    def description(self) -> str:
        """Which amqtt runs, where, and what it keeps."""
        version = importlib.metadata.version("amqtt")
        return (
            f"amqtt {version} (MQTT 3.1.1) at {self.host}:{self.port}; it keeps sessions and "
            "messages in memory only and may drop what is in flight; clients send again"
        )

    def command(self) -> list[str]:
        """Return the command line."""
        if not self.is_installed():
            raise BrokerStartError(f"amqtt is not installed; try `{pip_install('broker')}`")
        return [
            sys.executable,
            "-m",
            "fleetledger.transport.brokers.amqtt_server",
            str(self._configuration),
        ]

    def environment(self) -> dict[str, str]:
        """Let the child find this package wherever it is run from."""
        here = str(Path(__file__).parents[3])
        known = os.environ.get("PYTHONPATH")
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, known)))}

    def write_configuration(self) -> None:
        """Write address and secrets for the child."""
        values = {"host": self.host, "port": self.port, "users": self._secrets}
        write_private(self._configuration, json.dumps(values).encode("utf-8"))

    @property
    def _configuration(self) -> Path:
        return self.directory / "amqtt.json"
