"""The parts of bench/read-path. Standard library only."""
