"""LGA, its ablations and its rivals on digits: accuracy, noticed tasks, bytes to the proxy."""
