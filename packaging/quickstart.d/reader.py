#!/usr/bin/python3
"""One shuffled epoch over a folder of images with PyTorch's DataLoader: reader.py FOLDER EPOCH. Prints files, seconds.

It knows nothing of tierfs: what works here works in a training script."""

import json
import os
import sys
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class ImageFolder(Dataset):
    """Every JPEG file below a folder, decoded."""

    def __init__(self, root):
        self.paths = sorted(os.path.join(where, name) for where, _, names in os.walk(root) for name in names
                            if name.lower().endswith((".jpg", ".jpeg")))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as image:
            pixels = numpy.asarray(image.convert("RGB"))
        return torch.tensor([pixels.shape[0], pixels.shape[1], float(pixels.mean())])


def main():
    images = ImageFolder(sys.argv[1])
    torch.manual_seed(int(sys.argv[2]))  # another order in each epoch, the same in each run
    begun, count = time.monotonic(), 0
    for batch in DataLoader(images, batch_size=32, shuffle=True, num_workers=2):
        count += len(batch)
    json.dump({"files": count, "seconds": time.monotonic() - begun}, sys.stdout)


if __name__ == "__main__":
    main()
