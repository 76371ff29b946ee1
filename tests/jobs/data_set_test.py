"""docker/data_set.sh: which data set it sees in a folder, for the layouts that tools and platforms export.
The files are empty or hold just what the rules look at."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "docker/data_set.sh"
# What was found, a line a split: format, annotations, images, classes. What is made goes into OUT.
ASK = """
fail() { echo "$1: ${*:2}"; exit; }
. "$1"
output=$3
find_data_set "$2"
for split in train val; do
  [ -z "${images_of[$split]-}" ] ||
    echo "$split|$format|${annotations_of[$split]}|${images_of[$split]}|$classes"
done
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
        told = done.stdout.replace(str(self.output), "OUT").replace(f"{self.root}/", "")
        return told.replace(str(self.root), ".").splitlines()

    def links(self, split):
        """The files below OUT/lists/SPLIT with what they lead to."""
        made = self.output / "lists" / split
        return {str(path.relative_to(made)): str(path.resolve().relative_to(self.root))
                for path in sorted(made.rglob("*")) if path.is_file()}

    def expect(self, files, form, train, val=None):
        """`train` and `val`: annotations, images and, where there is one, the file of classes."""
        wanted = [(split, form, *found, *[""] * (3 - len(found)))
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
                    ("data.yaml", "train"), ("data.yaml", "valid"))

    def test_yolo_whose_yaml_has_names_alone(self):
        for files in (["images/train/1.jpg", "images/val/2.jpg"], ["train/images/1.jpg", "valid/images/2.jpg"]):
            self.expect({"data.yaml": "names: [a]"} | dict.fromkeys(files, ""), "yolo",
                        *(("data.yaml", name.removesuffix("/1.jpg").removesuffix("/2.jpg").removesuffix("/images")) for name in files))
        self.expect({"my.yaml": "\ufeffnames:\r\n- a\r\n", "images/1.jpg": ""}, "yolo", ("my.yaml", "images"))

    def test_yolo_with_lists_of_folders(self):
        files = {f"{name}/images/a {name}.jpg": "" for name in ("day", "night", "rain")}
        files |= {"day/labels/a day.txt": LABEL, "night/images/a night.txt": LABEL}
        for lists in ("train: [day/images, 'night/images']\nval: [rain/images]\n",
                      "train:\n  - day/images\n  # more\n  - \"./night/images\"\nval:\n- rain/images\n",
                      "val: rain/images\ntrain: [day/images,\n  night/images]\n"):
            self.expect({"data.yaml": lists + "names: [a]\n"} | files, "yolo",
                        ("data.yaml", "OUT/lists/train/images"), ("data.yaml", "rain/images"))
            self.assertEqual(self.links("train"), {
                "images/1/a day.jpg": "day/images/a day.jpg", "labels/1/a day.txt": "day/labels/a day.txt",
                "images/2/a night.jpg": "night/images/a night.jpg",
                "labels/2/a night.txt": "night/images/a night.txt"})

    def test_yolo_with_a_text_file_of_paths(self):
        files = {"data.yaml": "train: train.txt\nnames: [a]\n", "labels/1.txt": LABEL, "images/1.jpg": "",
                 "images/2.jpg": ""}
        for path in ("./images/1.jpg", "images/1.jpg\r", "/home/me/set/images/1.jpg"):
            self.expect(files | {"train.txt": f"{path}\n\n"}, "yolo", ("data.yaml", "OUT/lists/train/images"))
            self.assertEqual(self.links("train"), {"images/1/1.jpg": "images/1.jpg",
                                                   "labels/1/1.txt": "labels/1.txt"})
        self.assertEqual(self.refusal(files | {"train.txt": "images/3.jpg\n"}),
                         "66: train.txt: the image images/3.jpg is not in .")

    def test_yolo_without_a_yaml_but_with_names(self):
        self.expect({"classes.txt": "cat\r\nit's a dog\n\n", "notes.json": '{"categories": []}',
                     "images/1.jpg": "", "labels/1.txt": LABEL}, "yolo", ("classes.txt", "images"))
        for folder in ("", "images/"):  # labelImg
            self.expect({f"{folder}classes.txt": "cat\n", f"{folder}1.jpg": "", f"{folder}1.txt": LABEL}, "yolo",
                        (f"{folder}classes.txt", folder.rstrip("/") or "."))
        self.expect({"obj.names": "cat\n", "obj.data": "", "train.txt": "data/obj_train_data/1.jpg\n",
                     "obj_train_data/1.jpg": "", "obj_train_data/1.txt": LABEL}, "yolo",
                    ("obj.names", "OUT/lists/train/images"))
        self.assertEqual(self.links("train"), {"images/1/1.jpg": "obj_train_data/1.jpg",
                                               "labels/1/1.txt": "obj_train_data/1.txt"})

    def test_voc_itself_and_with_lists(self):
        files = dict.fromkeys(["Annotations/1.xml", "JPEGImages/1.jpg"], "")
        for folder in ("", "VOC2012/", "VOCdevkit/VOC2012/"):
            self.expect({folder + name: "" for name in files}, "voc",
                        (f"{folder}Annotations", f"{folder}JPEGImages"))
        lists = dict.fromkeys(["ImageSets/Main/train.txt", "ImageSets/Main/val.txt"], "")
        self.expect(files | lists, "voc", ("ImageSets/Main/train.txt", "JPEGImages"),
                    ("ImageSets/Main/val.txt", "JPEGImages"))
        self.assertIn("more than one data set: say which, for example retina-run VOCdevkit/VOC2007",
                      self.refusal([f"VOCdevkit/VOC20{year}/{name}" for year in ("07", "12") for name in files]))

    def test_voc_in_lower_case_and_beside_the_images(self):
        self.expect(["annotations/1.xml", "images/1.png"], "voc", ("annotations", "images"))
        self.expect(["annots/00001.xml", "images/00001.jpg"], "voc", ("annots", "images"))
        self.expect(["images/1.xml", "images/1.jpg", "classes.txt"], "voc", ("images", "images"))
        self.expect(["1.xml", "1.jpg"], "voc", (".", "."))

    def test_the_splits_of_voc_are_lists_of_one_set_which_numbers_its_classes_once(self):
        for train, val in (("images/train", "images/test"), ("train", "valid")):
            self.expect([f"{train}/1.xml", f"{train}/1.jpg", f"{val}/2.jpg", f"{val}/2.b.XML", f"{val}/._2.xml"],
                        "voc", ("OUT/lists/voc/ImageSets/Main/train.txt", "OUT/lists/voc/JPEGImages"),
                        ("OUT/lists/voc/ImageSets/Main/val.txt", "OUT/lists/voc/JPEGImages"))
            made = self.output / "lists/voc"
            self.assertEqual((made / "ImageSets/Main/train.txt").read_text(), "train/1\n")
            self.assertEqual((made / "ImageSets/Main/val.txt").read_text(), "val/2.b\n")
            self.assertTrue((made / "Annotations/val/2.b.XML").is_file())
            self.assertTrue((made / "JPEGImages/train/1.jpg").is_file())

    def test_csv_beside_its_images(self):
        rows = "{0}/1.jpg,1,2,30,40,cat\n{0}/2.jpg,,,,,\n".format("images")
        self.expect({"annotations.csv": rows, "classes.csv": "cat,0\n", "images/1.jpg": ""}, "csv",
                    ("annotations.csv", ".", "classes.csv"))

    def test_csv_of_two_splits(self):
        for train, val, images in (("train/_annotations.csv", "valid/_annotations.csv", ("train", "valid")),
                                   ("train_labels.csv", "test_labels.csv", ("images", "images"))):
            for head, row in (("", "{}.jpg,1,2,3,4,dog\r\n"), ("image_id,width,height,bbox\n", '{},9,9,"[1, 2, 3, 4]"\n'),
                              ('filename,width,height,class,"xmin",ymin,xmax,ymax\n', "{}.jpg,9,9,dog,1,2,3,4\n")):
                self.expect({train: head + row.format("a"), val: head + row.format("b"),
                             f"{images[0]}/a.jpg": "", f"{images[1]}/b.jpg": ""}, "csv",
                            (train, images[0]), (val, images[1]))

    def test_xview(self):
        feature = '{{"type": "FeatureCollection", "features": [{{"properties": {{"bounds_imcoords": "1,2,3,4", "image_id": "{}"'
        files = {"xView_train.geojson": feature.format("2355.tif"), "train_images/10.tif": "", "train_images/2355.tif": "",
                 "val_images/11.tif": ""}  # whose annotations were never published
        self.expect(files, "xview", ("xView_train.geojson", "train_images"))
        files |= {"xview_class_labels.txt": "11:Fixed-wing Aircraft\n"}
        self.expect({f"xview/{name}": text for name, text in files.items()}, "xview",
                    ("xview/xView_train.geojson", "xview/train_images", "xview/xview_class_labels.txt"))
        files |= {"my_val.geojson": feature.format("11.tif")}
        self.expect(files, "xview", ("xView_train.geojson", "train_images", "xview_class_labels.txt"),
                    ("my_val.geojson", "val_images", "xview_class_labels.txt"))
        self.refusal({"roads.geojson": '{"type": "FeatureCollection"}', "train/1.tif": "", "more/2.tif": ""})

    def test_dota(self):
        text = "imagesource:GoogleEarth\n1 2 3 2 3 4 1 4 ship 0\n"
        self.expect({f"{split}/{name}": text for split in ("train", "val", "test") for name in (
            "images/P1.png", "images/P1.png.aux.xml", *(["labelTxt/P1.txt"] if split != "test" else []))}, "dota",
                    ("train/labelTxt", "train/images"), ("val/labelTxt", "val/images"))
        self.expect({"train/images/P1.png": "", "train/labelTxt-v1.0/P1.txt": text,
                     "train/labelTxt-v1.5/DOTA-v1.5_train/P1.txt": text,
                     "train/labelTxt-v1.5/DOTA-v1.5_train_hbb/P1.txt": text}, "dota",
                    ("train/labelTxt-v1.5/DOTA-v1.5_train", "train/images"))
        self.expect({"DOTA/images/P1.png": "", "DOTA/labelTxt/P1.txt": text}, "dota", ("DOTA/labelTxt", "DOTA/images"))
        self.expect({"images/train/P1.png": "", "labelTxt/train/P1.txt": text, "images/val/P2.png": "",
                     "labelTxt/val/P2.txt": text}, "dota",
                    ("labelTxt/train", "images/train"), ("labelTxt/val", "images/val"))

    def test_folders_of_classes(self):
        self.expect(["train/cat/1.jpg", "train/dog/1.JPEG", "val/cat/2.jpg"], "folders", ("", "train"), ("", "val"))
        self.expect(["cat/1.png", "dog/more/2.png"], "folders", ("", "."))
        self.expect({"train.csv": "path,label,is_valid\ntrain/a/1.jpg,a,False\n", "train/a/1.jpg": "",
                     "train/b/1.jpg": ""}, "folders", ("", "train"))
        self.expect(["data_batch_1.bin", "test_batch.bin"], "cifar10", ("", "."), ("", "test_batch.bin"))

    def test_an_archives_own_folder_and_droppings_do_not_matter(self):
        self.expect(["flowers/rose/1.jpg", "flowers/lily/2.jpg", "__MACOSX/flowers/._1.jpg", ".git/config",
                     "LICENSE.txt"], "folders", ("", "flowers"))
        self.expect(["archive/data/annotations/1.xml", "archive/data/images/1.jpg"], "voc",
                    ("archive/data/annotations", "archive/data/images"))
        self.expect(["Annotations/1.xml", "Annotations/._1.xml", "JPEGImages/1.jpg", "._Annotations"], "voc",
                    ("Annotations", "JPEGImages"))

    def test_detection_data_are_never_taken_for_classes(self):
        names = "no file that names the classes; write one"
        lost = "no annotations and images that belong together were found"
        plain = "nothing that says what is on them"
        for files, wanted in (
                (["images/a/1.jpg", "images/b/2.jpg", "labels/a/1.txt", "labels/b/2.txt"], names),
                (["train/images/1.jpg", "train/labels/1.txt", "valid/images/2.jpg"], names),
                (["Annotations/1.mat", "JPEGImages/a/1.jpg", "JPEGImages/b/1.jpg"], lost),
                (["annotations/captions.json", "train2017/1.jpg", "val2017/2.jpg"], lost),
                (["train/1.jpg", "val/2.jpg"], plain), (["photographs/1.jpg", "photographs/2.jpg"], plain),
                (["a/1.jpg", "a/1.json", "b/2.jpg", "b/2.json"], plain),
                ({"a/1.jpg": "", "a/1.txt": LABEL, "b/2.jpg": ""}, names),
                ({"train/_annotations.createml.json": "[]", "train/a/1.jpg": "", "train/b/2.jpg": ""}, lost),
                (["obj.data", "cats/1.jpg", "dogs/1.jpg"], lost), (["train/1.jpg", "train/labels/1.txt"], lost),
                (["images/cat/1.jpg", "images/dog/2.jpg"], lost),
                (["readme.txt"], "holds no data set of COCO, YOLO, Pascal VOC, CSV, xView, DOTA or CIFAR-10")):
            self.assertIn(wanted, self.refusal(files))

    def test_a_path_of_the_yaml_that_leads_nowhere_is_refused(self):
        self.assertEqual(
            self.refusal({"data.yaml": "train: /mnt/x/images\nnames: [a]\n", "images/1.jpg": ""}),
            '66: data.yaml: train: "/mnt/x/images" is neither a folder nor a file in .; correct the line')
        files = {"data.yaml": "train: images\nval: valid/images\nnames: [a]\n", "images/1.jpg": ""}
        self.assertIn("; correct the line, or remove it to have a tenth of the images set aside",
                      self.refusal(files))
        files["data.yaml"] = "train: images\ntest: ../test/images\nnames: [a]\n"  # Roboflow writes it always
        self.expect(files, "yolo", ("data.yaml", "images"))

    def test_a_path_with_a_step_too_many_does_not_lead_out_of_the_folder(self):
        self.make(["images/1.jpg"])
        other = self.root.parent / "train/images"
        other.mkdir(parents=True)
        self.expect({"data.yaml": "train: ../train/images\nnames: [a]\n", "train/images/1.jpg": ""}, "yolo",
                    ("data.yaml", "train/images"))


if __name__ == "__main__":
    unittest.main()
