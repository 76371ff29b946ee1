"""The smallest training that the programs know, for tests of what becomes of a job: Keras' CIFAR-10 network."""
import subprocess

PROGRAMS = ["render_classes", "coco-pack", "retina-train"]
TRAIN = ["--task", "classify", "--backbone", "cifar-cnn", "--images-per-step", 4, "--lr", 0.001, "--compute-threads", 1,
         "--threads", 1, "--device", "cpu"]


def pack(build, folder):
    """Writes folder/shards."""
    for name, *options in (
            ["render_classes", "--output", folder / "classes", "--train", 40, "--validation", 10],
            ["coco-pack", "--format", "cifar10", "--images", folder / "classes", "--output", folder / "shards"]):
        subprocess.run([build / "bin" / name, *map(str, options)], check=True, capture_output=True, timeout=60)
