"""Two installations under one name: found, frozen, named, and settled by the operator.

The rules:

- Two installations are found when a run speaks after a later one was alive (`runs`). From then
  on the device is frozen: what it gives waits, what it gave stays.
- Before that, what another installation gives waits for as long as the former one may take to come
  back, where the former one's parts are held: a reinstalled device takes them out and gives its
  images anew, and a copy of it would too.
- The operator names the one that goes on. The other one is told so, and nothing of it is taken in.
"""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.requests import AnnounceCoordinator, SendToDevice, TellOperator
from fleetledger.coordinator.core.rules import IntakeRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.devices.commands import SettleTwins
from fleetledger.coordinator.topics.devices.entries import DeviceDoubled, DeviceSettled
from fleetledger.coordinator.topics.devices.runs import DeviceRun, Sign
from fleetledger.coordinator.topics.devices.state import Device, Doubled
from fleetledger.schemas.envelope import Envelope, Header
from fleetledger.schemas.presence import Birth, Death, Heartbeat
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import BootId, DeviceId


class Twins:
    """Decides about runs of admitted devices."""

    def __init__(self, rules: IntakeRules, state: State, live: Live) -> None:
        self._rules = rules
        self._state = state
        self._live = live

    def heard(self, device: DeviceId, envelope: Envelope, now_ns: int) -> Decision:
        """Judge by a message whether there are two installations; raise `SchemaError`."""
        header = envelope.header
        watch, known = self._live.device(device).runs, self._state.devices.admitted[device]
        if header.kind == Death.kind:
            return Decision()  # a broker tells of deaths when it likes
        if watch.last is not None and watch.last.boot == header.boot:
            return Decision()
        run = self._run(device, envelope)
        if run is None or known.doubled is not None or self._is_shut(known, run):
            return Decision()
        sign = Sign(_is_welcomed(header), self._announcement(header))
        match watch.observe(run, sign, self._live.announcements, now_ns):
            case "asked":
                return ask(AnnounceCoordinator(self._state.size))
            case "doubled":
                assert watch.last is not None
                return self._doubled(device, watch.last, run)
            case _:
                return Decision()

    def comes_late(self, device: DeviceId, header: Header) -> bool:
        """Whether the run that a birth begins was over when the present run began.

        Who is alive after all answers to a birth of ours that came later than the present run's.
        """
        known = self._state.devices.admitted[device]
        if known.boot is None or known.boot == header.boot or known.doubled is not None:
            return False
        if header.boot not in known.formers:
            return False
        present = self._live.device(device).runs.runs.get(known.boot)
        announcement = self._announcement(header)
        return announcement is None or (present is not None and announcement < present.since)

    def shut_out(self, device: DeviceId, boot: BootId) -> str:
        """Say that a run is of an installation that the operator has shut out; empty if not."""
        known = self._state.devices.admitted[device]
        run = self._live.device(device).runs.runs.get(boot)
        if not self._is_shut(known, run or DeviceRun(boot, boot)):
            return ""
        return (
            f"identity: the operator let another installation go on as {str(device)!r}, and shut "
            f"this one out (run {self._name(known, boot, run)}); its images stay here. Give it a "
            "name of its own: another `device` in agent.toml, keys/ and state/identity.json away, "
            "a token for `fleetledger agent enrol`"
        )

    def waits(self, device: DeviceId, boot: BootId, now_ns: int) -> str:
        """Say why what a run gives has to wait; empty if it does not."""
        known, live = self._state.devices.admitted[device], self._live.device(device)
        watch = live.runs
        if known.doubled is not None:
            return self.told(device, boot)
        run = watch.runs.get(boot)
        if run is not None and run.spoke and run is not watch.last:
            return "identity: another run of this device was heard after this one"
        if run is not watch.last or watch.replaced_ns is None:
            return ""
        waited = (now_ns - watch.replaced_ns) / NANOSECONDS
        if (
            waited >= self._rules.replacement_seconds
            or not self._state.contributions.of(device).held_parts()
        ):
            return ""
        return (
            f"identity: another installation gave what is held of {str(device)!r}; this one counts "
            f"{self._rules.replacement_seconds:g} s after it came, if the other is gone by then"
        )

    def told(self, device: DeviceId, boot: BootId) -> str:
        """Say to a run that another installation has the same name; empty where none has."""
        known = self._state.devices.admitted[device]
        doubled = known.doubled
        if doubled is None:
            return ""
        mine = self._name(known, boot, self._live.device(device).runs.runs.get(boot))
        others = " and ".join(name for name in doubled.runs if name != mine)
        return (
            f"identity: two installations run as {str(device)!r}: this one is {mine}, the other "
            f"{others}. What it gave stays, and nothing is taken in, until the operator says which "
            f"one goes on: `fleetledger coordinator settle {device} --installation ID`"
        )

    def settle(self, command: SettleTwins) -> tuple[Decision, str]:
        """Let one of two installations go on; raise `CommandError` where there are none."""
        device, wanted = command.device, command.installation
        known = self._state.devices.admitted.get(device)
        doubled = None if known is None else known.doubled
        if known is None or doubled is None:
            raise CommandError(
                f"device: {str(device)!r} has no two installations; `fleetledger coordinator "
                "status` names devices that have"
            )
        kept = self._chosen(device, doubled, wanted)
        shut_out = next(name for name in doubled.runs if name != kept)
        body = DeviceSettled(device=device, kept=kept, shut_out=shut_out)
        told = f"{kept} goes on as device {device}; {shut_out} is shut out and keeps its images"
        return record(body, actor=OPERATOR), told

    def settled(self, device: DeviceId) -> None:
        """Begin anew with the installation that goes on."""
        live, known = self._live.device(device), self._state.devices.admitted[device]
        watch, boot = live.runs, known.boot
        assert boot is not None  # the operator chose it
        if live.boot is not None and self.shut_out(device, live.boot):
            live.boot = None  # the other one is heard when it comes
        kept = watch.runs.get(boot) or DeviceRun(boot, known.installation or boot)
        newest = [run for run in watch.runs.values() if run.continues(kept)]
        newest = [run for run in newest if not self._is_shut(known, run)]
        watch.begin(newest[-1] if newest else kept, self._live.announcements)

    def _run(self, device: DeviceId, envelope: Envelope) -> DeviceRun | None:
        """Return what is known of the run that sent a message, noting it from its birth."""
        header = envelope.header
        watch, known = self._live.device(device).runs, self._state.devices.admitted[device]
        if watch.last is None and known.boot is not None and known.installation is not None:
            last = DeviceRun(known.boot, known.installation, known.formers)
            watch.begin(last, self._live.announcements)
        former_boots = self._state.keys.of(device).former_boots
        run = watch.runs.get(header.boot)
        if run is None and header.kind == Birth.kind:
            birth = envelope.read(Birth)
            run = watch.note(
                DeviceRun(header.boot, birth.installation, birth.formers), self._live.announcements
            )
        elif run is None and header.boot in former_boots:
            run = watch.note(
                DeviceRun(header.boot, known.installation or header.boot), self._live.announcements
            )
        if run is None:
            return None
        run.spoke |= header.boot in former_boots
        if watch.last is None:
            watch.begin(run, self._live.announcements)
        return run

    def _announcement(self, header: Header) -> int | None:
        return None if header.refers_to is None else self._live.announced.get(header.refers_to)

    def _doubled(self, device: DeviceId, last: DeviceRun, again: DeviceRun) -> Decision:
        body = DeviceDoubled(
            device=device,
            runs=(again.boot, last.boot),
            installations=(again.installation, last.installation),
        )
        text = (
            f"device {device}: two installations run under this name, {again.boot} and "
            f"{last.boot}; what it gave stays, nothing more is taken in until `fleetledger "
            f"coordinator settle {device} --installation ID` says which one goes on"
        )
        return record(body) + ask(TellOperator(text))

    def complain(self, device: DeviceId, run: BootId, text: str) -> Decision:
        """Tell one run of a device what was found about its name."""
        told = Problem(about="identity", text=text[:500], run=run)
        return ask(SendToDevice(device, "ctl", told))

    def _name(self, known: Device, boot: BootId, run: DeviceRun | None) -> BootId:
        """Return the run by which the operator knows the installation of another run."""
        named = {*(known.doubled.runs if known.doubled else ()), *known.settled}
        formers = () if run is None else run.formers
        return next((name for name in (boot, *formers) if name in named), boot)

    def _is_shut(self, known: Device, run: DeviceRun) -> bool:
        """Whether the run is of an installation that was shut out; the newest name decides."""
        for name in (run.boot, *run.formers):
            if name in known.settled:
                return not known.settled[name]
        return run.installation in known.shut_out

    def _chosen(self, device: DeviceId, doubled: Doubled, wanted: BootId) -> BootId:
        if wanted in doubled.runs:
            return wanted
        one, other = doubled.installations
        if one != other and wanted in doubled.installations:
            return doubled.runs[doubled.installations.index(wanted)]
        run = self._live.device(device).runs.runs.get(wanted)
        formers = () if run is None else run.formers
        later = next((name for name in formers if name in doubled.runs), None)
        if later is not None:
            return later
        names = " or ".join(doubled.runs)
        raise CommandError(
            f"installation: {wanted} is none of those that run as {str(device)!r}; give {names}"
        )


def _is_welcomed(header: Header) -> bool:
    """Whether only a run that has had our answer to its birth says this."""
    if header.kind == Birth.kind:
        return False
    return header.kind != Heartbeat.kind or header.body.get("welcomed") is True
