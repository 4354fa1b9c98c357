"""Whether an adapter inside a frozen network should be trained before the sums, and who decides."""
