"""FedHAF's adapter and hidden head in torch's modules, named as in `learning.networks`."""

import torch
from torch import nn

from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.head import HIDDEN_WIDTH


class AdapterAndHead(nn.Module):
    """Table 6 of the paper, as its specification reads it, with the head's two layers."""

    def __init__(self, body: FeatureAdjustment, classes: int) -> None:
        super().__init__()
        self.shortcut_from = body.shortcut
        self.linear0, self.norm0 = nn.Linear(body.inputs, body.hidden), nn.BatchNorm1d(body.hidden)
        self.linear1, self.norm1 = nn.Linear(body.hidden, body.hidden), nn.BatchNorm1d(body.hidden)
        self.linear2, self.norm2 = nn.Linear(body.hidden, body.width), nn.BatchNorm1d(body.width)
        source = {"hidden": body.hidden, "input": body.inputs}.get(body.shortcut)
        self.shortcut = nn.Linear(source, body.width, bias=False) if source else None
        self.head = nn.Linear(HIDDEN_WIDTH, classes)
        self.head.hidden = nn.Linear(body.width, HIDDEN_WIDTH)
        self.head.norm = nn.BatchNorm1d(HIDDEN_WIDTH)

    def forward(self, values, masks):
        first = torch.relu(self.norm0(self.linear0(values))) * masks[0]
        second = torch.relu(self.norm1(self.linear1(first))) * masks[1]
        features = self.norm2(self.linear2(second))
        if self.shortcut is not None:
            features = features + self.shortcut(first if self.shortcut_from == "hidden" else values)
        hidden = torch.relu(self.head.norm(self.head.hidden(features))) * masks[2]
        return features, self.head(hidden)
