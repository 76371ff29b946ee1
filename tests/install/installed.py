"""A build, installed and looked at: what install_test.py and package_test.py share."""
import hashlib
import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
PROGRAMS = ["coco-pack", "retina-train", "retina-eval", "retina-convert"]
WEIGHTS = "retina-weights"  # a script
SCRIPTS = [WEIGHTS, "retina-run"]
TRAINING = ["--synthetic", "8", "--backbone", "resnet18", "--min-side", "64", "--max-side", "64",
            "--images-per-step", "2", "--steps", "2", "--threads", "1", "--compute-threads", "1",
            "--device", "cpu"]
# What every system has: the C and C++ runtime. The other libraries must be ours.
FLOOR = re.compile(r"(ld-linux-x86-64|linux-vdso|lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+))\.so")


def cache(name):
    """A setting of the build."""
    text = (BUILD / "CMakeCache.txt").read_text()
    return re.search(rf"^{name}:[A-Z]+=(.*)$", text, re.MULTILINE).group(1)


def licences(folder):
    """The SPDX expression that `folder`'s SOURCES.txt begins with, and its lines: name and version, licence, source."""
    lines = (folder / "SOURCES.txt").read_text().splitlines()
    [expression] = [line.partition(": ")[2] for line in lines if line.startswith("# SPDX-License-Identifier: ")]
    return expression, [line.split(" | ") for line in lines if not line.startswith("#")]


def label(dockerfile):
    """The licences that an image is labelled with."""
    text = (SOURCE / "docker" / dockerfile).read_text()
    return re.search(r'image\.licenses="(.*)"', text).group(1)


def run(words, **environment):
    """With nothing in the environment but what is given."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          env=environment, timeout=300)


def fetched_weights(command, folder):
    """`command`, an installed retina-weights, fetches a small detector from a folder: what it left."""
    mirror, name = folder / "mirror", "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth"
    mirror.mkdir()
    done = run([BUILD / "bin/make-checkpoint", "--pth", "--classes", "91", "--output", mirror / name])
    assert done.returncode == 0, done.stderr
    content = (mirror / name).read_bytes()
    table = mirror / "table.txt"
    table.write_text(f"coco-v2 {name} {len(content)} {hashlib.sha256(content).hexdigest()}\n")
    done = run([command, "--output", folder / "weights", "coco-v2"], PATH="/usr/bin:/bin",
               WEIGHTS_URL=mirror.as_uri(), WEIGHTS_TABLE=table)
    assert done.returncode == 0, done.stderr
    return os.listdir(folder / "weights")


def opened_libraries(done, program):
    """The files that the linker opened for it, as LD_DEBUG=files told; not for a script that starts it."""
    start = re.search(rf"needed by \S*{program} ", done.stderr)
    return set(map(os.path.normpath, re.findall(r"calling init: (\S+)", done.stderr[start.start():])))


def foreign_libraries(paths, *own):
    """Of `paths`, those that are neither of the floor nor below a folder of `own`."""
    return {path for path in map(str, paths) if not FLOOR.match(os.path.basename(path))
            and not any(path.startswith(f"{folder}/") for folder in own)}
