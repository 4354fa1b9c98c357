"""What a round of FedHAF's local training costs, agents in one stacked call against one by one."""
