"""FedHAF, its ablations and its rivals on CIFAR-100: accuracy, forgetting, bytes and time."""
