"""Every command of README and of the pages beside the code, run (readme_commands.PAGES):

    RETINA_BUILD=BUILD_DIR python3 readme_test.py [Readme.test_x ...]

Commands of the pipeline run as they stand, in the pages' order, in a folder with a small data set, a
short training and build/bin; `make` targets run where they can. What needs a GPU, a container, a
cluster or a cloud is parsed alone, our programs in it by --check-args, our scripts by the options that
they name. A command of a program that is unknown here fails.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/jobs"))
import readme_commands  # noqa: E402
from mirror import CocoMirror  # noqa: E402

BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
PAGES = {name: (SOURCE / name).read_text() for name in readme_commands.PAGES}
PROGRAMS = ["coco-pack", "retina-train", "retina-eval", "retina-convert"]
# Programs that are not ours and start ours, here or elsewhere.
STARTERS = {"mpirun", "srun", "docker", "podman", "sbatch", "kubectl", "az"}
FOREIGN = STARTERS | {"cmake", "ctest", "git", "apt-get", "cd", "mkdir", "python3", "nvidia-smi",
                      "clang-format-14", "g++", "tritonserver", "trtexec", "tar", "pip"}
# Our scripts that pages call by name, as in the image.
SCRIPTS = {"retina-launch": "docker/retina-launch", "retina-run": "docker/retina-run"}

# What makes the full-size commands quick, by program and, where a command has it, an option; an option
# that the page gives stays as it is there.
QUICK = {
    "retina-train": {"backbone": "resnet18", "min-side": "64", "max-side": "96",
                     "lr": "0.001",
                     "anchor-sizes": "16,32,64,128,256", "clip-norm": "10", "threads": "1",
                     "compute-threads": "1", "epochs": "4", "checkpoint-every": "4epochs",
                     "validate-every": "4", "device": "cpu"},
    "retina-train --steps": {"backbone": "resnet18", "min-side": "64", "max-side": "96", "threads": "1",
                             "compute-threads": "1", "validate-every": "0", "device": "cpu"},
    "retina-train --synthetic": {"backbone": "resnet18", "min-side": "64", "max-side": "96",
                                 "threads": "1", "steps": "12", "device": "cpu"},
    "retina-train --task": {"min-side": "32", "max-side": "40", "threads": "1", "compute-threads": "1",
                            "checkpoint-every": "30epochs", "validate-every": "30", "device": "cpu"},
    "retina-eval --detections": {},
    "retina-eval --compare": {},
    "retina-eval": {"device": "cpu", "compute-threads": "1", "score-threshold": "0.001"},
    "retina-convert": {"device": "cpu", "verification-images": "2", "score-threshold": "0.001"},
    "coco-pack": {},
}

# What the pages of docs/ give in full size: these values take the place of theirs.
SMALL = {"coco-pack": {"tile": "64"}, "retina-eval": {"tile": "64"},
         "retina-train": {"epochs": "4", "steps": "12", "min-side": "48,64", "max-side": "96",
                          "steps-per-epoch": "4", "warmup-steps": "2", "lr-drop-at": "2epochs"}}

# The job that the reader of docs/ has run already.
BEFORE_DOCS = [
    "build/bin/coco-pack --annotations coco/annotations/instances_train2017.json "
    "--images coco/train2017 --output shards/train",
    "build/bin/coco-pack --annotations coco/annotations/instances_val2017.json "
    "--images coco/val2017 --output shards/val",
    "build/bin/retina-train --train shards/train --validation shards/val --output run"]

# More ranks than cores, as root, in a container.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

# Files that only a page's reader has: a command that starts from one is parsed, to its end with 66.
READERS_OWN = {"resnet50.pth", "retinanet_resnet50_fpn_coco.pth", "shards/mine", "photos", "a.jpg",
               "photos/*/front?.jpg", "orthophoto.tif", "xView_train.geojson", "dota/train.json",
               "DOTA/train/labelTxt-v1.5", "DOTA/val/labelTxt-v1.5", "deepforest/annotations.csv"}
NO_INPUT = 66


def environment(**more):
    """Without what an outer make hands to its children."""
    outer = {key: value for key, value in os.environ.items()
             if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return outer | MPI | more


def run(words, cwd=SOURCE, **more):
    return subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True,
                          env=environment(**more), timeout=500)


def own_program(words):
    """The place of the first of our programs among the words, or None."""
    names = [word.rsplit("/", 1)[-1] for word in words]
    return next((place for place, name in enumerate(names) if name in PROGRAMS), None)


def script_of(words):
    """The path of our script that the words call, or None."""
    script = SOURCE / SCRIPTS.get(words[0], words[0])
    is_ours = words[0] in SCRIPTS or words[0].endswith(".sh")
    return script if is_ours and script.is_file() else None


def options_of_script(script):
    """Those that it names; docker/run.sh hands all of its own to the one in jobs/."""
    text = script.read_text()
    text += "".join(called.read_text() for called in SOURCE.glob("jobs/docker/*.sh")
                    if f"/{called.relative_to(SOURCE)}" in text)
    return set(re.findall(r"--([a-z][a-z0-9-]+)", text))


def quick_program(name):
    """A script that calls the built program with what makes it quick."""
    lines = ["#!/bin/bash", 'all=("$@")',
             'small() { for i in "${!all[@]}"; do [[ ${all[i]} != "--$1" ]] || all[i+1]=$2; done; }',
             "if [[ -v RETINA_SMALL ]]; then",
             *(f"  small {word} {value}" for word, value in SMALL.get(name, {}).items()), "  :", "fi",
             'add() { [[ " ${all[*]} " == *" --$1 "* ]] || all+=("--$1" "$2"); }',
             'case " $* " in']
    keys = [key for key in QUICK if key.split()[0] == name]
    for key in sorted(keys, key=len, reverse=True):  # the program's own set is the last
        option = key.partition(" ")[2]
        lines += [f'*" {option} "*)' if option else "*)",
                  *(f"  add {word} {value}" for word, value in QUICK[key].items()), "  ;;"]
    lines += ["esac", f'exec "{BUILD}/bin/{name}" "${{all[@]}}"']
    return "\n".join(lines) + "\n"


class Readme(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)

    def expect_success(self, done, line):
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")

    def render(self):
        """A small data set in COCO's layout."""
        scenes = self.room / "scenes"
        self.expect_success(run([BUILD / "bin/render_scenes", "--output", scenes, "--train", 16,
                                 "--validation", 4, "--intact"]), "render_scenes")
        return scenes

    def make_workplace(self):
        """A folder with the files that the pipeline's commands start from, and build/bin."""
        scenes, place = self.render(), self.room / "place"
        programs = place / "build/bin"
        programs.mkdir(parents=True)
        (place / "coco/weights").mkdir(parents=True)
        shutil.copytree(scenes / "annotations", place / "coco/annotations")
        for split in ("train2017", "val2017"):
            shutil.copytree(scenes / f"images/{split}", place / "coco" / split)
        self.make_yolo_set(place)
        self.make_csv_set(place)
        self.make_voc_set(place)
        self.make_imagenet(place)
        self.make_cifar10(place)
        self.make_class_folders(place)
        self.make_own_set(place)
        shutil.copytree(place / "mine/images", place / "aerial/images")
        shutil.copy(place / "mine/annotations.json", place / "aerial")
        for name, norm in (("resnet50-11ad3fa6.pt", "group"), ("resnet50-0676ba61.pt", "none")):
            self.expect_success(run([BUILD / "bin/make-checkpoint", "--backbone", "resnet18", "--head-norm",
                                     norm, "--output", place / "coco/weights" / name]), "make-checkpoint")
        for name in PROGRAMS:
            (programs / name).write_text(quick_program(name))
            (programs / name).chmod(0o755)
        return place

    def make_own_set(self, place):
        """Half of the training set as a reader's own, beside what `make weights` would have left: an
        import of torchvision's architecture on a ResNet-18."""
        (place / "mine/images").mkdir(parents=True)
        coco = json.loads((place / "coco/annotations/instances_train2017.json").read_text())
        coco["images"] = coco["images"][::2]
        ids = {image["id"] for image in coco["images"]}
        coco["annotations"] = [box for box in coco["annotations"] if box["image_id"] in ids]
        (place / "mine/annotations.json").write_text(json.dumps(coco))
        for image in coco["images"]:
            shutil.copy(place / "coco/train2017" / image["file_name"], place / "mine/images")
        file = self.room / "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth"
        for command in (["make-checkpoint", "--pth", "--backbone", "resnet18", "--classes", 91,
                         "--output", file],
                        ["retina-convert", "--import", file, "--output",
                         place / f"mine/weights/{file.stem}.pt"]):
            self.expect_success(run([BUILD / "bin" / command[0], *command[1:]]), command[0])

    def make_class_folders(self, place):
        """Images in a folder for each class."""
        classes = self.room / "classes"
        self.expect_success(run([BUILD / "bin/render_classes", "--output", classes, "--layout",
                                 "folders", "--side", 48, "--train", 40, "--validation", 10]),
                            "render_classes")
        shutil.copytree(classes / "train", place / "flowers")

    @staticmethod
    def coco_of(place, split):
        """The classes' names by id, and (image, its boxes) of every image."""
        coco = json.loads((place / f"coco/annotations/instances_{split}2017.json").read_text())
        return ({category["id"]: category["name"] for category in coco["categories"]},
                [(image, [box for box in coco["annotations"] if box["image_id"] == image["id"]])
                 for image in coco["images"]])

    def make_yolo_set(self, place):
        """Both sets in YOLO's layout: a label file beside each image's folder."""
        for split in ("train", "val"):
            names, images = self.coco_of(place, split)
            labels = {one: label for label, one in enumerate(names)}
            shutil.copytree(place / f"coco/{split}2017", place / f"yolo/images/{split}")
            (place / f"yolo/labels/{split}").mkdir(parents=True)
            for image, boxes in images:
                width, height = image["width"], image["height"]
                lines = [f"{labels[box['category_id']]} {(x + w / 2) / width} {(y + h / 2) / height} "
                         f"{w / width} {h / height}\n" for box in boxes for x, y, w, h in [box["bbox"]]]
                stem = pathlib.Path(image["file_name"]).stem
                (place / f"yolo/labels/{split}/{stem}.txt").write_text("".join(lines))
        (place / "yolo/data.yaml").write_text("train: images/train\nval: images/val\nnames:\n" + "".join(
            f"  - {json.dumps(name)}\n" for name in names.values()))

    def make_csv_set(self, place):
        """Both sets as keras-retinanet has them, with the images beside the files."""
        (place / "csv").mkdir()
        for split, name in (("train", "annotations.csv"), ("val", "val_annotations.csv")):
            names, images = self.coco_of(place, split)
            shutil.copytree(place / f"coco/{split}2017", place / f"csv/{split}")
            lines = ""
            for image, boxes in images:
                path = f"{split}/{image['file_name']}"
                lines += "" if boxes else f"{path},,,,,\n"
                for x, y, w, h, name_of in ((*box["bbox"], names[box["category_id"]]) for box in boxes):
                    lines += f"{path},{x},{y},{x + w},{y + h},{name_of}\n"
            (place / "csv" / name).write_text(lines)
        (place / "csv/classes.csv").write_text(
            "".join(f"{name},{label}\n" for label, name in enumerate(names.values())))

    def make_voc_set(self, place):
        """The training set in Pascal VOC's layout, every second image in the list."""
        names, images = self.coco_of(place, "train")
        voc = place / "VOC2012"
        shutil.copytree(place / "coco/train2017", voc / "JPEGImages")
        (voc / "Annotations").mkdir()
        (voc / "ImageSets/Main").mkdir(parents=True)
        stems = []
        for image, boxes in images:
            objects = "".join(
                f"<object><name>{names[box['category_id']]}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin>"
                f"<xmax>{x + w}</xmax><ymax>{y + h}</ymax></bndbox></object>"
                for box in boxes for x, y, w, h in [box["bbox"]])
            stems.append(pathlib.Path(image["file_name"]).stem)
            (voc / f"Annotations/{stems[-1]}.xml").write_text(
                f"<annotation><filename>{image['file_name']}</filename><size><width>{image['width']}</width>"
                f"<height>{image['height']}</height><depth>3</depth></size>{objects}</annotation>")
        (voc / "ImageSets/Main/train.txt").write_text("".join(f"{stem}\n" for stem in stems[::2]))

    @staticmethod
    def make_imagenet(place):
        """The images as two of ImageNet's classes, in the layout that Kaggle publishes."""
        data, ids = place / "ILSVRC/Data/CLS-LOC", ["n01440764", "n02119789"]
        (data / "val").mkdir(parents=True)
        for number, image in enumerate(sorted((place / "coco/train2017").iterdir())):
            folder = data / "train" / ids[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(image, folder / f"{folder.name}_{number}.JPEG")
        solution = "ImageId,PredictionString\n"
        for number, image in enumerate(sorted((place / "coco/val2017").iterdir()), 1):
            shutil.copy(image, data / f"val/ILSVRC2012_val_{number:08}.JPEG")
            solution += f"ILSVRC2012_val_{number:08},{ids[number % 2]} 1 2 30 40 \n"
        (place / "LOC_val_solution.csv").write_text(solution)
        (place / "LOC_synset_mapping.txt").write_text(f"{ids[0]} tench, Tinca tinca\n{ids[1]} kit fox\n")

    @staticmethod
    def make_cifar10(place):
        """Twenty images in each batch, all of one colour."""
        (place / "cifar-10-batches-bin").mkdir()
        for batch in ("data_batch_1", "data_batch_2", "test_batch"):
            (place / f"cifar-10-batches-bin/{batch}.bin").write_bytes(
                b"".join(bytes([i % 10]) + bytes([10 * i]) * 3072 for i in range(20)))

    def test_every_page_is_read_and_every_link_leads_somewhere(self):
        self.assertEqual(readme_commands.pages_below(SOURCE), sorted(PAGES))
        for page in [SOURCE / name for name in readme_commands.all_pages(SOURCE)]:
            for link in readme_commands.links_of(page.read_text()):
                with self.subTest(page=page.relative_to(SOURCE), link=link):
                    path, _, anchor = link.partition("#")
                    target = page.parent / path if path else page
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, readme_commands.anchors_of(target.read_text()))

    def test_every_command_parses_and_is_of_a_known_program(self):
        for name, page in PAGES.items():
            commands = [words for _, _, line in readme_commands.commands_of(page) for words in line]
            commands += readme_commands.commands_in_text(page, {"make"})
            self.assertGreaterEqual(len(commands), 2, name)
            for words in commands:
                with self.subTest(" ".join(words), page=name):
                    self.expect_known(words)
        self.assertEqual(list(self.room.iterdir()), [])

    def expect_known(self, words):
        place, script = own_program(words), script_of(words)
        if words[0] == "make":
            self.expect_success(run(["make", "--dry-run", *words[1:]]), words)
            return
        if script is not None:
            self.expect_script(script, words[1:place])
        if place is not None:
            self.assertTrue(place == 0 or words[0] in STARTERS or script is not None, words)
            program, *arguments = words[place:]
            if "--synthetic" in arguments:  # for which --check-args tries a step
                arguments += [f"--{word}={value}" for word, value in QUICK["retina-train --synthetic"].items()
                              if f"--{word}" not in arguments]
            self.expect_success(run([BUILD / "bin" / program.rsplit("/", 1)[-1], *arguments,
                                     "--check-args"], cwd=self.room), words)
        elif script is None:
            self.assertIn(words[0], FOREIGN, "a program that this test does not know")

    def expect_script(self, script, arguments):
        """It parses, and names every option that it is given before `--`."""
        self.expect_success(run(["bash", "-n", script]), script)
        own = arguments[:arguments.index("--")] if "--" in arguments else arguments
        given = {word[2:].partition("=")[0] for word in own if word.startswith("--")}
        self.assertEqual(given - options_of_script(script), set(), script)

    def run_commands(self, place, pages, is_small=False):
        """Runs those of our programs that need nothing but `place`; `is_small`: on two ranks, by SMALL."""
        small = {"RETINA_SMALL": "1"} if is_small else {}
        ran = []
        for line, words in [(line, commands[0]) for page in pages
                            for _, line, commands in readme_commands.commands_of(PAGES[page])]:
            program = own_program(words)
            if program is None or words[0] not in ("mpirun", words[program]):
                continue
            if not words[program].startswith("build/bin/") or "cuda" in words:
                continue
            if is_small:
                line = line.replace("mpirun -np 8", "mpirun -np 2")
            done = run(["bash", "-euo", "pipefail", "-c", line], cwd=place, **small)
            if done.returncode == NO_INPUT and READERS_OWN & set(words):
                print("parsed  ", line)  # starts from a file that only its reader has
                continue
            self.expect_success(done, line)
            print("ran     ", line)
            ran.append(words[program].rsplit("/", 1)[-1])
        self.assertEqual(set(ran), set(PROGRAMS))

    def test_the_pipelines_commands_do_what_they_say(self):
        place = self.make_workplace()
        self.run_commands(place, [page for page in PAGES if not page.startswith("docs/")])
        stats = json.loads((place / "evaluation/metrics.json").read_text())["stats"]
        self.assertEqual(len(stats), 12)
        for name in ("model.onnx", "scored/metrics.json", "on-4/metrics.jsonl", "served",
                     "mine/run/report.html"):
            self.assertTrue((place / name).exists(), name)

    def test_the_commands_of_docs_do_what_they_say(self):
        place = self.make_workplace()
        for line in BEFORE_DOCS:
            self.expect_success(run(line.split(), cwd=place), line)
        self.run_commands(place, [page for page in PAGES if page.startswith("docs/")], is_small=True)
        for name in ("yolo.onnx", "csv.onnx", "found-yolo/labels", "found-faq/detections.csv",
                     "aerial-evaluation/metrics.json"):
            self.assertTrue((place / name).exists(), name)

    def test_make_coco_fetches(self):
        (self.room / "mirror").mkdir()
        data = self.room / "coco"
        with CocoMirror(self.room / "mirror") as mirror:
            done = run(["make", "coco", f"DATA={data}"], **mirror.environment())
        self.expect_success(done, "make coco")
        self.assertEqual(sorted(os.listdir(data)), ["annotations", "train2017", "val2017"])

    def test_every_option_of_the_text_exists(self):
        known = set()
        for name in PROGRAMS:
            known |= set(re.findall(r"--([a-z][a-z0-9-]+)", run([BUILD / "bin" / name, "--help"]).stdout))
        for script in [*SOURCE.glob("jobs/*.sh"), *SOURCE.glob("docker/*.sh"),
                       SOURCE / "docker/retina-launch", SOURCE / "docker/retina-run", SOURCE / "tests/gpu/run.sh"]:
            known |= options_of_script(script)
        own = {page: readme_commands.without_first_column(text) if "coming-from" in page else text
               for page, text in PAGES.items()}
        used = {(page, option) for page, text in own.items()
                for option in readme_commands.options_in_text(text, FOREIGN)}
        self.assertGreater(len({option for _, option in used}), 50)
        self.assertEqual(sorted((page, option) for page, option in used if option not in known), [])

    def test_other_tools_options_are_answered_as_their_pages_have_them(self):
        train = BUILD / "bin/retina-train"
        own = set(re.findall(r"--([a-z][a-z0-9-]+)", run([train, "--help"]).stdout))
        asked = 0
        for tool in ("ultralytics", "torchvision", "keras-retinanet"):
            section = PAGES[f"docs/coming-from-{tool}.md"].split("\n## Options of")[1].split("\n## ")[0]
            for theirs, ours, *_ in readme_commands.table_rows(section)[1:]:
                options = re.findall(r"--[a-z][a-z0-9-]+", ours)
                for span in readme_commands.spans_of(theirs):
                    name = re.match(r"(?:--)?(\w[\w-]*)", span).group(1)
                    if not options or name.replace("_", "-") in own:
                        continue  # we have nothing of the kind, or the same name
                    with self.subTest(name, page=tool):
                        answer = run([train, f"--{name}", "1"]).stderr
                        self.assertTrue(any(option in answer for option in options), answer)
                        asked += 1
        self.assertGreater(asked, 40)


if __name__ == "__main__":
    unittest.main()
