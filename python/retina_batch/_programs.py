"""Runs the commands coco-pack, retina-train, retina-eval, retina-convert, retina-run and retina-weights of the
wheel.

The compiled programs in _bin find their own libraries in _lib, and torch's and openvino's beside this
package, where pip installs them. If an environment has several folders, the linker is told theirs.
"""
import importlib.metadata
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
LIBRARIES = {"torch": ["torch/lib", "nvidia/cu13/lib", "nvidia/nccl/lib"], "openvino": ["openvino/libs"]}


UNAVAILABLE = 69


def folders_elsewhere(packages):
    """Returns the folders of the libraries that are not beside this package."""
    folders = []
    for name, found in packages.items():
        if not os.path.isdir(os.path.join(HERE, "..", name)):
            site_packages = os.path.dirname(os.path.dirname(os.path.abspath(found.origin)))
            folders += [os.path.join(site_packages, folder) for folder in LIBRARIES[name]]
    return folders


def run(program):
    packages = {name: importlib.util.find_spec(name) for name in LIBRARIES}  # imports nothing
    absent = " and ".join(name for name, found in packages.items() if found is None)
    if program == "coco-pack":  # needs neither
        packages = {}
    elif absent:
        print(f"{program}: error: not installed: {absent}; hint: pip install",
              *importlib.metadata.requires("retina-batch"), file=sys.stderr)
        sys.exit(UNAVAILABLE)
    folders = folders_elsewhere(packages)
    if folders:
        given = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = ":".join(folders + ([given] if given else []))
    folder = "_bin"
    if program in ("retina-weights", "retina-run"):  # scripts that call the programs
        folder = "_weights"
        os.environ["PATH"] = os.path.join(HERE, "_bin") + os.pathsep + os.environ.get("PATH", os.defpath)
    os.execv(os.path.join(HERE, folder, program), [program, *sys.argv[1:]])


def coco_pack():
    run("coco-pack")


def retina_train():
    run("retina-train")


def retina_eval():
    run("retina-eval")


def retina_convert():
    run("retina-convert")


def retina_run():
    run("retina-run")


def retina_weights():
    run("retina-weights")
