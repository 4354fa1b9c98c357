"""How applications on the device use the model that runs there: a path, a call, a socket."""
