"""Rules of silence: a fleet that is kept from speaking is told apart from a quiet one.

- The coordinator says every hour, signed, that it is there, how large its ledger is, and the time.
- A device of which nothing was believed for so long, or that never came, is recorded as silent, and
  the operator is told; likewise when it is heard again. Births and deaths do not count: a broker
  keeps them, and anybody may say them again. Stages do not wait for a silent device.

How long is counted from the coordinator's start at the earliest.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.requests import BeatCoordinator, TellOperator
from fleetledger.coordinator.core.rules import SilenceRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED, DevicesHeard, DevicesSilent
from fleetledger.schemas.envelope import Envelope
from fleetledger.schemas.presence import Birth, Death
from fleetledger.schemas.values import DeviceId

_REPEATABLE = frozenset((Birth.kind, Death.kind))
_LOOK_SECONDS = 60.0
_LOOK_SHARE = 0.05


class Silence:
    """Decides who is silent, and has the coordinator heard."""

    def __init__(self, rules: SilenceRules, state: State, live: Live) -> None:
        self._rules = rules
        self._state = state
        self._live = live

    def heard(self, device: DeviceId, envelope: Envelope, now_ns: int) -> None:
        """Note that a device has said something that is believed, and that is new."""
        if device in self._state.devices.admitted and envelope.header.kind not in _REPEATABLE:
            self._live.device(device).heard_ns = now_ns

    def beat(self, now_ns: int) -> Decision:
        """Say that the coordinator is there, as often as the rules want it."""
        if self._rules.beat_seconds is None:
            return Decision()
        self._live.beat_ns = now_ns
        return ask(BeatCoordinator(self._state.size, self._state.clock.corrections))

    def due(self, now_ns: int) -> Decision:
        """Say it again when it is time, and see who is silent."""
        last, every = self._live.beat_ns, self._rules.beat_seconds
        due = every is not None and last is not None and _seconds(last, now_ns) >= every
        return (self.beat(now_ns) if due else Decision()) + self._silent(now_ns)

    def _silent(self, now_ns: int) -> Decision:
        longest, live = self._rules.silent_seconds, self._live
        if longest is None:
            return Decision()
        if live.listening_ns is None:
            live.listening_ns = live.looked_ns = now_ns
        assert live.looked_ns is not None
        if _seconds(live.looked_ns, now_ns) < min(_LOOK_SECONDS, _LOOK_SHARE * longest):
            return Decision()
        live.looked_ns = now_ns
        silent, heard = [], []
        for device, known in self._state.devices.admitted.items():
            if self._state.keys.of(device).revoked:
                continue
            last = live.seen(device).heard_ns
            since = max(live.listening_ns, known.admitted_ns) if last is None else last
            quiet = _seconds(since, now_ns) >= longest
            if quiet and not known.silent:
                silent.append(device)
            elif known.silent and last is not None and not quiet:
                heard.append(device)
        return self._told(silent, heard, longest)

    def _told(self, silent: list[DeviceId], heard: list[DeviceId], longest: float) -> Decision:
        decision = Decision()
        for devices in _groups(silent):
            body = DevicesSilent(devices=devices, seconds=round(longest))
            decision += record(body)
        for devices in _groups(heard):
            decision += record(DevicesHeard(devices=devices))
        if silent:
            text = (
                f"nothing that can be believed came for {longest / 3600:.4g} h from "
                f"{some(silent)}: they are off, they cannot reach the broker, or somebody keeps "
                "back what they say"
            )
            decision += ask(TellOperator(text))
        if heard:
            decision += ask(TellOperator(f"heard again: {some(heard)}"))
        return decision


def _seconds(since_ns: int, now_ns: int) -> float:
    return (now_ns - since_ns) / NANOSECONDS


def _groups(devices: list[DeviceId]) -> Iterator[tuple[DeviceId, ...]]:
    for begin in range(0, len(devices), MAX_NAMED):
        yield tuple(devices[begin : begin + MAX_NAMED])
