"""Records what torch.compile makes of the program."""
