"""What a round of small convolutional networks costs, agents in stacks against one by one."""
