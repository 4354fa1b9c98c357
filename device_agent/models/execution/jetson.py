"""Which Jetson this is, by its own files, and which ONNX Runtime there is for it.

NVIDIA's pages give releases of Jetson Linux (L4T) different names of JetPack, so the release alone
decides, as `/etc/nv_tegra_release` has it. The chip is read from the device tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fleetledger.runtime.pip_command import pip_install

RELEASE_FILE = "etc/nv_tegra_release"
JETPACK_6_INDEX = "https://pypi.jetson-ai-lab.io/jp6/cu126"
"""Wheels for JetPack 6.1 and later: CUDA 12.6, TensorRT 10.3."""
SBSA_INDEX = "https://pypi.jetson-ai-lab.io/sbsa/cu130"
_CHIP_FILE = "proc/device-tree/compatible"
_CHIPS = {"tegra210": 53, "tegra186": 62, "tegra194": 72, "tegra234": 87, "tegra264": 110}
"""Compute capability (SM) of each chip: Nano, TX2, Xavier, Orin, Thor."""
_ORIN = 87
_RELEASE = re.compile(r"#\s*R(\d{1,3})\s*\(release\),\s*REVISION:\s*([0-9.]{1,16})")
_MOST_READ = 4096


@dataclass(frozen=True)
class Jetson:
    """A board of NVIDIA's."""

    major: int | None = None
    """Of the release of Jetson Linux, such as 36; None where it cannot be read."""
    revision: str = ""
    """Such as 4.3."""
    sm: int | None = None
    """Compute capability of the GPU, such as 87; None for a chip that is not known."""

    @property
    def release(self) -> str:
        """The release of Jetson Linux, such as 36.4.3; or that it is not known."""
        return "unknown" if self.major is None else f"{self.major}.{self.revision}"


@dataclass(frozen=True)
class RuntimeAdvice:
    """What there is for a Jetson."""

    jetpack: str
    """What NVIDIA calls the releases of which this is one."""
    runtime: str
    """The command or the deed that gets ONNX Runtime with the GPU."""
    torch: str
    """The same for torch."""
    is_served: bool = False
    """Whether NVIDIA has a wheel for it."""


def read_jetson(root: Path = Path("/")) -> Jetson | None:
    """Return the board whose files lie under `root`; None for another machine."""
    told, chip = _text(root / RELEASE_FILE), _text(root / _CHIP_FILE)
    names = {name.strip().rpartition(",")[2] for name in chip.split("\0")}
    sm = next((number for chip_name, number in _CHIPS.items() if chip_name in names), None)
    found = _RELEASE.search(told)
    if found is not None:
        return Jetson(int(found[1]), found[2].strip("."), sm)
    return Jetson(sm=sm) if told or sm is not None else None


def advise(jetson: Jetson) -> RuntimeAdvice:
    """Return which runtimes exist for a board by its release of Jetson Linux."""
    match jetson.major:
        case None:
            return _unknown(f"read /{RELEASE_FILE}, which says no release here")
        case 36:
            return _jetpack_6(jetson)
        case 38:
            return _without_wheel("JetPack 7.0 or 7.1", _thor("7.0 and 7.1"))
        case 39 if jetson.sm == _ORIN:
            return _without_wheel(
                "JetPack 7.2",
                "no official onnxruntime-gpu has kernels for Orin's SM 87: there are community "
                "builds (github.com/straga/jetson-jp7-onnxruntime), or build it for SM 87",
            )
        case 39:
            return _without_wheel("JetPack 7.2", _thor("7.2"))
        case major if major <= 35:
            text = (
                "too old: JetPack 5 and before bring Python 3.8 or less, and NVIDIA's "
                "onnxruntime-gpu in containers only; upgrade the board to JetPack 6 (Orin)"
            )
            return RuntimeAdvice("JetPack 5 or before", text, text)
        case _:
            return _unknown(f"Jetson Linux {jetson.release} is not known here: look for a wheel")


def _jetpack_6(jetson: Jetson) -> RuntimeAdvice:
    index = f"--index-url {JETPACK_6_INDEX}"
    runtime, torch = f"pip install onnxruntime-gpu {index}", f"pip install torch {index}"
    if int(jetson.revision.split(".")[0] or 0) >= 4:
        return RuntimeAdvice("JetPack 6", runtime, torch, is_served=True)
    before = "upgrade to Jetson Linux 36.4 (JetPack 6.1), for whose CUDA 12.6 the wheels are; then "
    return RuntimeAdvice("JetPack 6.0", before + runtime, before + torch)


def _thor(jetpack: str) -> str:
    return (
        f"no onnxruntime-gpu for JetPack {jetpack} on Thor was tried; {SBSA_INDEX} has one whose "
        "kernels are for SM 90: whatever you install, let `fleetledger agent doctor` run it"
    )


def _without_wheel(jetpack: str, text: str) -> RuntimeAdvice:
    runtime = f"{text}; until then the processor: {pip_install('cpu')}"
    return RuntimeAdvice(jetpack, runtime, "install a torch that was built for this board")


def _unknown(text: str) -> RuntimeAdvice:
    runtime = (
        f"{text} at https://pypi.jetson-ai-lab.io that was built for this board; until then the "
        f"processor: {pip_install('cpu')}"
    )
    return RuntimeAdvice("JetPack unknown", runtime, runtime)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_READ).decode("utf-8", "replace")
    except OSError:
        return ""
