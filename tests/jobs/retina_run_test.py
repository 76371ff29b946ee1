"""docker/retina-run with stand-ins for the programs and for mpirun: with how many ranks it starts what, with
which options. Then `make demo` with the programs themselves. Which data sets it sees: data_set_test.py."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from mirror import WeightsMirror

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "docker/retina-run"
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()

# Writes its name and words into a file, a line each call.
STAND_IN = """#!/usr/bin/env bash
if [ "$1" = --version ]; then echo "GPUs seen $GPUS"; exit; fi
if [ "$1" = --help=json ]; then echo '{"options":[{"name":"epochs","group":"Schedule"}]}'; exit; fi
case " $* " in *" --check-args "*) echo "info: size tiny at 320 px, chosen because it fits"; exit ;; esac
echo "${0##*/} $*" >>"$CALLS"
echo "${RETINA_WEIGHTS-}" >"$CALLS.${0##*/}"
"""
# More ranks than cores, as root, in a container.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
PROGRAMS = ("coco-pack", "retina-train", "retina-eval", "retina-convert", "mpirun")


class RetinaRun(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.enterContext(unittest.mock.patch.dict(os.environ))
        os.environ.pop("RETINA_WEIGHTS", None)
        for name in PROGRAMS:
            (self.room / name).write_text(STAND_IN)
            (self.room / name).chmod(0o755)
        for split in ("train", "val"):
            self.make(f"images/{split}/1.jpg", f"annotations/instances_{split}.json")

    def make(self, *names):
        for name in names:
            path = self.room / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def start(self, gpus, *options, data=None, output="out"):
        (self.room / "calls").unlink(missing_ok=True)
        return subprocess.run(
            [SCRIPT, "--bin", self.room, data or self.room / "data", *(["--output", self.room / output] if output else []),
             *options], capture_output=True, text=True, timeout=60,
            env={"WEIGHTS_URL": "http://127.0.0.1:9/"} | os.environ |
                {"PATH": f"{self.room}:{os.environ['PATH']}", "GPUS": str(gpus), "CALLS": str(self.room / "calls")})

    def calls(self, gpus, *options, output="out"):
        done = self.start(gpus, *options, output=output)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split() for line in (self.room / "calls").read_text().splitlines()]

    def refusal(self, code, *options, data=None):
        """What is said, a line of make's words."""
        done = self.start(1, *options, data=data)
        self.assertEqual(done.returncode, code, done.stderr)
        (line,) = done.stderr.splitlines()
        return line

    def ranks_of_training(self, gpus, *options):
        training, = [call for call in self.calls(gpus, *options) if "--train" in call]
        return int(training[training.index("-np") + 1]) if training[0] == "mpirun" else 1

    def test_a_rank_starts_for_each_gpu_that_the_program_sees(self):
        self.assertEqual(self.ranks_of_training(1), 1)
        self.assertEqual(self.ranks_of_training(3), 3)
        self.assertEqual(self.ranks_of_training(8, "--most-ranks", "4"), 4)
        self.assertEqual(self.ranks_of_training(1, "--most-ranks", "4"), 1)
        self.assertEqual(self.ranks_of_training(3, "--", "--device", "cpu"), 1)

    def test_one_rank_starts_where_there_is_no_gpu(self):
        self.assertEqual(self.ranks_of_training(0), 1)

    def test_the_number_of_ranks_can_be_given(self):
        self.assertEqual(self.ranks_of_training(1, "--ranks", "2"), 2)

    def packs(self, *options):
        return [call[1:] for call in self.calls(1, *options) if call[0] == "coco-pack"]

    def packed(self, form, annotations, images, output, *options):
        data, out = self.room / "data", self.room / "out"
        return ["--format", form, *(["--annotations", f"{data}/{annotations}"] if annotations else []),
                "--images", f"{data}/{images}".rstrip("/"), "--output", f"{out}/{output}", *options]

    def clear_data(self):
        shutil.rmtree(self.room / "data")
        (self.room / "data").mkdir()

    def test_both_splits_are_packed(self):
        self.assertEqual(self.packs(), [
            self.packed("coco", f"annotations/instances_{split}.json", f"images/{split}",
                        f"shards/{split}") for split in ("val", "train")])

    def test_one_split_alone_is_packed_in_two_which_is_told(self):
        data, out = self.room / "data", self.room / "out"
        (data / "annotations/instances_val.json").unlink()
        self.assertEqual(self.packs(), [self.packed(
            "coco", "annotations/instances_train.json", "images/train", "shards", "--split", "0.9")])
        done = self.start(1)
        self.assertIn("has no validation images: about a tenth of its images is set aside", done.stdout)
        training, = [call for call in self.calls(1) if "--train" in call]
        self.assertEqual(training[training.index("--train") + 1], f"{out}/shards/train")
        self.assertEqual(training[training.index("--validation") + 1], f"{out}/shards/validation")

    def test_options_of_coco_pack_and_of_retina_train_reach_them(self):
        options = ["--exif", "apply", "--check", "header"]
        calls = self.calls(1, "--pack", *options, "--", "--epochs", "3")
        self.assertEqual([call[-4:] for call in calls if call[0] == "coco-pack"], [options] * 2)
        training, = [call for call in calls if "--train" in call]
        self.assertEqual(training[-2:], ["--epochs", "3"])

    def test_a_training_finds_weights_by_their_names_in_the_data_folder(self):
        self.make("weights/resnet50-11ad3fa6.pt")
        self.calls(1, "--", "--init", "imagenet-v2")
        self.assertEqual((self.room / "calls.retina-train").read_text(), f"{self.room}/data/weights\n")
        with unittest.mock.patch.dict(os.environ, RETINA_WEIGHTS="/own"):
            self.calls(1, "--", "--init", "none")
        self.assertEqual((self.room / "calls.retina-train").read_text(), "/own\n")

    def test_images_that_are_no_jpegs_are_converted(self):
        (self.room / "data/images/val/1.jpg").rename(self.room / "data/images/val/1.PNG")
        validation, training = self.packs()
        self.assertEqual((validation[-1], "--convert" in training), ("--convert", False))
        self.assertEqual([pack.count("--convert") for pack in self.packs("--pack", "--convert")], [1, 1])

    def test_classes_of_a_file_beside_the_data_give_way_to_those_that_are_given(self):
        self.clear_data()
        self.make("1.jpg", "classes.csv")
        (self.room / "data/boxes.csv").write_text("1.jpg,1,2,3,4,cat\n")
        self.assertEqual(self.packs()[0][-2:], ["--classes", f"{self.room}/data/classes.csv"])
        self.assertEqual(self.packs("--pack", "--classes", "mine.csv")[0].count("--classes"), 1)

    def test_what_is_trained_is_what_the_data_are_for(self):
        def results():
            done = self.start(1)
            training, = [line for line in (self.room / "calls").read_text().splitlines() if "--train" in line]
            return training.split(" --task ")[1].split()[0], done.stdout
        task, told = results()
        self.assertEqual(task, "detect")
        self.assertIn("/detections.json", told)
        self.clear_data()
        self.make("cat/1.jpg", "dog/1.jpg")
        task, told = results()
        self.assertEqual(task, "classify")
        self.assertIn("/predictions.jsonl", told)

    def test_data_for_the_other_task_name_the_other_target(self):
        self.assertIn(f"{self.room}/data: holds boxes, which are for a detector; hint: retina-run {self.room}/data",
                      self.refusal(65, "--task", "classify"))
        self.clear_data()
        self.make("cat/1.jpg", "dog/1.jpg")
        self.assertIn(f"{self.room}/data: holds images by class, which is for a classifier; hint: retina-run",
                      self.refusal(65, "--task", "detect"))

    def test_make_adds_nothing_to_own_data(self):
        def added(data):
            """What `make demo` gives retina-train before TRAIN_OPTIONS."""
            done = subprocess.run(
                ["make", "--dry-run", "--no-print-directory", "-C", SOURCE, "demo", *([f"DATA={data}"] if data else []),
                 "TRAIN_OPTIONS=--epochs 3"], capture_output=True, text=True, timeout=60,
                env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")})
            self.assertEqual(done.returncode, 0, done.stderr)
            [command] = re.findall(r"^docker/retina-run .*?(?<!\\)$", done.stdout, re.M | re.S)
            return command.replace("\\\n", " ").partition(" -- ")[2].split()
        self.assertEqual(added(""), ["--config", "jobs/demo.json", "--epochs", "3"])
        self.assertEqual(added("mine"), ["--epochs", "3"])

    def test_an_error_names_what_is_wrong_and_what_to_do(self):
        own = f"{self.room}/data"
        self.assertEqual(self.refusal(66, data=self.room / "no"),
                         f"retina-run: error: {self.room}/no: there is no such folder")
        self.assertEqual(self.refusal(66, data=self.room / "data/images/val/1.jpg"),
                         f"retina-run: error: {own}/images/val/1.jpg: is a file; hint: give the folder that it is in, "
                         "or unpacks to")
        self.assertEqual(self.refusal(64, "--ranks", "two"), "retina-run: error: --ranks two: want a number of ranks")
        self.assertIn("--most-ranks 0: want a number of ranks", self.refusal(64, "--most-ranks", "0"))
        for name in ("./my.pt", "mine"):
            done = self.start(0, "--weights", name)
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"--weights {name}: no such weights; hint: retina-weights --help", done.stderr)
        self.assertIn("a second folder beside", self.refusal(64, "other"))
        self.assertIn("retina-train's options go after the folder and --, as in retina-run FOLDER -- --epochs ...", self.refusal(64, "--epochs", "3"))
        self.assertIn("--ouput=x: no such option; hint: retina-run --help;", self.refusal(64, "--ouput=x"))
        self.clear_data()
        self.assertIn(f"error: {own}: holds no data set of COCO, YOLO,", self.refusal(66))

    def test_an_error_of_coco_pack_says_where_its_options_go(self):
        for code, hint in ((64, "coco-pack's options go after --pack .*PACK_OPTIONS"), (74, "the same command again continues"),
                           (78, "--pack --overwrite -- --overwrite")):
            (self.room / "coco-pack").write_text(f"#!/bin/sh\nexit {code}\n")
            self.assertRegex(self.refusal(code), hint)

    def test_an_error_of_retina_train_says_where_its_options_go(self):
        (self.room / "retina-train").write_text("#!/bin/sh\nexit 78\n")
        self.assertRegex(self.refusal(78, "--ranks", "1"), "retina-train's options go after -- .*TRAIN_OPTIONS.*OUT=")

    def test_a_signal_reaches_a_stage_which_saves_before_it_ends(self):
        for program, gpus in (("coco-pack", 1), ("retina-train", 1), ("retina-train", 0)):  # 0: while it chooses
            self.expect_an_end_in_order(program, gpus)

    def expect_an_end_in_order(self, program, gpus):
        (self.room / program).write_text(
            f"#!/usr/bin/env bash\n[ \"$1\" != --version ] || {{ echo 'GPUs seen {gpus}'; exit; }}\n"
            "trap 'sleep 0.3; echo saved >>\"$CALLS\"; exit 75' TERM\necho begun >>\"$CALLS\"\n"
            "while :; do sleep 0.05; done\n")
        calls = self.room / "calls"
        for number in (signal.SIGTERM, signal.SIGINT):
            calls.unlink(missing_ok=True)
            with subprocess.Popen([SCRIPT, "--bin", self.room, self.room / "data", "--output", self.room / "out"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env=os.environ | {"CALLS": str(calls), "WEIGHTS_URL": "http://127.0.0.1:9/"},  # SIGINT as for a script's background job
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as job:
                while not (calls.exists() and "begun" in calls.read_text()):
                    self.assertIsNone(job.poll())
                    time.sleep(0.05)
                job.send_signal(number)
                told = job.stderr.read()
            self.assertEqual(job.returncode, 75, told)
            self.assertIn("stopped; the same command again continues", told)
            self.assertIn("saved", calls.read_text())
        (self.room / program).write_text(STAND_IN)

    def test_a_terminal_s_interrupt_lets_ranks_save(self):
        (self.room / "mpirun").write_text(
            "#!/usr/bin/env bash\n[ -n \"${AGAIN-}\" ] || AGAIN=1 exec env --default-signal=INT bash \"$0\" \"$@\"\n"
            "trap 'echo killed >>\"$CALLS\"; exit 1' INT\ntrap 'echo saved >>\"$CALLS\"; exit 75' USR1\n"
            "echo begun >>\"$CALLS\"\nwhile :; do sleep 0.05; done\n")
        calls = self.room / "calls"
        with subprocess.Popen([SCRIPT, "--bin", self.room, self.room / "data", "--output", self.room / "out", "--ranks", "2",
                               "--", "--init", "none"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              start_new_session=True, env=os.environ | {"CALLS": str(calls), "GPUS": "0",
                                                                        "PATH": f"{self.room}:{os.environ['PATH']}"}) as job:
            while not (calls.exists() and "begun" in calls.read_text()):
                self.assertIsNone(job.poll())
                time.sleep(0.05)
            os.killpg(job.pid, signal.SIGINT)
            told = job.stderr.read()
        self.assertEqual((job.returncode, calls.read_text().split()[-1]), (75, "saved"), told)
        self.assertIn("stopped; the same command again continues", told)

    def test_an_evaluation_that_was_begun_before_more_training_begins_anew(self):
        self.make("../out/evaluation/config.json", "../out/run/checkpoints.json")
        os.utime(self.room / "out/evaluation/config.json", (0, 0))
        evaluations = [call for call in self.calls(1) if call[0] == "retina-eval"]
        self.assertEqual([call[-1] == "--overwrite" for call in evaluations], [True, False])
        os.utime(self.room / "out/evaluation/config.json")
        self.assertEqual([call[-1] for call in self.calls(1) if call[0] == "retina-eval"][0], "8")

    def test_who_overwrites_continues_without_it(self):
        (self.room / "retina-train").write_text("#!/bin/sh\n[ \"$1\" != --version ] || exit 0\nexit 70\n")
        self.assertIn("the same command without --overwrite continues", self.start(1, "--", "--init", "none", "--overwrite").stderr)

    def test_results_go_beside_the_data_unless_said_otherwise(self):
        training, = [call for call in self.calls(1, output=None) if "--train" in call]
        self.assertEqual(training[training.index("--output") + 1], f"{self.room}/data-run/run")

    def training(self, gpus, *options):
        """What retina-train gets behind its data and its task."""
        call, = [call for call in self.calls(gpus, *options) if "--train" in call]
        return call[call.index("--task") + 2:]

    def serve_weights(self):
        (self.room / "web").mkdir()
        mirror = self.enterContext(WeightsMirror(self.room / "web"))
        mirror.write_table([mirror.row("coco-v2", b"v2"), mirror.row("imagenet-v1-resnet18", b"v1")])
        self.enterContext(unittest.mock.patch.dict(os.environ, mirror.environment()))

    def test_a_detector_begins_with_weights_of_the_size_that_is_chosen(self):
        self.serve_weights()
        chosen = ["--size", "auto", "--init", "imagenet-v1-resnet18"]
        self.assertEqual(self.training(0), chosen)
        self.assertEqual((self.room / "calls.retina-train").read_text().strip(), f"{self.room}/out/weights")
        self.assertEqual(self.training(0, "--", "--for", "9min"), [*chosen, "--for", "9min"])
        self.assertEqual(self.training(1), ["--init", "coco-v2"])
        self.assertEqual(self.training(1, "--", "--device", "cpu"), [*chosen, "--device", "cpu"])

    def test_a_size_that_is_given_has_its_weights(self):
        self.serve_weights()
        for size, weights in (("tiny", "imagenet-v1-resnet18"), ("medium", "coco-v2"), ("auto", "imagenet-v1-resnet18")):
            for words in (["--size", size], [f"--size={size}"]):
                self.assertEqual(self.training(0, "--", *words), ["--init", weights, *words])
        self.assertEqual(self.training(0, "--", "--size", "none"), ["--size", "none"])

    def test_options_about_the_network_choose_the_weights_too(self):
        self.serve_weights()
        for option in (["--init", "none"], ["--recipe", "atss"], ["--config", "x.json"], ["--fpn-channels", "96"]):
            self.assertEqual(self.training(0, "--", *option), option)
        self.assertEqual(self.training(0, "--weights", "coco-v2"), ["--init", "coco-v2"])
        self.assertEqual(self.training(0, "--weights", "imagenet-v1-resnet18")[:4],
                         ["--size", "auto", "--init", "imagenet-v1-resnet18"])

    def test_a_run_that_has_begun_keeps_its_weights(self):
        self.serve_weights()
        self.make("../out/run/config.json")
        for init, size, wanted in (("", "tiny", []), ('a/\\"b\\\\ c.pt', "tiny", ["--init", 'a/"b\\ c.pt', "--size", "auto"]),
                                   ("v2.pt", "none", ["--init", "v2.pt"])):
            (self.room / "out/run/config.json").write_text(f'{{\n    "size": "{size}",\n    "init": "{init}",\n}}\n')
            self.assertEqual(" ".join(self.training(0)), " ".join(wanted))
        self.assertEqual(self.training(1, "--", "--overwrite"), ["--init", "coco-v2", "--overwrite"])
        self.assertEqual(self.training(1, "--weights", "coco-v2"), ["--init", "coco-v2"])

    def test_weights_of_which_a_part_has_come_are_waited_for(self):
        self.make("../out/weights/.download/resnet18.pth.part")
        told = self.start(0)
        self.assertEqual(told.returncode, 69, told.stderr)
        self.assertIn("the same command again goes on", told.stderr)

    def test_weights_beside_the_data_are_taken_and_others_kept_out(self):
        self.serve_weights()
        name = (self.room / "web/table.txt").read_text().split()[5].replace(".pth", ".pt")
        for names, wanted in (["weights/own.pt"], "out"), ([f"weights/{name}"], "data"):
            self.make(*names)
            (self.room / "data" / names[0]).write_text("weights")
            self.training(0)
            self.assertEqual((self.room / "calls.retina-train").read_text().strip(), f"{self.room}/{wanted}/weights")

    def test_weights_that_are_damaged_begin_no_training(self):
        self.serve_weights()
        mirror, = self.room.glob("web/*.txt")
        mirror.write_text(mirror.read_text().replace(" 2 ", " 3 "))
        told = self.start(0)
        self.assertEqual(told.returncode, 65, told.stderr)
        self.assertIn("with -- --init none from scratch", told.stderr)
        self.assertNotIn("--init", (self.room / "calls").read_text())

    def test_weights_that_cannot_be_fetched_leave_a_training_from_scratch(self):
        for options in ([], ["--weights", "coco-v2"]):
            done = self.start(0, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("no weights, see above: training starts from scratch", done.stderr)
            self.assertNotIn("--init", (self.room / "calls").read_text())

    def test_another_share_can_be_set_aside(self):
        (self.room / "data/annotations/instances_val.json").unlink()
        self.assertEqual(self.packs("--pack", "--split", "0.5")[0][-2:], ["--split", "0.5"])
        self.assertEqual(self.packs("--pack", "--split", "0.5")[0].count("--split"), 1)


@unittest.skipUnless((BUILD / "bin/retina-convert").exists(), f"no retina-convert in {BUILD}/bin")
class Demo(unittest.TestCase):
    def expect_demo(self, target, render, options, *files):
        """`make TARGET` runs the whole job, and then finds it done."""
        room = self.enterContext(tempfile.TemporaryDirectory())
        subprocess.run([BUILD / "bin" / render[0], "--output", f"{room}/data", *render[1:]], check=True,
                       capture_output=True, timeout=60)
        # The first target is taken as done: the build is the one under test.
        for is_done in (False, True):
            done = subprocess.run(
                ["make", "-o", "build", target, f"BUILD={BUILD}", f"DATA={room}/data", f"OUT={room}/demo", *options],
                cwd=SOURCE, capture_output=True, text=True, timeout=600,
                env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | MPI)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
            self.assertEqual("already finished" in done.stdout, is_done)
        for name in ("run/report.html", "evaluation/report.html", "evaluation/metrics.json", "model.onnx",
                     "evaluation-converted/metrics.json", *files):
            self.assertTrue(pathlib.Path(room, "demo", name).is_file(), name)

    def test_make_demo_runs_the_whole_job_and_then_finds_it_done(self):
        self.expect_demo("demo", ["render_scenes", "--train", "16", "--validation", "4", "--intact"],
                         ["TRAIN_OPTIONS=--size none --backbone resnet18 --epochs 1 --min-side 64 --max-side 96"], "evaluation/detections.json")

    def test_make_demo_classify_does_so_too(self):
        self.expect_demo("demo-classify", ["render_classes", "--train", "100", "--validation", "20"],
                         ["RANKS=2", "TRAIN_OPTIONS=--epochs 2"], "evaluation/predictions.jsonl")


if __name__ == "__main__":
    unittest.main()
