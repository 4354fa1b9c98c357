"""Quotas of devices: what is beyond one is left out before it costs much.

The rules:

- A device has an allowance of messages and one of bytes. Both grow evenly, up to that of two
  seconds, and to the sixteen messages at least that an agent has under way.
- It has one of JSON that is read for it: the header lines of its messages, the headers of its
  payloads, and a 128th of all their other bytes, unpacked. A method's check of a Gram matrix counts
  as the JSON that takes as long. Bytes of JSON cost a hundred times what
  other bytes do, and some kilobytes of zstd can stand for megabytes of either.
- A message is taken in while all are above nothing; then it is taken off, so that a single large
  one is never too large, and the next one waits for longer.
- Births and deaths have an allowance of their own: who sends too much is still seen to come and go.
- So have payloads that are fetched, and only a message that offers another one waits for it: what a
  device says after a large answer is heard.
- What waits for a receipt is told "later", with the time after which there is room, as often as a
  device may be refused. Everything else is left out in silence, without being read.

A topic names the device, and the broker lets only that device publish there, so nobody uses up what
is another's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from fleetledger.coordinator.core.rules import IntakeRules
from fleetledger.schemas.topics import DeviceTopic
from fleetledger.schemas.values import DeviceId

_MINUTE = 60.0
_MIB = 1 << 20
_UNDER_WAY = 16.0
"""Messages that an agent has under way."""
_BURSTS = 30.0
"""A thirtieth of a minute's allowance may come at once."""
_LONGEST = 3600.0
_QUIET_SECONDS = 2.0
"""An account that was used since then is remembered, also where it is full."""


@dataclass(slots=True)
class Allowance:
    """Something that grows by so much a minute, up to `most`."""

    per_minute: float
    most: float
    left: float
    at: float
    """When `left` was right, in seconds of a clock that does not go back."""

    def grown(self, now: float) -> float:
        """Return what is left with what the time has brought."""
        if now != self.at:
            left = self.left + self.per_minute * (now - self.at) / _MINUTE
            self.left = left if left < self.most else self.most
            self.at = now
        return self.left

    def is_full(self, now: float) -> bool:
        """Whether it is as one that nobody has used."""
        return self.grown(now) >= self.most

    def wait(self, wanted: float, now: float) -> float:
        """Return seconds until so much is left."""
        return max(0.0, (wanted - self.grown(now)) * _MINUTE / self.per_minute)


@dataclass(slots=True)
class _Account:
    """The allowances of a device; each grows when it is asked."""

    messages: Allowance
    size: Allowance
    json: Allowance
    fetched: Allowance
    answers: Allowance
    used: float
    """When it was last asked for, by the same clock."""

    def is_full(self, now: float) -> bool:
        """Whether it is as one that nobody has used."""
        return (
            self.messages.is_full(now)
            and self.size.is_full(now)
            and self.json.is_full(now)
            and self.fetched.is_full(now)
            and self.answers.is_full(now)
        )


@dataclass
class Quotas:
    """The allowances of all devices; those that nobody has used for a while are forgotten."""

    rules: IntakeRules = field(default_factory=IntakeRules)
    left_out: dict[DeviceId, int] = field(default_factory=dict)
    """Messages beyond the quota, since the start."""
    _accounts: OrderedDict[tuple[DeviceId, bool], _Account] = field(default_factory=OrderedDict)
    """In the order in which they were used."""

    @property
    def remembered(self) -> int:
        """Allowances that are not full, or were not a moment ago."""
        return len(self._accounts)

    def takes(self, spoken: DeviceTopic, size: int, now: float) -> bool:
        """Whether a message of so many bytes is to be taken in; takes it off if so."""
        account = self._account(spoken, now)
        self._forget_oldest(now)
        messages, bytes_left = account.messages.grown(now), account.size.grown(now)
        if messages < 1 or bytes_left <= 0 or account.json.grown(now) <= 0:
            self.left_out[spoken.device] = self.left_out.get(spoken.device, 0) + 1
            return False
        account.messages.left = messages - 1
        account.size.left = bytes_left - size
        return True

    def charge_json(self, spoken: DeviceTopic, size: int, now: float) -> None:
        """Take off so many bytes of JSON that were read for a device."""
        allowance = self._account(spoken, now).json
        allowance.left = allowance.grown(now) - size

    def may_offer(self, spoken: DeviceTopic, now: float) -> bool:
        """Whether a payload that is offered may be fetched; counts it as left out if not."""
        if self._account(spoken, now).fetched.grown(now) > 0:
            return True
        self.left_out[spoken.device] = self.left_out.get(spoken.device, 0) + 1
        return False

    def charge(self, device: DeviceId, size: int, now: float) -> None:
        """Take off the bytes of a payload that is fetched."""
        allowance = self._account(DeviceTopic("up", device, "msg"), now).fetched
        allowance.left = allowance.grown(now) - size

    def defer(self, spoken: DeviceTopic, now: float, *, offers: bool = False) -> float | None:
        """Return for how many seconds to put off what waits for a receipt; None to say nothing.

        With `offers` it is a message that offers a payload.
        """
        account = self._account(spoken, now)
        if account.answers.grown(now) < 1:
            return None
        account.answers.left -= 1
        # Room for all that a device may have under way, or it would come back for a single one.
        room = max(account.messages.wait(_UNDER_WAY, now), account.size.wait(0.0, now))
        room = max(room, account.json.wait(0.0, now))
        if offers:
            room = max(room, account.fetched.wait(0.0, now))
        return min(max(room, self.rules.retry_seconds), _LONGEST)

    def _account(self, spoken: DeviceTopic, now: float) -> _Account:
        key = (spoken.device, spoken.leaf == "state")
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = self._new_account(now)
        account.used = now
        self._accounts.move_to_end(key)
        return account

    def _forget_oldest(self, now: float) -> None:
        """Look at two of the accounts that were not used for longest; so there is always room.

        One message makes two accounts at most.
        """
        for _ in range(min(2, len(self._accounts) - 1)):
            key, account = next(iter(self._accounts.items()))
            if now - account.used < _QUIET_SECONDS:
                return  # it would be made anew with the device's next message
            if account.is_full(now):
                del self._accounts[key]
            else:
                self._accounts.move_to_end(key)

    def _new_account(self, now: float) -> _Account:
        rules = self.rules
        return _Account(
            _full(rules.messages_per_minute, now, least=_UNDER_WAY),
            _full(rules.mib_per_minute * _MIB, now),
            _full(rules.json_mib_per_minute * _MIB, now),
            _full(rules.mib_per_minute * _MIB, now),
            _full(rules.refusals_per_minute, now),
            now,
        )


def _full(per_minute: int, now: float, least: float = 1.0) -> Allowance:
    most = max(per_minute / _BURSTS, least)
    return Allowance(per_minute, most, most, now)
