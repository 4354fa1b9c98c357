"""Workers beside the engine that train devices, too: in processes, on threads, or on Ray."""
