"""The interpreter: walks function bodies with LibCST visitors and predicts AMP events."""
