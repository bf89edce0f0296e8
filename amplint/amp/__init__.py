"""What torch.amp is, as data: op policies, ways to enter a region, scaler and optimizer APIs, wrappers."""
