"""jobs/render.py: the image's name and the size of the job reach the files that depend on them."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

from job_files import ROOT, wheel

DIGEST = "sha256:" + "5" * 64


class Render(unittest.TestCase):
    def setUp(self):
        wheel("jinja2")
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.jobs = self.room / "jobs"
        shutil.copytree(ROOT / "jobs", self.jobs)
        self.render()  # classify/ is not kept in git

    def render(self, *words, code=0):
        done = subprocess.run([sys.executable, self.jobs / "render.py", *words],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done

    def table(self):
        return tomllib.loads((self.jobs / "job.toml").read_text())

    def pulled(self):
        """The images of the files that schedulers read."""
        return {name for jobs in (self.jobs, self.jobs / "classify")
                for folder in ("azureml", "batchai", "kubernetes") for path in
                (jobs / folder).iterdir() if path.suffix in (".yml", ".yaml", ".json")
                for name in re.findall(r'image"?: "?([^\s"]+)', path.read_text())} - {
                    self.table()["serving"]["image"]}

    def test_an_images_name_is_replaced_whatever_it_is_now(self):
        before = self.table()
        for name in ("retina-batch:0.1.0", "me/retina-batch:0.1.0", f"localhost:5000/a/b@{DIGEST}",
                     "retina:2", "registry.example.com/retina-batch:0.1.0"):
            self.render("--image", name)
            self.assertEqual(self.table() | {"image": before["image"]}, before)
            self.assertEqual(self.table()["image"], before["image"] | {"name": name})
            self.assertEqual(self.pulled(), {name})
            self.render("--check")
        self.assertEqual((self.jobs / "job.toml").read_text(), (ROOT / "jobs/job.toml").read_text())

    def test_make_jobs_hands_the_name_over(self):
        done = subprocess.run(["make", "-n", "jobs", "IMAGE=me/retina:2"], cwd=ROOT,
                              capture_output=True, text=True, timeout=60)
        self.assertIn('jobs/render.py --image "me/retina:2"', done.stdout)
        # The pages export IMAGE and DATA for other commands.
        done = subprocess.run(["make", "-n", "jobs"], cwd=ROOT, capture_output=True, text=True,
                              timeout=60, env=os.environ | {"IMAGE": "/images/retina.sqsh"})
        self.assertNotIn("--image", done.stdout)

    def test_a_name_that_finds_no_place_is_told(self):
        table = self.jobs / "job.toml"
        text = table.read_text()
        table.write_text(text.replace("\nname = \"registry", "\nnames = \"registry"))
        self.assertIn("no line name =", self.render("--image", "me/retina:2", code=65).stderr)
        table.write_text(text)
        for name in ("", "two words", 'quote"', "-x"):
            self.assertIn("not the name of an image", self.render(f"--image={name}", code=64).stderr)
        self.assertEqual(table.read_text(), text)

    def test_a_namespace_of_docker_hub_is_no_registry(self):
        for name, registry, pyxis in (
                ("me/retina-batch:0.1.0", "docker.io", "me/retina-batch:0.1.0"),
                ("retina-batch:0.1.0", "docker.io", "retina-batch:0.1.0"),
                ("docker.io/me/retina:1", "docker.io", "me/retina:1"),
                ("ghcr.io/me/retina:1", "ghcr.io", "ghcr.io#me/retina:1"),
                ("localhost/retina:1", "localhost", "localhost#retina:1"),
                (f"node:5000/a/b@{DIGEST}", "node:5000", f"node:5000#a/b@{DIGEST}")):
            with self.subTest(name):
                made = self.room / "made"
                self.render("--output", made, "--image", name)
                for path in (made / "batchai").glob("*.json"):
                    if "containerSettings" not in (job := json.loads(path.read_text())["properties"]):
                        continue
                    source = job["containerSettings"]["imageSourceRegistry"]
                    self.assertEqual((source["serverUrl"], source["image"]), (registry, name))
                script = (made / "slurm/train.sbatch").read_text()
                self.assertIn(f"image=${{IMAGE:-{pyxis}}}\n", script)

    def test_the_second_job_has_of_the_table_what_it_does_not_say_itself(self):
        table = self.jobs / "job.toml"
        table.write_text(table.read_text().replace("shm_gib = 16", "shm_gib = 24")
                         .replace('share = "batchaicoco"', 'share = "results"')
                         .replace("epochs = 26", "epochs = 27"))
        made = self.room / "made"
        self.render("--output", made, "--nodes", "1")
        script = (made / "classify/docker/train.compose.yaml").read_text()
        self.assertIn("shm_size: 24g", script)
        self.assertIn("claimName: results", (made / "classify/kubernetes/eval-job.yaml").read_text())
        training = (made / "classify/slurm/train.sbatch").read_text()
        self.assertIn("--epochs 90", training)
        self.assertIn("--images-per-step 128", training)  # 1 node of 4 GPUs, 32 images each

    def test_a_job_without_a_stage_has_no_file_of_it(self):
        made = self.room / "made"
        self.render("--output", made)
        of_classes = {path.relative_to(made / "classify") for path in
                      (made / "classify").rglob("*") if path.is_file()}
        others = {path.relative_to(made) for path in made.rglob("*") if path.is_file()
                  and made / "classify" not in path.parents}
        self.assertEqual({path.as_posix() for path in others - of_classes},
                         {"azureml/weights.yml", "azureml/endpoint.yml", "azureml/deployment.yml",
                          "batchai/weights.json", "docker/weights.compose.yaml",
                          "kubernetes/weights-job.yaml", "kubernetes/serve.yaml",
                          "slurm/weights.sbatch"})
        self.assertEqual(of_classes - others, set())
        for path in of_classes:
            self.assertNotIn("weights", (made / "classify" / path).read_text(), path)

    def test_azures_machines_have_as_many_gpus_as_the_job_wants(self):
        for gpus, size in ((1, "NC24ads_A100_v4"), (2, "NC48ads_A100_v4"), (4, "NC96ads_A100_v4"),
                           (8, "ND96amsr_A100_v4")):
            made = self.room / f"made-{gpus}"
            self.render("--output", made, "--gpus-per-node", str(gpus))
            cluster = (made / "azureml/gpu-cluster.yml").read_text()
            self.assertIn(f"size: Standard_{size}  # {gpus} GPUs\n", cluster)
            self.assertIn("Standard_NC24ads_A100_v4", (made / "azureml/deployment.yml").read_text())

    def test_a_number_of_gpus_that_azure_does_not_have_is_refused_with_the_choices(self):
        refused = self.render("--output", self.room / "made", "--gpus-per-node", "3", code=78)
        self.assertIn("(got 3, want 1, 2, 4, 8)", refused.stderr)
        self.assertFalse((self.room / "made").exists())

    def test_only_the_image_is_put_into_the_table(self):
        for words in (["--nodes", "3"], ["--gpus-per-node", "1", "--image", "me/retina:2"],
                      ["--check", "--image", "me/retina:2"]):
            self.render(*words, code=64)
        self.assertEqual((self.jobs / "job.toml").read_text(), (ROOT / "jobs/job.toml").read_text())


if __name__ == "__main__":
    sys.exit(unittest.main())
