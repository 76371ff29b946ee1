"""jobs/data_set.sh: which data set it sees in a folder, for the layouts that tools and platforms export.
The files are empty or hold just what the rules look at."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs/data_set.sh"
# What was found, a line a split: format, annotations, images, list, classes.
ASK = """
fail() { echo "$1: ${*:2}"; exit; }
. "$1"
output=$3
find_data_set "$2"
find_split train || exit
of_training=$annotations
tell() { echo "$1|$format|$annotations|$images|$list|$classes"; }
tell train
if find_split val; then share_classes "$of_training" "$annotations"; tell val; fi
"""
BOX = "<annotation><filename>a.jpg</filename>{}</annotation>"
LABEL = "0 0.5 0.5 0.1 0.1\n"


def coco(*names):
    """Instances JSON with images of these names."""
    return json.dumps({"images": [{"id": i, "file_name": name} for i, name in enumerate(names)],
                       "annotations": []})


class DataSet(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.output = pathlib.Path(room.name) / "out"
        self.root = pathlib.Path(room.name) / "my data"

    def make(self, files):
        """A folder with these files: a list of empty ones, or a dictionary with their text."""
        shutil.rmtree(self.root, ignore_errors=True)
        for name in files:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name] if isinstance(files, dict) else "", encoding="utf-8")

    def answer(self, files):
        self.make(files)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", ASK, "-", SCRIPT, self.root, self.output],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.stdout.replace(f"{self.root}/", "").replace(str(self.root), ".").splitlines()

    def expect(self, files, form, train, val=None):
        """`train` and `val`: annotations and images, and where there are any list and classes."""
        wanted = [(split, form, *found, *[""] * (4 - len(found)))
                  for split, found in (("train", train), ("val", val)) if found]
        self.assertEqual([tuple(line.split("|")) for line in self.answer(files)], wanted)

    def refusal(self, files):
        (line,) = self.answer(files)
        self.assertRegex(line, "^66: ")
        return line

    def test_coco_itself_and_with_test_images(self):
        self.expect({"annotations/instances_train2017.json": "", "annotations/instances_val2017.json": "",
                     "annotations/captions_train2017.json": coco("1.jpg"), "train2017/1.jpg": "",
                     "annotations/person_keypoints_val2017.json": coco("1.jpg"), "val2017/2.jpg": "",
                     "test2017/3.jpg": "", "annotations/image_info_test2017.json": coco("3.jpg")}, "coco",
                    ("annotations/instances_train2017.json", "train2017"),
                    ("annotations/instances_val2017.json", "val2017"))

    def test_coco_of_roboflow(self):
        self.expect({f"{split}/{name}": text for split in ("train", "valid", "test") for name, text in (
            ("_annotations.coco.json", coco("a.rf.12.jpg")), ("a.rf.12.jpg", ""))} | {"README.roboflow.txt": ""},
                    "coco", ("train/_annotations.coco.json", "train"), ("valid/_annotations.coco.json", "valid"))

    def test_coco_of_cvat_and_of_label_studio(self):
        self.expect({"annotations/instances_default.json": coco("a.jpg"), "images/default/a.jpg": ""},
                    "coco", ("annotations/instances_default.json", "images/default"))
        self.expect({"annotations/instances_Train.json": coco("a.jpg"), "images/Train/a.jpg": "",
                     "annotations/instances_Validation.json": coco("b.png"), "images/Validation/b.png": ""},
                    "coco", ("annotations/instances_Train.json", "images/Train"),
                    ("annotations/instances_Validation.json", "images/Validation"))
        self.expect({"result.json": coco("images/1/a.jpg"), "images/1/a.jpg": ""},
                    "coco", ("result.json", "."))

    def test_coco_with_files_of_other_names(self):
        self.expect({"train.json": coco("a.jpg"), "val.json": coco("b.jpg"), "interval.json": "{}",
                     "Images/a.jpg": "", "Images/b.jpg": "", "test.json": coco("b.jpg")},
                    "coco", ("train.json", "Images"), ("val.json", "Images"))
        self.expect({"labels.json": coco("0001/a.jpg"), "data/frames/0001/a.jpg": ""},
                    "coco", ("labels.json", "data/frames"))

    def test_yolo_of_roboflow_with_a_step_too_many(self):
        yaml = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\nnames: ['a', 'b']\n"
        files = {f"{split}/{kind}/1.{end}": "" for split in ("train", "valid", "test")
                 for kind, end in (("images", "jpg"), ("labels", "txt"))}
        self.expect({"data.yaml": yaml} | files, "yolo",
                    ("data.yaml", "train/images"), ("data.yaml", "valid/images"))
        # Paths of another machine; no validation images.
        yaml = "names: {0: a}\ntrain: /content/datasets/x-1/train/images  # colab\nval:\n"
        self.expect({"x.yml": yaml, "train/images/1.jpg": ""}, "yolo", ("x.yml", "train/images"))

    def test_yolo_of_ultralytics(self):
        yaml = "path: ../datasets/coco128 # root\ntrain: images/train2017\nval: images/train2017\nnames:\n  0: a\n"
        self.expect({"coco128.yaml": yaml, "other.yaml": "x: 1", "images/train2017/1.jpg": ""}, "yolo",
                    ("coco128.yaml", "images/train2017"), ("coco128.yaml", "images/train2017"))
        self.expect({"data.yaml": "path: .\ntrain: train\nval: \"valid\"\nnames: [a]\n", "valid/images/2.jpg": "",
                     "train/images/1.jpg": ""}, "yolo",
                    ("data.yaml", "train/images"), ("data.yaml", "valid/images"))

    def test_yolo_whose_yaml_has_names_alone(self):
        for files in (["images/train/1.jpg", "images/val/2.jpg"], ["train/images/1.jpg", "valid/images/2.jpg"]):
            self.expect({"data.yaml": "names: [a]"} | dict.fromkeys(files, ""), "yolo",
                        *(("data.yaml", name.rsplit("/", 1)[0]) for name in files))
        self.expect({"my.yaml": "\ufeffnames:\r\n- a\r\n", "images/1.jpg": ""}, "yolo", ("my.yaml", "images"))

    def test_yolo_with_lists(self):
        files = {f"{name}/images/{name}.jpg": "" for name in ("day", "night", "rain")}
        for lists in ("train: [day/images, 'night/images']\nval: [rain/images]\n",
                      "train:\n  - day/images\n  # more\n  - \"./night/images\"\nval:\n- rain/images\n",
                      "val: rain/images\ntrain: [day/images,\n  night/images]\n"):
            self.expect({"data.yaml": lists + "names: [a]\n"} | files, "yolo",
                        ("data.yaml", ".", str(self.output / "lists/train.txt")), ("data.yaml", "rain/images"))
            self.assertEqual((self.output / "lists/train.txt").read_text().splitlines(),
                             [f"{self.root}/{name}/images/{name}.jpg" for name in ("day", "night")])
        self.expect({"data.yaml": "train: train.txt\nnames: [a]\n", "train.txt": "./images/1.jpg\n",
                     "images/1.jpg": ""}, "yolo", ("data.yaml", ".", "train.txt"))

    def test_yolo_without_a_yaml_but_with_names(self):
        made = str(self.output / "data.yaml")
        self.expect({"classes.txt": "cat\r\nit's a dog\n\n", "notes.json": '{"categories": []}',
                     "images/1.jpg": "", "labels/1.txt": LABEL}, "yolo", (made, "images"))
        self.assertEqual((self.output / "data.yaml").read_text(),
                         f"path: '{self.root}'\nnames:\n- 'cat'\n- 'it''s a dog'\n")
        self.expect({"obj.names": "cat\n", "obj.data": "", "train.txt": "data/obj_train_data/1.jpg\n",
                     "obj_train_data/1.jpg": "", "obj_train_data/1.txt": LABEL}, "yolo", (made, ".", "train.txt"))

    def test_voc_itself_and_with_lists(self):
        files = dict.fromkeys(["Annotations/1.xml", "JPEGImages/1.jpg"], "")
        for folder in ("", "VOC2012/", "VOCdevkit/VOC2012/"):
            self.expect({folder + name: "" for name in files}, "voc",
                        (f"{folder}Annotations", f"{folder}JPEGImages"))
        lists = dict.fromkeys(["ImageSets/Main/train.txt", "ImageSets/Main/val.txt"], "")
        self.expect(files | lists, "voc", ("ImageSets/Main/train.txt", "JPEGImages"),
                    ("ImageSets/Main/val.txt", "JPEGImages"))
        self.assertIn("more than one data set: say which, for example DATA=VOCdevkit/VOC2007",
                      self.refusal([f"VOCdevkit/VOC20{year}/{name}" for year in ("07", "12") for name in files]))

    def test_voc_in_lower_case_and_beside_the_images(self):
        self.expect(["annotations/1.xml", "images/1.png"], "voc", ("annotations", "images"))
        self.expect(["images/1.xml", "images/1.jpg", "classes.txt"], "voc", ("images", "images"))
        self.expect(["1.xml", "1.jpg"], "voc", (".", "."))
        self.expect(["images/train/1.xml", "images/train/1.jpg", "images/test/2.jpg", "images/test/2.xml"],
                    "voc", ("images/train", "images/train"),
                    ("images/test", "images/test", "", str(self.output / "classes.csv")))

    def test_the_splits_of_voc_number_their_classes_together(self):
        def objects(*names):
            return BOX.format("".join(f"<object>\n\t<name>{name}</name><part><name>head</name></part></object>"
                                      for name in names))
        self.expect({"train/1.xml": objects("dog", "a &amp; b"), "train/1.jpg": "", "valid/2.jpg": "",
                     "valid/2.xml": objects(" cat, black ", "dog")}, "voc", ("train", "train"),
                    ("valid", "valid", "", str(self.output / "classes.csv")))
        self.assertEqual((self.output / "classes.csv").read_text(), '"a & b",1\n"cat, black",2\n"dog",3\n')

    def test_csv_beside_its_images(self):
        rows = "{}/1.jpg,1,2,30,40,cat\n{}/2.jpg,,,,,\n"
        self.expect({"annotations.csv": rows.format("images", "images"), "classes.csv": "cat,0\n",
                     "images/1.jpg": ""}, "csv", ("annotations.csv", ".", "", "classes.csv"))
        head = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
        self.expect({f"{split}/_annotations.csv": f"{head}{split}.jpg,640,480,{name},1,2,3,4\n"
                     for split, name in (("train", "dog"), ("valid", '"cat"'))}
                    | {"train/train.jpg": "", "valid/valid.jpg": ""}, "csv", ("train/_annotations.csv", "train"),
                    ("valid/_annotations.csv", "valid", "", str(self.output / "classes.csv")))
        self.assertEqual((self.output / "classes.csv").read_text(), '"cat",1\n"dog",2\n')
        self.expect({"train_labels.csv": "a.jpg,1,2,3,4,x\n", "test_labels.csv": "b.jpg,1,2,3,4,x\n",
                     "images/a.jpg": "", "images/b.jpg": ""}, "csv", ("train_labels.csv", "images"),
                    ("test_labels.csv", "images", "", str(self.output / "classes.csv")))

    def test_folders_of_classes(self):
        self.expect(["train/cat/1.jpg", "train/dog/1.JPEG", "val/cat/2.jpg"], "folders", ("", "train"), ("", "val"))
        self.expect(["cat/1.png", "dog/more/2.png"], "folders", ("", "."))
        self.expect({"train.csv": "path,label,is_valid\ntrain/a/1.jpg,a,False\n", "train/a/1.jpg": "",
                     "train/b/1.jpg": ""}, "folders", ("", "train"))
        self.expect(["data_batch_1.bin", "test_batch.bin"], "cifar10", ("", "."), ("", "test_batch.bin"))

    def test_an_archives_own_folder_and_droppings_do_not_matter(self):
        self.expect(["flowers/rose/1.jpg", "flowers/lily/2.jpg", "__MACOSX/flowers/._1.jpg", ".git/config",
                     "LICENSE.txt"], "folders", ("", "flowers"))
        self.expect(["Annotations/1.xml", "Annotations/._1.xml", "JPEGImages/1.jpg", "._Annotations"], "voc",
                    ("Annotations", "JPEGImages"))

    def test_detection_data_are_never_taken_for_classes(self):
        names = "no YAML file that names the classes; write one"
        lost = "no annotations and images that belong together were found"
        plain = "nothing that says what is on them"
        for files, wanted in (
                (["images/a/1.jpg", "images/b/2.jpg", "labels/a/1.txt", "labels/b/2.txt"], names),
                (["train/images/1.jpg", "train/labels/1.txt", "valid/images/2.jpg"], names),
                (["Annotations/1.mat", "JPEGImages/a/1.jpg", "JPEGImages/b/1.jpg"], lost),
                (["annotations/captions.json", "train2017/1.jpg", "val2017/2.jpg"], lost),
                (["train/1.jpg", "val/2.jpg"], plain), (["photographs/1.jpg", "photographs/2.jpg"], plain),
                (["a/1.jpg", "a/1.json", "b/2.jpg", "b/2.json"], plain),
                ({"a/1.jpg": "", "a/1.txt": LABEL, "b/2.jpg": ""}, plain),
                (["readme.txt"], "holds no data set of COCO, YOLO, Pascal VOC, CSV or CIFAR-10")):
            self.assertIn(wanted, self.refusal(files))

    def test_a_path_of_the_yaml_that_leads_nowhere_is_refused(self):
        self.assertEqual(
            self.refusal({"data.yaml": "train: /mnt/x/images\nnames: [a]\n", "images/1.jpg": ""}),
            '66: data.yaml: train: "/mnt/x/images" is neither a folder nor a file in DATA=.')


if __name__ == "__main__":
    unittest.main()
