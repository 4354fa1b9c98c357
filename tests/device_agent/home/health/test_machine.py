"""What Linux says of the machine, read from a tree of files that is made up."""

from __future__ import annotations

from pathlib import Path

from fleetledger.device_agent.home.health.machine import Conditions, Machine
from fleetledger.schemas.health import MAX_ZONES

CONF = """\
# the modes of this board
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=2 NAME=MODE_30W >
"""


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def zone(root: Path, number: int, name: str, temp: str) -> None:
    folder = root / f"sys/class/thermal/thermal_zone{number}"
    folder.mkdir(parents=True)
    (folder / "type").write_text(f"{name}\n")
    (folder / "temp").write_text(f"{temp}\n")


def silent(root: Path) -> Machine:
    return Machine(root, lambda: "")


def test_of_a_machine_without_sensors_nothing_is_told(tmp_path: Path) -> None:
    machine = silent(tmp_path)
    assert machine.temperatures() == ()
    assert machine.throttled() is None
    assert machine.power_mode() is None
    assert machine.memory_limit() is None


def test_zones_are_told_in_the_order_of_the_kernel_and_each_by_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    zone(tmp_path, 10, "cpu-thermal", "61500")
    zone(tmp_path, 2, "cpu-thermal", "48000")
    zone(tmp_path, 3, "cv0-thermal", "-256000")
    zone(tmp_path, 4, "gpu-thermal", "off")
    (tmp_path / "sys/class/thermal/thermal_zone5").mkdir()
    told = [(item.zone, item.celsius) for item in silent(tmp_path).temperatures()]
    assert told == [("cpu-thermal", 48.0), ("cpu-thermal-2", 61.5)]


def test_no_more_zones_are_told_than_a_message_may_have(tmp_path: Path) -> None:
    for number in range(MAX_ZONES + 5):
        zone(tmp_path, number, "x" * 80, "1000")
    assert len(silent(tmp_path).temperatures()) == MAX_ZONES


def test_throttling_is_summed_over_cores_and_counters_of_current(tmp_path: Path) -> None:
    throttle = tmp_path / "sys/devices/system/cpu"
    for core, count in (("cpu0", 3), ("cpu1", 4)):
        folder = throttle / core / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(f"{count}\n")
        (folder / "package_throttle_count").write_text("10\n")
    write(tmp_path, sys__class__hwmon__hwmon3__oc1_event_cnt="5")
    assert silent(tmp_path).throttled() == 3 + 4 + 10 + 5


def test_the_power_mode_of_a_jetson_is_told_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, var__lib__nvpmodel__status="pmode:0002 fmode:fanNull")
    assert silent(tmp_path).power_mode() == "mode 2"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nvpmodel.conf").write_text(CONF)
    assert silent(tmp_path).power_mode() == "MODE_30W"


def test_the_power_mode_is_asked_where_no_file_has_it(tmp_path: Path) -> None:
    assert Machine(tmp_path, lambda: "NV Power Mode: 15W\n2\n").power_mode() == "15W"


def test_the_least_limit_of_all_groups_above_counts(tmp_path: Path) -> None:
    write(tmp_path, proc__self__cgroup="0::/system.slice/agent.service")
    group = tmp_path / "sys/fs/cgroup/system.slice"
    (group / "agent.service").mkdir(parents=True)
    (group / "agent.service/memory.max").write_text("max\n")
    assert silent(tmp_path).memory_limit() is None
    (group / "memory.max").write_text("419430400\n")
    assert silent(tmp_path).memory_limit() == 400 << 20


def test_an_older_kernel_has_limits_in_another_place(tmp_path: Path) -> None:
    write(tmp_path, proc__self__cgroup="4:cpu,memory:/docker/abc\n1:name=systemd:/")
    group = tmp_path / "sys/fs/cgroup/memory/docker/abc"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert silent(tmp_path).memory_limit() is None
    (group / "memory.limit_in_bytes").write_text("1048576\n")
    assert silent(tmp_path).memory_limit() == 1 << 20


def test_the_machine_that_this_runs_on_can_be_asked() -> None:
    machine = Machine()
    machine.temperatures()
    machine.throttled()
    machine.power_mode()
    machine.memory_limit()
    machine.conditions()


def test_with_a_time_it_is_told_how_warm_and_slow_the_machine_was_meanwhile(
    tmp_path: Path,
) -> None:
    assert silent(tmp_path).conditions() == Conditions()
    assert Conditions().described == ""
    write(
        tmp_path,
        var__lib__nvpmodel__status="pmode:0002 fmode:fanNull",
        etc__nvpmodel_conf=CONF,
        sys__class__hwmon__hwmon3__oc1_event_cnt="5",
    )
    (tmp_path / "etc/nvpmodel_conf").rename(tmp_path / "etc/nvpmodel.conf")
    zone(tmp_path, 0, "cpu-thermal", "61500")
    zone(tmp_path, 1, "gpu-thermal", "64500")
    before = silent(tmp_path).conditions()
    assert before == Conditions("MODE_30W", 64.5, 5)
    assert before.described == "power mode MODE_30W, 64 °C, slowed down 5 times"
    write(tmp_path, sys__class__hwmon__hwmon3__oc1_event_cnt="7")
    (tmp_path / "sys/class/thermal/thermal_zone1/temp").write_text("50000")
    assert silent(tmp_path).conditions().since(before) == Conditions("MODE_30W", 64.5, 2)
    assert silent(tmp_path).conditions().since(Conditions()) == Conditions("MODE_30W", 61.5, None)
