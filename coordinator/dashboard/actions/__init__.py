"""What an operator may do from a page: each is a command in the operator's inbox."""
