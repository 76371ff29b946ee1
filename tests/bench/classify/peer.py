#!/usr/bin/env python3
"""PyTorch trains the network of --backbone cifar-cnn as --recipe cifar10-keras does, on the files of
CIFAR-10's binary version. Prints a JSON line an epoch and one at the end.

    python3 tests/bench/classify/peer.py --data FOLDER [--epochs 25] [--seed 1] [--threads 1]

The network, its start and its update are those of Keras 2.2's examples/cifar10_cnn.py: Glorot uniform
(Glorot & Bengio 2010) with biases 0; RMSprop(lr=1e-4, decay=1e-6), epsilon 1e-7; pixels in 0..1, a random
mirror and shifts of up to a tenth of each side, with the border's pixels continued outside."""

import argparse
import hashlib
import json
import platform
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

SIDE_PX, CLASSES = 32, 10
RECORD_BYTES = 1 + 3 * SIDE_PX * SIDE_PX
LARGEST_SHIFT = 0.1  # of a side


def make_network():
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding="same"), nn.ReLU(),
        nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Conv2d(32, 64, 3, padding="same"), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(64 * 6 * 6, 512), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(512, CLASSES))
    for layer in network:
        if hasattr(layer, "weight"):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return network


def read_records(files):
    """(images [N, 3, 32, 32] u8, labels [N] i64)"""
    data = torch.cat([torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8)
                      for file in files]).view(-1, RECORD_BYTES)
    return data[:, 1:].reshape(-1, 3, SIDE_PX, SIDE_PX), data[:, 0].long()


def augmented(images, generator):
    """Mirrors half of the images and shifts each. [N, 3, H, W] f32 -> the same."""
    count = len(images)
    mirror = torch.rand(count, generator=generator) < 0.5
    # The grid's coordinates run from -1 to 1: a whole side is 2.
    shift = (torch.rand(count, 2, generator=generator) * 2 - 1) * LARGEST_SHIFT * 2
    change = torch.zeros(count, 2, 3)
    change[:, 0, 0] = 1 - 2 * mirror.float()
    change[:, 1, 1] = 1
    change[:, :, 2] = shift
    grid = functional.affine_grid(change, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


@torch.no_grad()
def validate(network, images, labels):
    """(share of the labels that come first, mean cross-entropy)"""
    network.eval()
    logits = torch.cat([network(part.float() / 255) for part in images.split(500)])
    network.train()
    return ((logits.argmax(1) == labels).double().mean().item(),
            functional.cross_entropy(logits, labels).item())


def train(options):
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    files = sorted(options.data.glob("data_batch_*.bin"))
    images, labels = read_records(files)
    validation = read_records([options.data / "test_batch.bin"])
    network = make_network()
    optimizer = torch.optim.RMSprop(network.parameters(), lr=options.lr, alpha=0.9, eps=1e-7)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 1 / (1 + options.lr_decay * step))
    for epoch in range(1, options.epochs + 1):
        start, loss_sum = time.monotonic(), 0.0
        for chosen in torch.randperm(len(labels), generator=generator).split(
                options.images_per_step):
            batch = augmented(images[chosen].float() / 255, generator)
            loss = functional.cross_entropy(network(batch), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            loss_sum += loss.item() * len(chosen)
        seconds = time.monotonic() - start
        top1, validation_loss = validate(network, *validation)
        print(json.dumps({"epoch": epoch, "loss": loss_sum / len(labels),
                          "validation_top1": top1, "validation_loss": validation_loss,
                          "images_per_second": len(labels) / seconds}), flush=True)
    return {"parameters": sum(value.numel() for value in network.parameters()),
            "images": len(labels), "validation_images": len(validation[1]),
            "data_sha256": hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of data_batch_*.bin, test_batch.bin")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--images-per-step", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--lr-decay", type=float, default=1e-6)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    facts = train(options)
    settings = {key: value for key, value in vars(options).items() if key != "data"}
    print(json.dumps({"done": True, **settings, **facts, "torch": torch.__version__,
                      "python": platform.python_version(), "machine": platform.machine()}))


if __name__ == "__main__":
    main()
