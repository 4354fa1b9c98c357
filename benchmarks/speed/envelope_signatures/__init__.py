"""What signatures on envelopes cost: sealing on a device, taking in at the coordinator's gate."""
