"""Running the linted code: a probe that observes AMP events, and CUDA simulated on the CPU. The only room
that imports torch, and the only one that runs what is linted. It does not know LibCST."""
