"""A build, installed and looked at: what install_test.py and package_test.py share."""
import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
PROGRAMS = ["coco-pack", "retina-train", "retina-eval", "retina-convert"]
TRAINING = ["--synthetic", "8", "--backbone", "resnet18", "--min-side", "64", "--max-side", "64",
            "--images-per-step", "2", "--steps", "2", "--threads", "1", "--compute-threads", "1",
            "--device", "cpu"]
# What every system has: the C and C++ runtime. The other libraries must be ours.
FLOOR = re.compile(r"(ld-linux-x86-64|linux-vdso|lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+))\.so")


def cache(name):
    """A setting of the build."""
    text = (BUILD / "CMakeCache.txt").read_text()
    return re.search(rf"^{name}:[A-Z]+=(.*)$", text, re.MULTILINE).group(1)


def run(words, **environment):
    """With nothing in the environment but what is given."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          env=environment, timeout=300)


def opened_libraries(done, program):
    """The files that the linker opened for it, as LD_DEBUG=files told; not for a script that starts it."""
    start = re.search(rf"needed by \S*{program} ", done.stderr)
    return set(map(os.path.normpath, re.findall(r"calling init: (\S+)", done.stderr[start.start():])))


def foreign_libraries(paths, *own):
    """Of `paths`, those that are neither of the floor nor below a folder of `own`."""
    return {path for path in map(str, paths) if not FLOOR.match(os.path.basename(path))
            and not any(path.startswith(f"{folder}/") for folder in own)}
