"""Features of a frozen torchvision network for the images of `.npz` files, on a GPU if it can.

    python -m benchmarks.papers.packs.extract_features IMAGES.npz ... --weights FILE \
        --out FEATURES.npz

Each input holds `train_x`, `train_y`, `test_x`, `test_y` (either pair may be missing); images are
uint8 (N, H, W, 3). The output holds `train_f`, `test_f` (float32, N x d) and the labels, in the
order of the inputs. The network is in inference mode, MobileNetV2 unless told otherwise; images
are resized bilinearly to `--size` and normalised with ImageNet's mean and deviation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def load_network(name: str, weights: Path, size: int, device: str) -> Any:  # noqa: ANN401
    """Return a torch module from images (N, 3, size, size) to features, classifier cut off."""
    from fleetledger.export.torchvision_network import build_network
    from fleetledger.export.torchvision_weights import load_weights

    network = build_network(name, size)
    load_weights(network, weights)
    return network.module.to(device)


def extract(
    model: Any,  # noqa: ANN401 - a torch module
    images: npt.NDArray[np.uint8],
    size: int,
    device: str,
    batch: int = 512,
) -> npt.NDArray[np.float32]:
    """Return features (N, d) of images (N, H, W, 3)."""
    import torch

    mean = torch.tensor(MEAN, device=device)[:, None, None]
    deviation = torch.tensor(DEVIATION, device=device)[:, None, None]
    rows = []
    with torch.no_grad():
        for start in range(0, len(images), batch):
            pixels = torch.from_numpy(images[start : start + batch]).to(device)
            pixels = pixels.permute(0, 3, 1, 2).float() / 255
            pixels = torch.nn.functional.interpolate(
                pixels, size=(size, size), mode="bilinear", antialias=True, align_corners=False
            )
            rows.append(model((pixels - mean) / deviation).float().cpu().numpy())
    return np.concatenate(rows)


def main() -> None:
    """Read the files, extract, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--network", default="mobilenet_v2")
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    model = load_network(options.network, options.weights, options.size, device)
    found: dict[str, list[npt.NDArray[Any]]] = {}
    for path in options.images:
        with np.load(path) as file:
            for part in ("train", "test"):
                if f"{part}_x" in file:
                    features = extract(model, file[f"{part}_x"], options.size, device)
                    found.setdefault(f"{part}_f", []).append(features)
                    found.setdefault(f"{part}_y", []).append(file[f"{part}_y"])
    np.savez(options.out, **{name: np.concatenate(parts) for name, parts in found.items()})
    shapes = {name: sum(len(part) for part in parts) for name, parts in found.items()}
    print(f"{options.out}: {shapes} on {device}")


if __name__ == "__main__":
    main()
