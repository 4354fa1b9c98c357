"""The simulator's claims on CIFAR-100: accuracy, partitions, bytes and seconds."""
