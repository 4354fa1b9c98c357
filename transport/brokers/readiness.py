"""Is the broker that answers at a port ours, and ready? One login by hand, without a client."""

from __future__ import annotations

import contextlib
import socket

from fleetledger.transport.access import fresh_client_id

_ACCEPTED = bytes((0x20, 2, 0, 0))
_CLEAN_SESSION_WITH_USER_AND_PASSWORD = 0xC2
_KEEPALIVE_SECONDS = 10
_SECONDS = 2.0


def accepts(host: str, port: int, user: str, password: str) -> bool:
    """Say whether a broker at this address lets `user` in; only ours knows the password."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), _SECONDS) as probe:
        probe.sendall(_connect_packet(user, password))
        answer = b""
        while len(answer) < len(_ACCEPTED) and (piece := probe.recv(len(_ACCEPTED) - len(answer))):
            answer += piece
        return answer == _ACCEPTED
    return False


def _connect_packet(user: str, password: str) -> bytes:
    """Return a CONNECT of MQTT 3.1.1 with a clean session."""
    flags = (4, _CLEAN_SESSION_WITH_USER_AND_PASSWORD)
    body = _text("MQTT") + bytes(flags) + _KEEPALIVE_SECONDS.to_bytes(2, "big")
    body += _text(fresh_client_id(user, "ready")) + _text(user) + _text(password)
    size = (
        bytes((len(body) & 0x7F | 0x80, len(body) >> 7))
        if len(body) > 0x7F
        else bytes((len(body),))
    )
    return bytes((0x10,)) + size + body


def _text(value: str) -> bytes:
    encoded = value.encode()
    return len(encoded).to_bytes(2, "big") + encoded
