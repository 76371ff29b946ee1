"""Checkpoints written in C++ open in Python and fit torchvision's v1 and v2 models strictly.

usage: checkpoint_opens_in_torch.py BUILD_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torchvision.models.detection import retinanet_resnet50_fpn, retinanet_resnet50_fpn_v2

CLASSES = 7
# What retina-train's options are for each kind; v2 is the default.
V1 = ["--head-norm", "none", "--p6-from-p5"]
KINDS = [("v1, frozen norm", [*V1, "--norm", "frozen"], retinanet_resnet50_fpn),
         ("v1, batch norm", [*V1, "--norm", "batch"], retinanet_resnet50_fpn),
         ("v2, frozen norm", ["--norm", "frozen"], retinanet_resnet50_fpn_v2),
         ("v2, batch norm", ["--norm", "batch"], retinanet_resnet50_fpn_v2)]


def written(programs, options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "c.pt"
        subprocess.run([programs / "make-checkpoint", "--output", path, "--backbone", "resnet50",
                        "--classes", str(CLASSES), *options], check=True)
        return torch.load(path, weights_only=True)


def check_dict(checkpoint):
    assert type(checkpoint) is dict, type(checkpoint)
    assert set(checkpoint) == {"model", "optimizer", "trainer", "config", "categories",
                               "format_version"}, checkpoint.keys()
    assert type(checkpoint["model"]) is dict
    assert checkpoint["trainer"] == {"step": 0, "epoch": 0}, checkpoint["trainer"]
    assert json.loads(checkpoint["config"])["model"]["backbone"] == "resnet50"
    assert checkpoint["categories"][1] == {"id": 11, "name": "class 1", "supercategory": "test"}


def main():
    programs = pathlib.Path(sys.argv[1]) / "bin"
    for kind, options, build in KINDS:
        checkpoint = written(programs, options)
        check_dict(checkpoint)
        model = build(weights=None, weights_backbone=None, num_classes=CLASSES)
        result = model.load_state_dict(checkpoint["model"], strict=True)
        assert not result.missing_keys and not result.unexpected_keys
        for name, tensor in model.state_dict().items():
            if name in checkpoint["model"]:
                assert torch.equal(tensor, checkpoint["model"][name]), name
        count = sum(p.numel() for p in model.parameters())
        print(f"{kind}: {len(checkpoint['model'])} tensors, {count} parameters, strict-clean",
              flush=True)


if __name__ == "__main__":
    main()
