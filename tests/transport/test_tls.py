"""TLS against a real Mosquitto: who is believed, who is refused, and what is said about it."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetledger.schemas.envelope import COORDINATOR
from fleetledger.transport.brokers import MosquittoBroker
from fleetledger.transport.brokers.folder import BrokerFolder, write_broker_folder
from fleetledger.transport.brokers.mosquitto_configuration import ServerCertificates
from fleetledger.transport.errors import (
    ConnectionRefusedByBrokerError,
    NotAuthorisedError,
    TlsError,
)
from fleetledger.transport.interface import Connected, ConnectionProblem
from fleetledger.transport.mqtt import MqttConnection
from fleetledger.transport.mqtt_settings import MQTT_3_1_1, MQTT_5, MqttSettings
from fleetledger.transport.tls import TlsFiles
from tests.transport.certificates import DAY, Authority
from tests.transport.relay import Relay
from tests.transport.standalone import RunningBroker, free_port, running
from tests.transport.worlds import (
    A,
    B,
    fresh_topics,
    messages,
    next_of,
    payloads,
    rest,
    send,
    started,
    until_heard,
)

pytestmark = pytest.mark.broker
Start = Callable[..., RunningBroker]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def start(mosquitto: MosquittoBroker, tmp_path: Path) -> Iterator[Start]:
    """Starts a Mosquitto that shows the given certificate."""
    with ExitStack() as stack:

        def begin(certificate: Path, client_ca_file: Path | None = None) -> RunningBroker:
            files = ServerCertificates(certificate, certificate.with_suffix(".key"), client_ca_file)
            folder, port = tmp_path / "broker", free_port("127.0.0.1")
            write_broker_folder(BrokerFolder(folder, folder, port, "+", (A, B), certificates=files))
            broker: AbstractContextManager[RunningBroker] = running(folder, port)
            return stack.enter_context(broker)

        yield begin


@pytest.fixture
def connect() -> Iterator[Callable[..., MqttConnection]]:
    """Makes connections, not started; stops them in the end."""
    made: list[MqttConnection] = []

    def make(broker: RunningBroker, user: str, tls: TlsFiles | None, **options: Any) -> Any:
        if "password" not in options and (tls is None or tls.certificate_file is None):
            options["password"] = broker.secret(user)
        settings = MqttSettings(
            **{
                "client_id": f"{user}.{secrets.token_hex(4)}",
                "host": "localhost",
                "port": broker.port,
                "user": user,
                "tls": tls,
                "reconnect_shortest_seconds": 0.05,
                "reconnect_longest_seconds": 0.2,
                **options,
            }
        )
        made.append(MqttConnection(settings))
        return made[-1]

    yield make
    for connection in made:
        connection.stop()


def refusal_of(connection: MqttConnection) -> Exception:
    """Return what is told of a connection that must not come about."""
    connection.start()
    refused = next_of(connection, ConnectionProblem).error
    assert not connection.connected
    assert isinstance(refused, Exception)
    return refused


def as_user(authority: Authority, name: str) -> TlsFiles:
    certificate = authority.user(name)
    return TlsFiles(authority.ca_file, certificate, certificate.with_suffix(".key"))


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_with_the_right_ca_messages_cross(
    authority: Authority, start: Start, connect: Any, host: str, version: int
) -> None:
    broker, tls = start(authority.server("localhost", "127.0.0.1")), TlsFiles(authority.ca_file)
    topic = fresh_topics().up(A, "msg")
    coordinator = started(connect(broker, COORDINATOR, tls, host=host), topic)
    next_of(coordinator, Connected)
    device = started(connect(broker, A, tls, host=host, versions=(version,)))
    until_heard(coordinator, coordinator, topic)

    sent = [secrets.token_bytes(200_000) for _ in range(5)]
    for payload in sent:
        send(device, topic, payload)

    assert payloads(coordinator, 5) == sent


def test_what_crosses_is_not_readable_on_the_wire(
    authority: Authority, start: Start, connect: Any
) -> None:
    broker = start(authority.server("localhost"))
    heard = bytearray()
    relay = Relay("127.0.0.1", broker.port, heard=heard)
    device = started(connect(broker, A, TlsFiles(authority.ca_file), port=relay.port))
    send(device, fresh_topics().up(A, "msg"), b"private " * 100)
    time.sleep(0.3)
    device.stop()
    relay.close()

    assert len(heard) > 800
    assert b"private" not in heard
    assert broker.secret(A).encode() not in heard


def test_another_ca_is_refused(
    authority: Authority, start: Start, connect: Any, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "Other CA")
    broker = start(authority.server("localhost"))

    refused = refusal_of(connect(broker, A, TlsFiles(other.ca_file)))

    assert isinstance(refused, TlsError)
    assert str(refused).startswith(f"broker.tls.ca_file: {other.ca_file}: did not sign")
    assert "give the file of the CA that did" in str(refused)


def test_without_a_ca_file_only_the_systems_cas_are_believed(
    authority: Authority, start: Start, connect: Any
) -> None:
    refused = refusal_of(connect(start(authority.server("localhost")), A, TlsFiles()))
    assert "broker.tls.ca_file: the system's CAs: did not sign" in str(refused)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_for_another_name_is_refused(
    authority: Authority, start: Start, connect: Any, host: str
) -> None:
    broker = start(authority.server("broker.example", "192.0.2.1"))

    refused = refusal_of(connect(broker, A, TlsFiles(authority.ca_file), host=host))

    assert isinstance(refused, TlsError)
    assert str(refused).startswith(
        f"broker.host: '{host}': the broker's certificate is for another"
    )
    assert "set the name that it was made for" in str(refused)


@pytest.mark.parametrize(("begins", "ends"), [(-2 * DAY, -DAY), (DAY, 2 * DAY)])
def test_a_certificate_out_of_its_time_is_refused(
    authority: Authority, start: Start, connect: Any, begins: timedelta, ends: timedelta
) -> None:
    broker = start(authority.server("localhost", begins=begins, ends=ends))

    refused = refusal_of(connect(broker, A, TlsFiles(authority.ca_file)))

    assert isinstance(refused, TlsError)
    assert "the broker's certificate is out of its time" in str(refused)
    assert "renew it on the broker's host, and check the clock here" in str(refused)


def test_a_users_certificate_that_ended_is_named_with_its_end(
    authority: Authority, start: Start, connect: Any
) -> None:
    broker = start(authority.server("localhost"), authority.ca_file)
    certificate = authority.user(A, ends=-DAY / 2)
    tls = TlsFiles(authority.ca_file, certificate, certificate.with_suffix(".key"))

    refused = refusal_of(connect(broker, A, tls))

    assert f"broker.tls.certificate_file: {certificate}: ended " in str(refused)
    assert "get a newer one from the operator, with its key" in str(refused)


def test_with_certificates_of_users_each_is_who_its_certificate_says(
    authority: Authority, start: Start, connect: Any
) -> None:
    broker = start(authority.server("localhost"), authority.ca_file)
    topics = fresh_topics()
    filters = topics.from_every_device("msg")
    coordinator = started(connect(broker, COORDINATOR, as_user(authority, COORDINATOR)), *filters)
    device = started(connect(broker, A, as_user(authority, A)))
    liar = started(connect(broker, B, as_user(authority, A)))  # says dev-b, is dev-a
    until_heard(coordinator, coordinator, topics.up(A, "msg"))

    send(device, topics.up(A, "msg"), b"from a")
    send(liar, topics.up(B, "msg"), b"forged")
    send(liar, topics.up(A, "msg"), b"also from a")

    assert isinstance(next_of(liar, ConnectionProblem).error, NotAuthorisedError)
    assert set(payloads(coordinator, 2)) == {b"from a", b"also from a"}
    assert messages(rest(coordinator)) == []


def test_where_certificates_are_asked_for_a_password_is_not_enough(
    authority: Authority, start: Start, connect: Any
) -> None:
    broker = start(authority.server("localhost"), authority.ca_file)

    refused = refusal_of(connect(broker, A, TlsFiles(authority.ca_file), password="any"))

    assert isinstance(refused, ConnectionRefusedByBrokerError)
    assert "set broker.tls.certificate_file and key_file" in str(refused)


def test_a_users_certificate_of_another_ca_is_refused(
    authority: Authority, start: Start, connect: Any, tmp_path: Path
) -> None:
    broker = start(authority.server("localhost"), authority.ca_file)
    stranger = Authority(tmp_path / "other", "Other CA").user(A)
    tls = TlsFiles(authority.ca_file, stranger, stranger.with_suffix(".key"))

    refused = refusal_of(connect(broker, A, tls))

    assert isinstance(refused, ConnectionRefusedByBrokerError)
    assert f"check that broker.tls.certificate_file ({stranger}) was signed" in str(refused)


def test_a_program_without_tls_is_told_what_to_add(
    authority: Authority, start: Start, connect: Any
) -> None:
    refused = refusal_of(connect(start(authority.server("localhost")), A, None))
    assert "if it speaks TLS on this port, add [broker.tls]" in str(refused)


def test_a_broker_without_tls_is_told_from_one_with_a_wrong_certificate(
    authority: Authority, mosquitto: MosquittoBroker
) -> None:
    connection = MqttConnection(
        MqttSettings("dev-a", "localhost", mosquitto.port, tls=TlsFiles(authority.ca_file))
    )
    try:
        refused = refusal_of(connection)
    finally:
        connection.stop()
    assert isinstance(refused, TlsError)
    assert str(refused).startswith(f"broker.port: {mosquitto.port}: no TLS with localhost there")


def test_a_renewed_certificate_needs_no_restart_of_the_program(
    authority: Authority, start: Start, connect: Any
) -> None:
    broker = start(authority.server("localhost"))
    device = started(connect(broker, A, TlsFiles(authority.ca_file)))
    next_of(device, Connected)

    broker.crash()
    Authority(authority.folder).server("localhost")  # a new CA, in the same files
    broker.start_again()

    next_of(device, Connected)
