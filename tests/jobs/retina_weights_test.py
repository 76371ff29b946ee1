"""docker/retina-weights against a small mirror on loopback: what it leaves, its exit codes and lines."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from mirror import DownloadTest, WeightsMirror

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "docker/retina-weights"
FIXTURES = SOURCE / "tests/convert/fixtures"
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
# In the place of retina-convert: a checkpoint that tells of which file it is.
CONVERT = """#!/usr/bin/env bash
[ "$1" != --version ] || exit 0
[ "$1 $3" = "--import --output" ] || exit 64
{ echo "made of"; sha256sum <"$2"; } >"$4"
"""


class RetinaWeights(DownloadTest):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.output, self.bin = self.room / "coco here/weights", self.room / "bin"
        for folder in ("mirror", "bin"):
            (self.room / folder).mkdir()
        self.write_convert(CONVERT)
        self.mirror = self.enterContext(WeightsMirror(self.room / "mirror"))

    def write_convert(self, text):
        (self.bin / "retina-convert").write_text(text)
        (self.bin / "retina-convert").chmod(0o755)

    def environment(self, **more):
        return super().environment(**({"PATH": f"{self.bin}:{os.environ['PATH']}"} | more))

    def command(self):
        return [SCRIPT, "--output", self.output]

    def expect_done(self, *words, names=None, **environment):
        done = self.fetch(*words, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = names or self.mirror.names()
        self.assertEqual(self.listing(), sorted(f"{name}.pt" for name in names))
        for name in names:
            made_of = (self.output / f"{name}.pt").read_text().split()[2]
            self.assertEqual(f"resnet50-{made_of[:8]}", name)
        return done

    def listing(self):
        return sorted(str(path.relative_to(self.output)) for path in self.output.rglob("*"))

    def test_leaves_the_imported_weights_and_nothing_else(self):
        self.assertIn("are complete", self.expect_done().stdout)
        self.assertEqual(self.mirror.gets, [(f"{name}.pth", 0) for name in self.mirror.names()])

    def test_a_second_call_is_one_line_and_fetches_nothing(self):
        self.expect_done()
        self.mirror.gets.clear()
        before = self.output.stat().st_mtime_ns
        again = self.expect_done(WEIGHTS_URL="http://127.0.0.1:1")
        self.assertEqual(again.stdout, f"{self.output}: the weights are already there\n")
        self.assertEqual(again.stderr, "")
        self.assertEqual(self.mirror.gets, [])
        self.assertEqual(self.output.stat().st_mtime_ns, before)

    def make_weights(self, *words):
        # The first target is taken as done: the build is the stand-in.
        command = ["make", "-o", "build", "weights", f"BUILD={self.room}", f"DATA={self.output.parent}"]
        outer = {name: value for name, value in self.environment(PATH=os.environ["PATH"]).items()
                 if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        done = subprocess.run([*command, *words], cwd=SOURCE, capture_output=True, text=True,
                              timeout=60, env=outer)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_make_weights_leaves_them_beside_the_data(self):
        first, second = self.mirror.names()
        self.make_weights("WEIGHTS=second")
        self.assertEqual(self.listing(), [f"{second}.pt"])
        self.make_weights()
        self.assertEqual(self.listing(), sorted([f"{first}.pt", f"{second}.pt"]))

    def test_names_select_what_is_fetched(self):
        first, second = self.mirror.names()
        self.expect_done("second", names=[second])
        self.assertEqual(self.mirror.gets, [(f"{second}.pth", 0)])
        self.assertIn("already there", self.expect_done("second", names=[second]).stdout)
        self.expect_done("--scratch", str(self.room), "first", "second")
        self.assertEqual(self.mirror.gets, [(f"{second}.pth", 0), (f"{first}.pth", 0)])

    def test_an_unknown_name_is_refused_with_those_that_there_are(self):
        self.expect_refusal(64, "third: no weights have this name (want one of first second)",
                            words=["first", "third"])
        self.expect_refusal(64, "*: no weights", words=["*"])
        self.assertEqual(self.mirror.gets, [])

    def test_killed_before_the_import_it_fetches_nothing_again(self):
        self.write_convert("#!/usr/bin/env bash\nkill -KILL $PPID\n")
        self.assertEqual(self.fetch().returncode, -signal.SIGKILL)
        self.write_convert(CONVERT)
        self.expect_done()
        self.assertEqual(self.mirror.gets, [(f"{name}.pth", 0) for name in self.mirror.names()])

    def test_scratch_holds_the_downloads_and_is_left_empty(self):
        scratch = self.room / "scratch"
        self.write_convert(CONVERT.replace("{ echo", 'echo "$2" >>"$SEEN"\n{ echo'))
        self.expect_done("--scratch", str(scratch), SEEN=str(self.room / "seen"))
        for line in (self.room / "seen").read_text().splitlines():
            self.assertTrue(line.startswith(f"{scratch}/"), line)
        self.assertEqual(list(scratch.iterdir()), [])
        (self.room / "file").touch()
        (self.output / f"{self.mirror.names()[0]}.pt").unlink()
        self.expect_refusal(73, "another --scratch", words=["--scratch", self.room / "file/x"])

    def test_the_names_begin_the_published_hashes(self):
        lines = (SOURCE / "docker/weights.txt").read_text().splitlines()
        rows = [line.split() for line in lines if not line.startswith("#")]
        others = [row for row in rows if row[2] == "-"]
        for name, file, _, digits in others:
            self.assertRegex(digits, "^([0-9a-f]{8}|[0-9a-f]{64})$")
            self.assertRegex(name, "^imagenet-v[12]-" + file.removesuffix(f"-{digits[:8]}.pth") + "$")
        whole = {name.partition("-v")[2][2:] for name, _, _, digits in others if len(digits) == 64}
        self.assertLessEqual({"resnet18", "resnet34", "resnet101", "mobilenet_v3_large"}, whole)
        self.assertEqual(len({file for _, file, _, _ in others}), 27)
        rows = [row for row in rows if row not in others]
        stems = {"coco-v2": "retinanet_resnet50_fpn_v2_coco", "coco-v1": "retinanet_resnet50_fpn_coco",
                 "imagenet-v2": "resnet50", "imagenet-v1": "resnet50"}
        self.assertEqual([row[0] for row in rows], list(stems))
        for name, file, bytes_, hash_ in rows:
            self.assertRegex(hash_, "^[0-9a-f]{64}$")
            self.assertEqual(file, f"{stems[name]}-{hash_[:8]}.pth")
            self.assertGreater(int(bytes_), 10**8)
        self.assertIn("url=${WEIGHTS_URL:-https://download.pytorch.org/models}", SCRIPT.read_text())

    # Of some weights torchvision publishes no size, and the first digits of the hash.
    def test_sizes_come_from_the_server_where_the_table_has_none(self):
        rows = [line.split() for line in self.mirror.table.read_text().splitlines()]
        short = [(name, file, "-", hash_[:8]) for name, file, _, hash_ in rows]
        self.mirror.table.write_text("".join(" ".join(row) + "\n" for row in short))
        self.assertIn("already there", self.fetch().stdout)  # not without a name
        self.mirror.break_after = [5]
        self.expect_done(short[0][0], names=[short[0][1].removesuffix(".pth")])
        self.mirror.tells_sizes = False
        self.expect_refusal(65, "does not tell its size", words=[short[1][0]])
        self.mirror.tells_sizes = True
        (self.room / "mirror" / short[1][1]).write_text("another file")
        self.expect_refusal(65, f"want {short[1][3]}", words=[short[1][0]])

    def test_where_curl_is_installed_the_certificates_are_too(self):
        for name in ("Makefile", "docker/Dockerfile"):
            lines = [line for line in (SOURCE / name).read_text().splitlines()
                     if re.search(r"\bcurl\b(?! AND)", line)]  # not the licence
            self.assertEqual(len(lines), 1, name)
            self.assertIn(" ca-certificates", lines[0], name)

    def test_a_failing_import_gives_its_own_exit_code(self):
        self.write_convert("#!/usr/bin/env bash\n[ $1 != --version ] || exit 0\n"
                           "echo 'retina-convert: error: bad' >&2\nexit 65\n")
        self.expect_refusal(65, "retina-convert: error: bad")

    @unittest.skipUnless((BUILD / "bin/retina-convert").exists(), "no retina-convert in the build")
    def test_the_real_program_is_called_as_it_wants(self):
        # A file of torch.save that is no ResNet: it was read and understood.
        content = (FIXTURES / "zip.pth").read_bytes()
        self.mirror.write_table([self.mirror.row("first", content)])
        self.expect_refusal(65, "holds no ResNet, RegNet or MobileNetV3", PATH=f"{BUILD}/bin:{os.environ['PATH']}")

    @unittest.skipUnless((BUILD / "bin/retina-train").exists(), "no retina-train in the build")
    def test_a_detector_is_fetched_imported_and_trained_from_by_its_name(self):
        # torchvision's architecture with its 91 rows, on a ResNet-18.
        path = self.room / "detector.pth"
        self.run_built("make-checkpoint", "--pth", "--classes", 91, "--output", path)
        name, file = "coco-v2", "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth"
        self.mirror.write_table([self.mirror.row(name, path.read_bytes(), file)])
        built = {"PATH": f"{BUILD}/bin:{os.environ['PATH']}"}
        fetched = self.fetch(name, **built)
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        self.assertIn("80 classes (of 91 rows)", fetched.stdout)

        data = self.output.parent
        self.run_built("render_scenes", "--output", self.room / "scenes", "--train", 4, "--intact")
        self.run_built("coco-pack", "--annotations",
                       self.room / "scenes/annotations/instances_train2017.json", "--images",
                       self.room / "scenes/images/train2017", "--output", data / "shards/train")
        trained = self.run_built(
            "retina-train", "--train", data / "shards/train", "--output", self.room / "run", "--init",
            name, "--steps", 2, "--images-per-step", 2, "--min-side", 64, "--max-side", 96,
            "--lr", 0.0001, "--device", "cpu", "--compute-threads", 1, "--threads", 1)
        self.assertIn(f"--init {name}: {self.output}/{file.replace('.pth', '.pt')}", trained.stderr)
        self.assertIn("weights loaded; ", trained.stderr)

    def run_built(self, program, *words):
        done = subprocess.run([BUILD / "bin" / program, *map(str, words)], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_without_retina_convert_nothing_is_fetched(self):
        (self.bin / "retina-convert").unlink()
        for tool in ("bash", "curl", "dirname", "readlink", "grep"):
            os.symlink(subprocess.run(["which", tool], capture_output=True, text=True).stdout.strip(),
                       self.bin / tool)
        self.expect_refusal(69, "retina-convert", "make weights DATA=DIR", PATH=str(self.bin))
        self.assertEqual(self.mirror.gets, [])

    def test_a_retina_convert_that_does_not_start_is_told_before_anything_is_fetched(self):
        self.write_convert("#!/bin/sh\nexit 127\n")
        self.expect_refusal(69, "does not start")
        self.assertEqual(self.mirror.gets, [])

    def test_tables_with_windows_line_ends_are_read_and_empty_ones_refused(self):
        text = self.mirror.table.read_text()
        self.mirror.table.write_bytes(text.replace("\n", "\r\n").encode())
        self.expect_done()
        self.mirror.table.write_text("# nothing\n")
        self.expect_refusal(65, "names no weights")

    def test_names_are_one_word_each(self):
        for name, told in ("", '""'), ("first second", "first second"):
            self.expect_refusal(64, f"{told}: no weights have this name", words=(name,))

    def test_check_args_touches_nothing(self):
        done = self.fetch("--scratch=/nowhere", "--check-args")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertFalse(self.output.exists())

    def test_a_wrong_command_line_is_64(self):
        for words in ([], ["--output"], ["--output", ""], ["--output", "a", "b"], ["--out", "a"]):
            done = subprocess.run([SCRIPT, "--check-args", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 64, words)
            self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
