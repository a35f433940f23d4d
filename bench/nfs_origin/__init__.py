"""The parts of bench/nfs-origin."""
