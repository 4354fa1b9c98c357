"""Authentication of devices: decides which of their messages reach the rules.

The rules, in the order in which they are asked:

- An enrolment is signed by its own key, and shows by a MAC the secret of the device's open token.
  A rotation is signed by its own key, and its former key, the one that counts, signed for it.
- Of a device whose key was revoked nothing is taken in.
- Of a device with a key only what that key signed, for the topic on which it came, and of runs that
  the device has not ended; that a run spoke which was ended is told to the rules, and nothing else
  of it. Reports and messages (`msg`) must refer to a birth of this run of the coordinator, so what
  was said to an earlier run is not taken in again; the device says it again by itself. A number of
  a run counts once; births and deaths, of which the broker keeps one and may give it again, may be
  repeated.
- Of a device without a key a signature cannot be checked, so what is signed is refused; what is not
  is taken in unless the settings ask for keys.
- The proxy is no device and has no key.

What cannot be the device's, by the end of its header line, is refused before its body is read.

What is not to be believed is counted and told, and stored nowhere. Repeats are left out in silence,
since brokers make some.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.keys.state import DeviceKeys
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.log_lines import about
from fleetledger.schemas import enrolment
from fleetledger.schemas.envelope import PROXY, Envelope, decode, decode_again, split
from fleetledger.schemas.errors import EnvelopeError, SignatureError
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.seals import Seal, read_seal
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest
from fleetledger.schemas.wire import OWN, WireVersions

WIDTH = 1024
"""Numbers behind the highest that are remembered one by one; what is older was there."""
_RUNS = 4
"""Runs of one device that are remembered: of the present one, and while it changes."""
_ALL = (1 << WIDTH) - 1


class SequenceWindow:
    """The numbers of one run on one topic: each is new once."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0

    def is_new(self, number: int) -> bool:
        """Whether a number comes for the first time; it never does again."""
        ahead = number - self._highest
        if ahead > 0:
            # Bit n says whether the number n below the highest was seen.
            self._seen = 1 if ahead >= WIDTH else (self._seen << ahead | 1) & _ALL
            self._highest = number
            return True
        if -ahead >= WIDTH or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class SequenceWindows:
    """Windows of every device, for as long as this program runs."""

    def __init__(self) -> None:
        self._windows: dict[DeviceId, dict[tuple[BootId, str], SequenceWindow]] = {}
        """Of each device, those used last behind the others."""

    def is_new(self, device: DeviceId, boot: BootId, leaf: str, sequence: int) -> bool:
        """Whether a message comes for the first time."""
        windows = self._windows.setdefault(device, {})
        window = windows.pop((boot, leaf), None) or SequenceWindow()
        windows[boot, leaf] = window
        if len(windows) > 2 * _RUNS:
            del windows[next(iter(windows))]
        return window.is_new(sequence)


log = logging.getLogger("coordinator")

_BIRTHS = 1024
"""Births of this run that devices may refer to; each is heard by all that are connected."""

_LONGEST_ENROLMENT = 8 * 1024
"""Bytes of a header line that asks for a key; it has a few fixed fields, and is read unproven."""
_ASKING = (enrolment.Enrolment.kind, enrolment.KeyRotation.kind)

Secret = Callable[[Digest], "bytes | None"]
"""Returns the secret of an invitation, or None where it is not here."""


@dataclass(frozen=True)
class _Message:
    topic: str
    device: DeviceId
    leaf: str
    envelope: Envelope


class Authenticator:
    """Lets messages of devices pass, or not."""

    def __init__(
        self,
        topics: FleetTopics,
        state: Callable[[], State],
        secret: Secret,
        *,
        require_keys: bool = False,
        wire: WireVersions = OWN,
    ) -> None:
        self._topics = topics
        self._state = state
        self._secret = secret
        self._require_keys = require_keys
        self.wire = wire
        self._windows = SequenceWindows()
        self._births: deque[Digest] = deque(maxlen=_BIRTHS)
        self.refused: Counter[DeviceId] = Counter()
        """Messages that were not believed, since the start."""

    def born(self, birth: Digest) -> None:
        """Note a birth of the coordinator, to which devices refer from now on."""
        self._births.append(birth)

    def authenticate(self, topic: str, payload: bytes) -> inputs.Input | None:
        """Return what a message means for the rules; None for a repeat.

        The topic must be one on which a device of this fleet speaks. Raises `EnvelopeError` for
        what could be the device's, and cannot be read.
        """
        spoken = self._topics.parse(topic)
        seal = read_seal(split(payload)[0])
        if seal.fleet != self._topics.fleet:
            raise EnvelopeError(f"fleet: {str(seal.fleet)!r} is not this fleet")
        try:
            self._admit(topic, spoken.device, seal)
        except SchemaError as error:
            return self._refuse(spoken.device, str(error))
        message = _Message(topic, spoken.device, spoken.leaf, decode(payload, wire=self.wire))
        envelope = message.envelope
        try:
            match envelope.header.kind:
                case enrolment.Enrolment.kind:
                    return self._enrolment(message, envelope.read(enrolment.Enrolment))
                case enrolment.KeyRotation.kind:
                    return self._rotation(message, envelope.read(enrolment.KeyRotation))
                case _:
                    return self._ordinary(message)
        except SchemaError as error:
            return self._refuse(spoken.device, str(error))

    def authenticate_checked(
        self, topic: str, payload: bytes, key: VerifyKey
    ) -> inputs.Input | None:
        """Do the same with what another process has decoded, and found `key` to have signed.

        Where that key is not the device's, nothing of it counts.
        """
        spoken = self._topics.parse(topic)
        state, envelope = self._state(), decode_again(payload)
        believed = (
            spoken.device in state.devices.admitted
            and state.keys.of(spoken.device).key == key
            and envelope.header.sender == spoken.device
            and envelope.header.fleet == self._topics.fleet
            and envelope.header.kind not in _ASKING
        )
        if not believed:
            return self.authenticate(topic, payload)
        return self._ordinary(_Message(topic, spoken.device, spoken.leaf, envelope))

    def _admit(self, topic: str, device: DeviceId, seal: Seal) -> None:
        """Raise `SchemaError` for what cannot be the device's, whatever its body is."""
        if seal.kind in _ASKING:
            _check_asking(device, seal)
            return
        state = self._state()
        if device == PROXY or device not in state.devices.admitted:
            return  # the rules say what is to be said to strangers
        keys = state.keys.of(device)
        if keys.key is None:
            self._check_keyless(device, keys, seal)
            return
        seal.check_signature(keys.key, topic)
        _check_sender(device, seal)

    def _ordinary(self, message: _Message) -> inputs.Input | None:
        """Return what an admitted message means for the rules; None for a repeat."""
        device, envelope = message.device, message.envelope
        keys = self._state().keys.of(device)
        if device != PROXY and keys.key is not None:
            if envelope.header.boot in keys.former_boots:
                return inputs.FormerRunSpoke(device, envelope)
            if not self._is_new(message, keys):
                return None
        return inputs.DeviceMessage(device, envelope)

    def _check_keyless(self, device: DeviceId, keys: DeviceKeys, seal: Seal) -> None:
        """Raise `SignatureError` unless a device without a key may say this."""
        way_out = f"`fleetledger coordinator enrol {device}` gives a token for a new one"
        if keys.revoked:
            raise SignatureError(f"key: that of {str(device)!r} was revoked; {way_out}")
        if seal.key is not None:
            raise SignatureError(
                f"key: {str(seal.key)!r} is none that is enrolled here for "
                f"{str(device)!r}; {way_out}"
            )
        if self._require_keys:
            raise SignatureError(
                f"signature: {str(device)!r} has no key, and this fleet requires keys; {way_out}"
            )

    def _is_new(self, message: _Message, keys: DeviceKeys) -> bool:
        header = message.envelope.header
        if message.leaf == "msg" and header.refers_to not in self._births:
            return False
        return message.leaf == "state" or self._windows.is_new(
            message.device, header.boot, message.leaf, header.sequence
        )

    def _enrolment(self, message: _Message, body: enrolment.Enrolment) -> inputs.Input:
        device, keys = message.device, self._keys_for(message, body.key)
        if keys.key == body.key:
            return inputs.EnrolmentProven(device, body.key, None)
        invitation = keys.invitation
        secret = None if invitation is None else self._secret(invitation.digest)
        if invitation is None or secret is None:
            raise SignatureError(
                f"enrolment: no token is open for {str(device)!r}: it was used, replaced or taken "
                f"back; ask for a new one: `fleetledger coordinator enrol {device}`"
            )
        enrolment.check_mac(secret, self._topics.fleet, device, body)
        return inputs.EnrolmentProven(device, body.key, invitation.digest)

    def _rotation(self, message: _Message, body: enrolment.KeyRotation) -> inputs.Input:
        device, keys = message.device, self._keys_for(message, body.key)
        if keys.key is None:
            raise SignatureError(
                f"key: {str(device)!r} has none that could be rotated; "
                f"`fleetledger coordinator enrol {device}`"
            )
        if keys.key != body.key:
            enrolment.check_approval(keys.key, self._topics.fleet, device, body)
        return inputs.RotationProven(device, body.key, keys.key)

    def _keys_for(self, message: _Message, key: VerifyKey) -> DeviceKeys:
        """Return what is known of a device's key, if a message is by the key that it brings."""
        enrolment.check_key_name(self._topics.fleet, message.device, key)
        message.envelope.check_signature(key, message.topic)
        state = self._state()
        if message.device not in state.devices.admitted:
            raise SignatureError(
                f"device: {str(message.device)!r} is not admitted; "
                f"`fleetledger coordinator enrol {message.device}`"
            )
        return state.keys.of(message.device)

    def _refuse(self, device: DeviceId, reason: str) -> inputs.Input:
        self.refused[device] += 1
        count = self.refused[device]
        if count & (count - 1) == 0:  # the first, and whenever there are twice as many
            said = about("message.not_believed", device=device, so_far=count)
            log.warning("%s: not believed, %d so far: %s", device, count, reason, extra=said)
        return inputs.MessageRefused(device, reason)


def _check_sender(device: DeviceId, seal: Seal) -> None:
    if seal.sender != device:
        raise EnvelopeError(
            f"sender: {str(seal.sender)!r} sent on the topic of {str(device)!r}; ignored"
        )


def _check_asking(device: DeviceId, seal: Seal) -> None:
    """Refuse what asks for a key, and is not by a key or too long for it."""
    _check_sender(device, seal)
    if seal.key is None:
        raise SignatureError(
            f"signature: {seal.kind!r} of {str(device)!r} is not signed; the key that it brings "
            "has to sign it"
        )
    if len(seal.line) > _LONGEST_ENROLMENT:
        raise EnvelopeError(
            f"header: {len(seal.line)} bytes of {seal.kind!r} exceed {_LONGEST_ENROLMENT}"
        )
