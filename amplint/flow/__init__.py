"""The static pass: interprets the lowered functions of a project and gives the AMP events that they lead to."""
