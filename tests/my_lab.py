"""A distribution of somebody's own, laid in a folder as pip would: a method and a network."""

from pathlib import Path

MODULE = '''"""FedAvg whose loss also draws features together, and a network."""

from fleetledger import methods
from fleetledger.learning.networks.mlp import Mlp
from fleetledger.learning.networks.registry import KnownNetwork


class FedReg(methods.Rounds):
    """FedAvg with small features."""

    class Settings(methods.Rounds.Settings):
        smallness: float = 0.001

    def loss(self, step):
        return super().loss(step) + self.settings.smallness * step.features.square().mean()


LAB_MLP = KnownNetwork(lambda shape: Mlp(inputs=64, axes=len(shape)))
'''
POINTS = """\
[fleetledger.methods]
fedreg = my_lab:FedReg

[fleetledger.networks]
lab_mlp = my_lab:LAB_MLP
"""


def lay(folder: Path, version: str = "0.1", *, after: str = "") -> Path:
    """Lay it into a folder, with something after its code, and return the folder."""
    package, info = folder / "my_lab", folder / f"my_lab-{version}.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(MODULE + after, encoding="utf-8")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: my-lab\nVersion: {version}\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    return folder
