"""A checkpoint written in C++ opens in Python and fits torchvision's model.

usage: checkpoint_opens_in_torch.py BUILD_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torchvision.models.detection import retinanet_resnet50_fpn

CLASSES = 7


def main():
    programs = pathlib.Path(sys.argv[1]) / "bin"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "c.pt"
        subprocess.run([programs / "make-checkpoint", "--output", path, "--backbone", "resnet50",
                        "--norm", "frozen", "--head-norm", "none", "--p6-from-p5",
                        "--classes", str(CLASSES)], check=True)
        checkpoint = torch.load(path, weights_only=True)

    assert type(checkpoint) is dict, type(checkpoint)
    assert set(checkpoint) == {"model", "optimizer", "trainer", "config", "categories",
                               "format_version"}, checkpoint.keys()
    assert type(checkpoint["model"]) is dict
    assert checkpoint["trainer"] == {"step": 0, "epoch": 0}, checkpoint["trainer"]
    assert json.loads(checkpoint["config"])["model"]["backbone"] == "resnet50"
    assert checkpoint["categories"][1] == {"id": 11, "name": "class 1", "supercategory": "test"}

    model = retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=CLASSES)
    result = model.load_state_dict(checkpoint["model"], strict=True)
    assert not result.missing_keys and not result.unexpected_keys
    count = sum(p.numel() for p in model.parameters())
    print(f"checkpoint: {len(checkpoint['model'])} tensors, {count} parameters, strict-clean")


if __name__ == "__main__":
    main()
