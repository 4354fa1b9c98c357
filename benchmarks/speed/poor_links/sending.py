"""The coordinator's side: a broker, an exchange of blocks and, where it is asked for, a web server.

It runs on the code of this commit and on that of another one, so it imports the web server where
it is wanted alone. A line of JSON says what to serve; it says what was offered, and ends with its
standard input.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.time_to_model.receiving import exchange_of
from benchmarks.speed.transport_rate.raw import Peer
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.block_source import BlockSource

PORT = 1883
_BROKER = """\
listener 1883 0.0.0.0
allow_anonymous true
max_queued_messages 100000
max_queued_bytes 33554432
max_packet_size 1048576
persistence false
"""


def main() -> None:
    """Serve until the standard input ends."""
    told = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "mosquitto.conf").write_text(_BROKER, encoding="utf-8")
        (folder / "model").write_bytes(random.Random(1).randbytes(told["bytes"]))
        command = [told["mosquitto"], "-c", str(folder / "mosquitto.conf")]
        broker = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            serve(told, folder)
        finally:
            broker.kill()
            broker.wait()


def listens() -> bool:
    """Whether the broker takes connections."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", PORT)) == 0


def serve(told: dict[str, Any], folder: Path) -> None:
    """Offer the model, and say how."""
    while not listens():
        time.sleep(0.05)
    serving = exchange_of("127.0.0.1", PORT, Peer("coordinator", ""), None)
    source = BlockSource(folder / "model")
    serving.serve(source)
    said: dict[str, Any] = {"offer": source.offer.model_dump(mode="json")}
    if told["http"]:
        from fleetledger.transport.file_host import (
            FileHost,
            FileTokens,
            HostedFiles,
        )

        path, tokens = folder / "model", FileTokens(3600)
        host = FileHost(HostedFiles("", 0, tokens, lambda _: path, lambda _: True))
        host.start()
        digest = source.offer.digest
        said["urls"] = {name: host.url(DeviceId(name), digest) for name in told["devices"]}
    print(json.dumps(said), flush=True)
    sys.stdin.readline()
    serving.stop()


if __name__ == "__main__":
    main()
