"""What the mount tests are made of: mounts, servers, disks, faults and data. Everything here stops what it starts."""
