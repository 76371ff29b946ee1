"""The commands coco-pack, retina-train, retina-eval and retina-convert of the wheel.

The compiled programs in _bin find their own libraries in _lib, and torch's and openvino's beside this
package, where pip installs them. Those of an environment in several folders are named to the linker.
"""
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
LIBRARIES = {"torch": ["torch/lib", "nvidia/cu13/lib", "nvidia/nccl/lib"], "openvino": ["openvino/libs"]}


def folders_elsewhere():
    """Of the libraries that are not beside this package."""
    folders = []
    for package, below in LIBRARIES.items():
        found = importlib.util.find_spec(package)
        if found is None or os.path.isdir(os.path.join(HERE, "..", package)):
            continue
        site_packages = os.path.dirname(os.path.dirname(os.path.abspath(found.origin)))
        folders += [os.path.join(site_packages, folder) for folder in below]
    return folders


def run(program):
    folders = folders_elsewhere()
    if folders:
        given = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = ":".join(folders + ([given] if given else []))
    os.execv(os.path.join(HERE, "_bin", program), [program, *sys.argv[1:]])


def coco_pack():
    run("coco-pack")


def retina_train():
    run("retina-train")


def retina_eval():
    run("retina-eval")


def retina_convert():
    run("retina-convert")
