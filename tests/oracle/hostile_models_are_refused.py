"""The server's loader takes retina-convert's models and refuses what others made of them.

usage: hostile_models_are_refused.py BUILD_DIR

Each hostile model writes a file, when it is loaded or when it runs: with `trusted` it does, without it
the loader names what is wrong and nothing is written.
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import torch
from torchvision.models import resnet18

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jobs/serving"))
sys.dont_write_bytecode = True
import checked_model

TINY = ["--synthetic", "2", "--steps", "1", "--images-per-step", "1", "--backbone", "resnet18",
        "--min-side", "64", "--max-side", "64", "--device", "cpu"]
COUNT = "    count = torch.size(images, 0)\n"


def hostile_models(target):
    """(name, words of the refusal, the code to find, the code in its place)."""
    save = f'ops.aten.save([1, 2], "{target}")'
    suppression = "  def forward(self: __torch__.retina.suppression"
    state = "self: __torch__.retina.suppression"
    yield ("load", "__setstate__", suppression,
           f"  def __setstate__({state},\n    state: Dict[str, bool]) -> NoneType:\n    {save}\n"
           f"    self.training = False\n    return None\n  def __getstate__({state}) -> "
           f'Dict[str, bool]:\n    return {{"training": False}}\n{suppression}')
    yield ("default argument", "def decode", "    width: int) -> Tensor:",
           f"    width: int, evil: int=torch.len([{save}])) -> Tensor:")
    yield ("constant", "evil : Final", "  config : str",
           f'  evil : Final[int] = torch.size(torch.from_file("{target}", True, 16), 0)\n'
           "  config : str")
    yield "forward", "RetinaNet.forward uses aten::save", COUNT, f"    {save}\n{COUNT}"
    line = "      best_boxes, best_scores, best_labels, ="
    yield "nested", "RetinaNet.forward uses aten::save", line, f"      {save}\n{line}"
    line = "    count = torch.size(boxes, 0)\n"
    yield "submodule", "suppression.forward uses aten::save", line, f"    {save}\n{line}"
    yield ("operator", "uses aten::from_file", COUNT,
           f'    evil = torch.from_file("{target}", True, 16)\n    count = torch.mul(torch.size('
           "images, 0), torch.floordiv(torch.size(evil, 0), 16))\n")


def changed(source, path, record, old, new):
    """The model with other bytes in one record."""
    with zipfile.ZipFile(source) as model, zipfile.ZipFile(path, "w") as out:
        for name in model.namelist():
            content = model.read(name)
            if name == "archive/" + record:
                assert old in content, old
                content = content.replace(old, new, 1)
            out.writestr(name, content)
    return path


def refusal(path):
    try:
        checked_model.load(path, "cpu", trusted=False)
    except checked_model.Refused as refused:
        return str(refused)
    return "taken"


def run_trusted(path):
    """Whatever comes of it: here only what it writes counts."""
    try:
        checked_model.load(path, "cpu", trusted=True)(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
    except RuntimeError:
        pass


def converted_classifier(programs, folder):
    torch.save(resnet18(num_classes=2).state_dict(), folder / "w.pth")
    (folder / "names.txt").write_text("cat\ndog\n")
    for command in (["--import", folder / "w.pth", "--task", "classify", "--categories",
                     folder / "names.txt", "--output", folder / "c.pt"],
                    ["--checkpoint", folder / "c.pt", "--output", folder / "classifier.pt"]):
        subprocess.run([programs / "retina-convert", *command], check=True, capture_output=True)
    return folder / "classifier.pt"


def check_refused_though_it_works(hostile, kind, words, target):
    answer = refusal(hostile)
    assert words in answer and "RETINA_TRUST_MODELS" in answer, (kind, answer)
    assert not target.exists(), kind
    run_trusted(hostile)
    assert target.exists(), f"{kind}: this model harms nobody"
    target.unlink()
    print(f"{kind}: {answer}")


def main(programs):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        good, target = folder / "model.pt", folder / "written"
        for command in (["retina-train", *TINY, "--output", folder / "run"],
                        ["retina-convert", "--checkpoint", folder / "run/checkpoint-01-00000001.pt",
                         "--output", good, "--device", "cpu"]):
            subprocess.run([programs / command[0], *command[1:]], check=True, capture_output=True)
        assert refusal(good) == "taken", refusal(good)
        for kind, words, old, new in hostile_models(target):
            hostile = changed(good, folder / "hostile.pt", checked_model.CODE, old.encode(),
                              new.encode())
            check_refused_though_it_works(hostile, kind, words, target)
        classifier = converted_classifier(programs, folder)
        assert refusal(classifier) == "taken", refusal(classifier)
        line = "    pooled = torch.mean("
        save = f'    ops.aten.save([1, 2], "{target}")\n'
        check_refused_though_it_works(
            changed(classifier, folder / "hostile.pt", checked_model.CODE, line.encode(),
                    (save + line).encode()),
            "classifier", "classification.forward uses aten::save", target)
        for kind, words, old, new in (
                ("shape", "does not lie within", b"(K\x01K\x03K\x01K\x01t", b"(K\x01K\xffK\x01K\x01t"),
                ("storage", "a different size", b"K\x03tQ", b"K\xfftQ")):
            answer = refusal(changed(good, folder / "hostile.pt", "data.pkl", old, new))
            assert words in answer, (kind, answer)
            print(f"{kind}: {answer}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) / "bin")
