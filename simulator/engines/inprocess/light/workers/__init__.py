"""Workers beside the engine that train devices, too: in processes of this machine, or on Ray."""
