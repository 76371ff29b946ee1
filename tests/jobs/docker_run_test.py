"""docker/run.sh with a stand-in for docker: what it would run, and how it refuses."""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "docker/run.sh"
sys.path.insert(0, str(SOURCE / "tests/cli"))
import readme_commands  # noqa: E402

# Writes its words into a file, a word a line; ends with $CODE.
DOCKER = """#!/usr/bin/env bash
printf '%s\\n' "$@" >>"$CALLS"
exit "${CODE:-0}"
"""

# Knows which images there are, a line each in $IMAGES, and runs no other.
DOCKER_WITH_IMAGES = r"""#!/usr/bin/env bash
want() { grep -qxF -e "$1" "$IMAGES" || { echo "docker: no image $1" >&2; exit 125; }; }
verb=$1; shift
case $verb in
  info) ;;
  build) while [ "$1" != --tag ]; do shift; done; echo "$2" >>"$IMAGES" ;;
  tag) want "$1"; echo "$2" >>"$IMAGES" ;;
  push) want "$1" ;;
  inspect) want "${@: -1}"; name=${@: -1}; echo "${name%:*}@sha256:12" ;;
  run)
    image=""
    for word in "$@"; do case $word in retina-launch | bash) break ;; esac; image=$word; done
    want "$image"; echo "$image" >>"$RAN" ;;
  compose)
    [ "$1 $3" = "-f up" ] || exit 64
    while read -r image; do eval "image=$image"; want "$image"; echo "$image" >>"$RAN"
    done < <(sed -n 's/^ *image: //p' "$2") ;;
  *) echo "docker: $verb" >&2; exit 64 ;;
esac
"""


class DockerRun(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.data, self.share = self.room / "data here", self.room / "share"
        for folder in (self.data, self.share):
            folder.mkdir()
        for name in ("docker", "podman"):
            (self.room / name).write_text(DOCKER)
            (self.room / name).chmod(0o755)
        self.calls = self.room / "calls"

    def run_script(self, *words, **environment):
        return subprocess.run(
            [SCRIPT, *words], capture_output=True, text=True, timeout=60,
            env=os.environ | {"PATH": f"{self.room}:{os.environ['PATH']}", "CALLS": str(self.calls)}
            | environment)

    def places(self):
        return ["--data", str(self.data), "--share", str(self.share)]

    def line(self, *words, **environment):
        """The words of the one line that --dry-run prints."""
        before, dash, after = list(words), [], []
        if "--" in before:
            at = before.index("--")
            before, dash, after = before[:at], ["--"], before[at + 1:]
        done = self.run_script(*before, "--dry-run", *dash, *after, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1, done.stdout)
        return shlex.split(lines[0])

    def expect_refusal(self, code, fragment, *words, **environment):
        done = self.run_script(*words, **environment)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(fragment, done.stderr)
        self.assertFalse(self.calls.exists())

    def test_it_runs_what_the_dry_run_prints(self):
        printed = self.line("train", *self.places(), "--ranks", "2")
        self.assertFalse(self.calls.exists())
        self.assertEqual(self.run_script("train", *self.places(), "--ranks", "2").returncode, 0)
        self.assertEqual(printed[0], "docker")
        self.assertEqual(self.calls.read_text().splitlines(), printed[1:])

    def test_shared_memory_limits_and_the_user_are_set(self):
        line = self.line("train", *self.places())
        for option, value in (("--shm-size", "16g"), ("--user", f"{os.getuid()}:{os.getgid()}"),
                              ("--stop-timeout", "300"), ("--gpus", "all")):
            self.assertEqual(line[line.index(option) + 1], value)
        self.assertIn("memlock=-1", line)
        self.assertIn(f"{self.data}:/mnt/coco", line)
        self.assertIn(f"{self.share}:/mnt/afs_batchai", line)

    def test_an_option_after_the_dashes_replaces_the_stages_own(self):
        for given in (["--epochs", "2"], ["--epochs=2"]):
            line = self.line("train", *self.places(), "--", *given)
            self.assertEqual([word for word in line if word.startswith("--epochs")], given[:1])
            self.assertEqual(line[-len(given):], given)
        self.assertIn("26", self.line("train", *self.places()))

    def test_steps_take_the_place_of_epochs(self):
        for given in (["--steps", "100"], ["--steps=100"]):
            line = self.line("train", *self.places(), "--", *given)
            self.assertEqual(line[-len(given):], given)
            self.assertEqual([word for word in line if word.startswith("--epochs")], [])
            self.assertNotIn("26", line)

    def test_an_overwriting_training_is_not_restarted(self):
        def launch(*words):
            line = self.line("train", *self.places(), *words)
            return line[line.index("retina-launch"):line.index("--", line.index("retina-launch"))]
        self.assertEqual(launch("--", "--overwrite"), ["retina-launch", "--restarts", "0"])
        self.assertEqual(launch("--", "--seed", "2"), ["retina-launch"])

    def test_options_of_one_split_are_refused_for_both(self):
        for option in ("--annotations", "--images", "--output"):
            for given in ([option, "/mnt/coco/x"], [f"{option}=/mnt/coco/x"]):
                self.expect_refusal(64, f"{option}: pack has two splits", "pack", "--data",
                                    str(self.data), "--", *given)
        self.assertEqual(self.run_script("pack", "--data", str(self.data), "--", "--threads",
                                         "2").returncode, 0)
        self.assertEqual(self.calls.read_text().splitlines().count("--threads"), 2)

    def container_lines(self):
        """The lines of all pages that show how to run the image, in order."""
        lines = []
        for page in (*readme_commands.PAGES, "jobs/docker/README.md"):
            commands = readme_commands.commands_of((SOURCE / page).read_text())
            blocks = {number for number, line, _ in commands
                      if line.startswith(("docker/run.sh", "docker compose"))}
            lines += [line for number, line, _ in commands if number in blocks]
        return lines

    def run_lines(self, lines, **environment):
        """Runs them in a folder that has the checkout's files and COCO; the images that were run."""
        place = self.room / "checkout"
        place.mkdir()
        for name in ("Makefile", "CMakeLists.txt", "docker", "jobs"):
            (place / name).symlink_to(SOURCE / name)
        (place / "coco").mkdir()
        (self.room / "docker").write_text(DOCKER_WITH_IMAGES)
        (self.room / "images").touch()
        outer = {name: value for name, value in os.environ.items()
                 if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "IMAGE", "DATA", "SHARE")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-xc", "\n".join(lines)], cwd=place, capture_output=True,
            text=True, timeout=60,
            env=outer | {"PATH": f"{self.room}:{os.environ['PATH']}", "RAN": str(self.room / "ran"),
                         "IMAGES": str(self.room / "images"), **environment})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return (self.room / "ran").read_text().split()

    def test_the_pages_container_lines_run_in_order(self):
        lines = self.container_lines()
        self.assertEqual(lines[0].split("#")[0].strip(), "make image")
        ran = self.run_lines(lines)
        self.assertGreaterEqual(len(ran), 7)
        self.assertEqual(set(ran), {"retina-batch:0.1.0"})

    def test_an_image_that_was_not_built_is_not_run(self):
        with self.assertRaisesRegex(AssertionError, "no image retina-batch:0.1.0"):
            self.run_lines(["mkdir share", "docker/run.sh train --data coco --share share"])

    def test_another_name_is_the_same_for_the_build_and_for_what_runs_it(self):
        ran = self.run_lines(["make image", "mkdir share", "docker/run.sh convert --share share",
                              "SHARE=$PWD/share docker compose -f jobs/docker/convert.compose.yaml up"],
                             IMAGE="me/retina:2")
        self.assertEqual(ran, ["me/retina:2", "me/retina:2"])

    def test_another_recipe_does_not_take_this_ones_weights(self):
        line = self.line("train", *self.places(), "--", "--recipe", "torchvision-v1")
        self.assertNotIn("--init", line)  # the program then says which ones it wants
        line = self.line("train", *self.places(), "--", "--recipe=torchvision-v1", "--init=none")
        self.assertEqual([word for word in line if "--init" in word], ["--init=none"])

    def test_ranks_are_the_launchers_business(self):
        def launch(line):
            at = line.index("retina-launch")
            return line[at:line.index("--", at)]
        self.assertEqual(launch(self.line("train", *self.places())), ["retina-launch"])
        self.assertEqual(launch(self.line("train", *self.places(), "--cpu")),
                         ["retina-launch", "--ranks", "1"])
        self.assertEqual(launch(self.line("eval", *self.places(), "--ranks", "3")),
                         ["retina-launch", "--ranks", "3"])
        self.assertNotIn("--expect-ranks", self.line("train", *self.places(), "--ranks", "3"))

    def test_gpus_are_for_the_stages_that_use_them(self):
        self.assertNotIn("--gpus", self.line("train", *self.places(), "--cpu"))
        self.assertNotIn("--gpus", self.line("convert", "--share", str(self.share)))
        self.assertNotIn("--gpus", self.line("weights", "--data", str(self.data)))
        line = self.line("train", *self.places(), DOCKER="podman")
        self.assertEqual(line[0], "podman")
        self.assertIn("nvidia.com/gpu=all", line)
        self.assertNotIn("--gpus", line)

    def test_packing_takes_the_folders_of_make_coco_too(self):
        (self.data / "images/val2017").mkdir(parents=True)
        (self.data / "train2017").mkdir()
        self.assertEqual(self.run_script("pack", "--data", str(self.data)).returncode, 0)
        words = self.calls.read_text().splitlines()
        images = [words[at + 1] for at, word in enumerate(words) if word == "--images"]
        self.assertEqual(images, ["/mnt/coco/images/val2017", "/mnt/coco/train2017"])

    def test_a_split_that_fails_ends_the_packing(self):
        done = self.run_script("pack", "--data", str(self.data), CODE="65")
        self.assertEqual(done.returncode, 65)
        self.assertEqual(self.calls.read_text().splitlines().count("run"), 1)

    def test_mistakes_are_refused_in_one_line(self):
        self.expect_refusal(64, "no stage")
        self.expect_refusal(64, "serve: want pack", "serve")
        self.expect_refusal(64, "--data: is missing", "weights")
        self.expect_refusal(64, "--data: is missing", "train", "--share", str(self.share))
        self.expect_refusal(64, "--share: is missing", "train", "--data", str(self.data))
        self.expect_refusal(64, "--epochs: unknown option", "train", *self.places(), "--epochs",
                            "2")
        self.expect_refusal(64, "--ranks: got 0", "train", *self.places(), "--ranks", "0")
        self.expect_refusal(64, "--data: needs a value", "train", "--data")
        self.expect_refusal(66, "no such folder", "pack", "--data", str(self.room / "none"))
        self.expect_refusal(69, "nodocker: not found", "pack", "--data", str(self.data),
                            DOCKER="nodocker")


if __name__ == "__main__":
    unittest.main()
