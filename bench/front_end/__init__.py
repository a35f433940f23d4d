"""The parts of bench/front-end."""
