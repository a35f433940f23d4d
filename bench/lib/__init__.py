"""What the benches share: the object store, mounts, disks, the dataset, other programs. Standard library only."""
