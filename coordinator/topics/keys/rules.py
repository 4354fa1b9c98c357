"""Keys of devices: who is invited to have one, who has one, who no longer.

The rules, in the order of the methods:

- An invitation admits the device where needed, and replaces an earlier one that is still open. A
  device with a key gets none: its key is rotated by its owner, or revoked first.
- A device is shut out with its key, where it has one, and with its invitation; a new invitation is
  the only way back. A fleet without keys can do so, too: the device comes back with a key.
- A key is enrolled for the open invitation alone, before it expires by the calendar of the
  coordinator's machine, by which it was made too: whatever time entries have, a new token works. A
  key that is enrolled already gets its answer again, so whoever was killed meanwhile ends with it.
- A key follows another one only while that one counts; it too gets its answer again.

That a MAC or a signature is right is checked before, at the shell's edge.
"""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.decision import Decision, ask, record, record_for
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.requests import ForgetInvitation, SendToDevice
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.devices.rules import admit, check_admitted
from fleetledger.coordinator.topics.keys import entries
from fleetledger.coordinator.topics.keys.commands import InviteDevice, KeyCommand, RevokeKey
from fleetledger.coordinator.topics.keys.state import DeviceKeys
from fleetledger.schemas.enrolment import Enrolled
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import DeviceId


class KeyRules:
    """Decides about keys of devices."""

    def __init__(self, state: State) -> None:
        self._state = state

    def carry_out(self, command: KeyCommand) -> tuple[Decision, str]:
        """Return what a command decides and a sentence for the operator."""
        return self._revoke(command) if isinstance(command, RevokeKey) else self._invite(command)

    def _invite(self, command: InviteDevice) -> tuple[Decision, str]:
        """Open an invitation; admit the device, where it is new."""
        device = command.device
        admitted = admit(self._state, device)
        keys = self._state.keys.of(device)
        if keys.key is not None:
            raise CommandError(
                f"device: {str(device)!r} has the key {keys.key.key_hash.hex()}; its owner changes "
                f"it with `fleetledger agent rotate-key`. If the key is lost or stolen: "
                f"`fleetledger coordinator revoke {device}`, then enrol again"
            )
        body = entries.DeviceInvited(
            device=device, invitation=command.invitation, expires_ns=command.expires_ns
        )
        decision = admitted + record(body, actor=OPERATOR) + self._forget(keys)
        return decision, f"device {device} may enrol one key"

    def _revoke(self, command: RevokeKey) -> tuple[Decision, str]:
        """Shut a device out, and take its key and its invitation back."""
        device = command.device
        keys = self._state.keys.of(device)
        way_back = f"`fleetledger coordinator enrol {device}` is the way back"
        if device not in self._state.devices.retired:
            check_admitted(self._state, device)
        if keys.revoked and keys.invitation is None:
            raise CommandError(f"device: {str(device)!r} is shut out already; {way_back}")
        body = entries.DeviceKeyRevoked(device=device, key=keys.key, reason=command.reason)
        text = f"device {device} is shut out; {way_back}"
        return record(body, actor=OPERATOR) + self._forget(keys), text

    def proven(
        self, proven: inputs.EnrolmentProven | inputs.RotationProven, now_ns: int
    ) -> Decision:
        """Decide about a key that its holder wants to count."""
        if isinstance(proven, inputs.RotationProven):
            return self._rotation(proven)
        return self._enrolment(proven, now_ns)

    def _enrolment(self, proven: inputs.EnrolmentProven, now_ns: int) -> Decision:
        """Enrol a key whose holder has shown the secret of an invitation."""
        device, key = proven.device, proven.key
        keys = self._state.keys.of(device)
        if keys.key == key:
            return _answer(device, key)
        invitation = keys.invitation
        if invitation is None or invitation.digest != proven.invitation:
            return _refuse(device, "the token was used, replaced or taken back")
        if now_ns >= invitation.expires_ns:
            return _refuse(device, "the token has expired")
        body = entries.DeviceEnrolled(device=device, key=key, invitation=invitation.digest)
        return record_for(device, body) + self._forget(keys) + _answer(device, key)

    def _rotation(self, proven: inputs.RotationProven) -> Decision:
        """Let a key follow the one that signed for it."""
        device, key = proven.device, proven.key
        keys = self._state.keys.of(device)
        if keys.key == key:
            return _answer(device, key)
        if keys.key is None or keys.key != proven.former:
            return _refuse(device, "the key that signed for the new one counts no more")
        body = entries.DeviceKeyRotated(device=device, key=key, former=proven.former)
        return record_for(device, body) + _answer(device, key)

    def _forget(self, keys: DeviceKeys) -> Decision:
        """Have the secret of an invitation deleted that is open no more."""
        if keys.invitation is None:
            return Decision()
        return ask(ForgetInvitation(keys.invitation.digest))


def _answer(device: DeviceId, key: VerifyKey) -> Decision:
    return ask(SendToDevice(device, "ctl", Enrolled(key=key)))


def _refuse(device: DeviceId, why: str) -> Decision:
    text = f"enrolment: {why}; ask for a new one: `fleetledger coordinator enrol {device}`"
    return ask(SendToDevice(device, "ctl", Problem(about="enrolment", text=text)))
