"""The image, run: python3 image_test.py, by `make image-test`; RETINA_BUILD is a build for the images.

Each test runs as root and as the image's own user. Needs the image (`make image`) and the tool that
docker/image.sh finds; the two nodes need root.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
PROGRAMS = ["coco-pack", "retina-train", "retina-eval", "retina-convert"]
USERS = ["10001:10001", "0:0"]
LIBRARIES = "/usr/local/lib/retina-batch"
DRIVER = "libcuda.so.1"  # the host's, which the GPU runtime mounts
RUN_AGAIN = 75


def image(*words, **more):
    return subprocess.run([SOURCE / "docker/image.sh", *map(str, words)], capture_output=True,
                          text=True, **more)


class Image(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.room.chmod(0o755)

    def run_in(self, user, *words, mounts=(), expected=0, asks_for_text=False):
        options = [option for mount in mounts for option in ("--mount", mount)]
        for _ in range(3):  # buildah sometimes loses the output of a command that ends at once
            done = image("run", "--user", user, *options, "--", *words)
            if done.returncode or done.stdout or not asks_for_text:
                break
        self.assertEqual(done.returncode, expected, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def folder(self, name, user):
        """A folder that the user may write."""
        path = self.room / f"{name}-{user.split(':')[0]}"
        path.mkdir()
        os.chown(path, *map(int, user.split(":")))
        return path

    def render(self, train, validation):
        scenes = self.room / "scenes"
        subprocess.run([BUILD / "bin/render_scenes", "--output", scenes, "--train", str(train),
                        "--validation", str(validation)], check=True, capture_output=True)
        return scenes

    def test_each_program_starts_and_names_its_libraries(self):
        for user in [*USERS, "4242:4242"]:
            for program in PROGRAMS:
                with self.subTest(user=user, program=program):
                    version = self.run_in(user, program, "--version", asks_for_text=True).stdout
                    self.assertIn(program, version)
                    self.assertNotIn("git unknown", version)
            self.run_in(user, "retina-weights", "--output", "/mnt/coco/weights", "--check-args")
            print(self.run_in(user, "retina-train", "--version").stdout)

    def test_every_library_is_found_without_an_environment(self):
        done = self.run_in(USERS[0], "env", "-i", "/bin/bash", "-c",
                           f"ldd /usr/local/bin/{{{','.join(PROGRAMS)}}} {LIBRARIES}/*")
        absent = {line.split()[0] for line in done.stdout.splitlines() if "not found" in line}
        self.assertLessEqual(absent, {DRIVER})
        self.assertIn(f"libtorch_cuda.so => {LIBRARIES}/", done.stdout)
        self.assertTrue("/src/" not in done.stdout, "a library of the build stage")

    def test_holds_only_what_runs(self):
        done = self.run_in("0:0", "bash", "-c",
                           "for tool in gcc g++ nvcc cmake ninja git python3 pip; do command -v $tool; done; "
                           "ls /src /out 2>/dev/null; find / -xdev -name '*.a' -size +1M; "
                           "ls /etc/ssh/ssh_host_*; true")
        self.assertEqual(done.stdout, "")

    def test_has_what_fetching_weights_over_https_needs(self):
        self.run_in("0:0", "bash", "-c", "command -v curl flock sha256sum numfmt && "
                                         "test -s /etc/ssl/certs/ca-certificates.crt")

    def test_the_demo_runs_on_the_cpu(self):
        scenes = self.render(48, 12)
        subprocess.run(["chmod", "-R", "a+rX", scenes], check=True)
        for user in USERS:
            with self.subTest(user=user):
                output = self.folder("demo", user)
                done = self.run_in(
                    user, "retina-run", "/data", "--output", "/output", "--ranks", 2, "--", "--config", "/jobs/demo.json", "--epochs", 1,
                    "--lr-drop-at", "1epochs", "--device", "cpu",
                    mounts=[f"{SOURCE / 'jobs'}:/jobs:ro", f"{scenes}:/data:ro", f"{output}:/output"])
                for name in ("run/checkpoint-01.pt", "evaluation/metrics.json", "model.onnx",
                             "evaluation-converted/metrics.json"):
                    self.assertTrue((output / name).is_file(), name)
                    self.assertEqual((output / name).stat().st_uid, int(user.split(":")[0]))
                print(done.stdout[-600:])

    def test_term_to_process_1_saves_a_checkpoint_and_exits_75(self):
        scenes = self.render(16, 4)
        subprocess.run(["chmod", "-R", "a+rX", scenes], check=True)
        for user in USERS:
            with self.subTest(user=user):
                output = self.folder("stopped", user)
                annotations = "/data/annotations/instances_train2017.json"
                # The launcher gets its TERM when the first steps are logged.
                script = (f"coco-pack --annotations {annotations} --images /data/images/train2017 "
                          "--output /output/shards && "
                          "{ (until grep -sq '\"step\": *2\\b' /output/run/metrics.jsonl; do sleep .2; done; "
                          "kill -TERM $$) & "
                          "exec retina-launch --ranks 2 -- retina-train --train /output/shards --output /output/run "
                          "--backbone resnet18 --min-side 64 --max-side 96 --steps 4000 --device cpu "
                          "--images-per-step 4; }")
                self.run_in(user, "bash", "-c", script, expected=RUN_AGAIN,
                            mounts=[f"{scenes}:/data:ro", f"{output}:/output"])
                self.assertTrue(list((output / "run").glob("checkpoint-*.pt")))

    @unittest.skipIf(os.getuid() != 0, "wants root: nodes are network namespaces")
    def test_two_nodes_train_over_ssh(self):
        root = self.room / "root"
        root.mkdir()
        done = image("unpack", root)
        self.assertEqual(done.returncode, 0, done.stderr)
        try:
            test = SOURCE / "tests/jobs/two_nodes_test.py"
            done = subprocess.run([sys.executable, test, "-v"],
                                  env=os.environ | {"RETINA_IMAGE_ROOT": str(root)})
            self.assertEqual(done.returncode, 0)
        finally:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
