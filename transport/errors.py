"""The error tree of the transport.

TransportError                      (a schemas.errors.FleetledgerError)
├── NotConnectedError               nothing was sent; send again after `Connected`
├── QueueFullError                  the outgoing queue is at its bound; send later
├── PayloadTooLargeError            refused before anything was sent
├── ConnectionRefusedByBrokerError  the broker answered, and said no
│   └── NotAuthorisedError          wrong user, password, or a topic that is not ours
├── BrokerLimitError                the broker takes smaller packets than blocks are
├── BrokerUnreachableError          no broker answered at all
├── PasswordFileError               the file with our password cannot be used
├── TlsError                        certificates are missing, wrong, or not believed
├── CallbackError                   our own code failed inside the network thread
├── ThreadEndedError                a thread that the program needs has ended; the program ends too
├── BrokerStartError                a child broker could not be found or started
├── BrokerFilesError                a broker's configuration could not be written
├── ListenError                     a program cannot listen where it was told to
├── GrantsFileError                 who may come in to pages cannot be read or written
├── PersonError                     a name that nobody may have on pages
└── BlockError                      a block transfer cannot go on; says why
    ├── FullDiskError               the disk here refuses what came; later it may take it
    ├── StalledError                who offered it has sent no block for too long
    └── NotWantedError              nobody here needs it any more
"""

from __future__ import annotations

from fleetledger.runtime.errors import FleetledgerError


class TransportError(FleetledgerError):
    """Base of everything that goes wrong between two programs."""


class NotConnectedError(TransportError):
    """The message was not sent because there is no connection; its owner sends it again."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic}: not connected, nothing was sent; send again once connected")


class QueueFullError(TransportError):
    """The outgoing queue is full; nothing was sent."""

    def __init__(self, topic: str, waiting: int, limit: int) -> None:
        super().__init__(
            f"{topic}: {waiting} bytes already wait to be sent and the limit is {limit}; "
            "send again when the queue has drained"
        )


class InboxFullError(TransportError):
    """Messages had to be left out; those of QoS 1 come again after the next reconnect."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic}: the inbox is full and messages are being left out; read events faster"
        )


class PayloadTooLargeError(TransportError):
    """The payload exceeds what broker or settings allow; nothing was sent."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        self.topic = topic
        self.size = size
        self.limit = limit
        super().__init__(
            f"{topic}: payload of {size} bytes exceeds the limit of {limit}; "
            "offer it and let the receiver fetch it in blocks"
        )


class ConnectionRefusedByBrokerError(TransportError):
    """The broker answered the connection with a refusal, or closed it without an answer."""


class NotAuthorisedError(ConnectionRefusedByBrokerError):
    """The broker does not accept this user name and password, or not for this topic."""


class BrokerUnreachableError(TransportError):
    """No broker answers at the given address."""


class BrokerLimitError(TransportError):
    """The broker announced that it takes smaller packets than blocks are: they never arrive."""

    def __init__(self, address: str, limit: int, needed: int) -> None:
        super().__init__(
            f"{address}: the broker takes packets of at most {limit} bytes, and blocks need "
            f"{needed}: no model and no larger contribution arrives; raise `max_packet_size` in "
            "mosquitto.conf to 1048576, or leave it out, and restart the broker"
        )


class TlsError(TransportError):
    """A certificate or key cannot be used, or the broker's certificate is not to be believed."""


class PasswordFileError(TransportError):
    """The file with our password at the broker cannot be read, or is not in order."""


class CallbackError(TransportError):
    """Code that ran inside the network thread failed; the connection lives on."""


class ThreadEndedError(TransportError):
    """A thread that the program needs has ended by an error, so the program has to end."""

    def __init__(self, thread: str, error: BaseException) -> None:
        super().__init__(
            f"the thread {thread!r} ended by {error!r}, and nothing goes on without it: this "
            "program ends, and its service manager starts it again"
        )


class BrokerStartError(TransportError):
    """No broker program was found, or it did not start; the message holds its last words."""


class BrokerFilesError(TransportError):
    """A broker's configuration cannot be written, or what was kept of it is not in order."""


class ListenError(TransportError):
    """A program cannot listen where it was told to; the text says why."""


class GrantsFileError(TransportError):
    """A file of secrets' hashes cannot be read or written; the text names it."""


class PersonError(TransportError):
    """A name that nobody may have on pages."""


class BlockError(TransportError):
    """A block transfer ended without the data, or a source cannot answer; the message says why."""


class FullDiskError(BlockError):
    """The disk refuses what came; what lies on it already is kept for the next attempt."""


class StalledError(BlockError):
    """Who offered the data sends none of it; what came is kept for the next attempt."""


class NotWantedError(BlockError):
    """The transfer was called off; what came is kept."""
