"""Dockerfiles, shell scripts and YAML files are clean, job files are what templates make."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from job_files import MADE, ROOT, render_jobs, tool

setUpModule = render_jobs

SHEBANG = re.compile(rb"#!.*\b(?:ba|da)?sh\b")


def sources():
    """The repository's files, those that are not yet committed too, and the job files of classify/."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True)
    if listed.returncode:
        raise unittest.SkipTest("this is no git checkout")
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    made = (MADE / "classify").rglob("*")
    return [path for path in (*paths, *sorted(made)) if path.is_file()]


def first_line(path):
    with path.open("rb") as file:
        return file.readline(200)


def shell_scripts():
    return [path for path in sources() if path.suffix in (".sh", ".sbatch")
            or path.suffix != ".j2" and SHEBANG.match(first_line(path))]


class Lint(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)

    def run_on(self, command, paths):
        return subprocess.run([*command, *paths], capture_output=True, text=True, timeout=300,
                              cwd=ROOT)

    def expect_clean(self, command, paths, *among):
        """All paths pass; `among` are some that must be there, so that none is missed silently."""
        names = {str(path.relative_to(MADE if MADE in path.parents else ROOT)) for path in paths}
        self.assertLessEqual(set(among), names)
        done = self.run_on(command, paths)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @property
    def hadolint(self):
        return [tool("hadolint"), "--config", ROOT / ".hadolint.yaml"]

    @property
    def shellcheck(self):
        return [tool("shellcheck"), "--shell=bash", "--format=gcc"]

    @property
    def yamllint(self):
        return [tool("yamllint"), "--strict", "--format=parsable", "-c",
                ROOT / "tests/jobs/yamllint.yaml"]

    def test_every_dockerfile_passes_hadolint(self):
        self.expect_clean(self.hadolint, sorted((ROOT / "docker").glob("*Dockerfile")),
                          "docker/Dockerfile")

    def test_foreign_images_and_actions_are_named_by_their_hash(self):
        """A tag can be moved to other content."""
        found = []
        for path in sorted((ROOT / "docker").glob("*Dockerfile")):
            text = path.read_text()
            given = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
            bases = [re.sub(r"^\$\{(\w+)\}$", lambda name: given[name[1]], base)
                     for base in re.findall(r"^FROM (\S+)", text, re.M)]
            self.assertEqual(len(bases), 2, path)
            found += [(base, r"^[^@$]+:[^@$]+@sha256:[0-9a-f]{64}$") for base in bases]
        for path in sorted(ROOT.glob(".github/workflows/*.yml")):
            text = path.read_text()
            found += [(action, r"^[^@]+@[0-9a-f]{40}  # v[0-9.]+$")
                      for action in re.findall(r"\buses: (.+)$", text, re.M)]
            self.assertNotRegex(text, r"\b(debian|nvidia/cuda):", "an image that docker/ does not name")
        self.assertGreaterEqual(len(found), 9)
        for name, pattern in found:
            self.assertRegex(name, pattern)

    def test_every_shell_script_passes_shellcheck(self):
        self.expect_clean(self.shellcheck, shell_scripts(),
                          ".ci/run", "docker/retina-launch", "docker/run.sh", "docker/retina-run",
                          "jobs/fetch_coco.sh", "jobs/docker/run.sh",
                          "jobs/slurm/train.sbatch", "tests/gpu/run.sh", "tests/jobs/with_wheels",
                          "classify/docker/run.sh", "classify/slurm/train.sbatch")

    def test_every_yaml_file_passes_yamllint(self):
        self.expect_clean(
            self.yamllint, [path for path in sources() if path.suffix in (".yml", ".yaml")],
            ".hadolint.yaml", "jobs/azureml/pipeline.yml", "jobs/kubernetes/mpijob.yaml",
            "jobs/docker/train.compose.yaml", "classify/azureml/pipeline.yml")

    def render(self, jobs, *arguments):
        return subprocess.run([sys.executable, jobs / "render.py", *arguments],
                              capture_output=True, text=True, timeout=60)

    def test_every_job_file_is_what_its_template_makes(self):
        done = self.render(ROOT / "jobs", "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_edit_of_a_job_file_or_of_the_table_is_found_until_they_are_made_again(self):
        jobs = self.room / "jobs"
        shutil.copytree(ROOT / "jobs", jobs)
        self.assertEqual(self.render(jobs).returncode, 0)
        for path, old, new, names in ((jobs / "slurm/eval.sbatch", "#!", "# \n#!", "slurm/eval.sbatch"),
                                      (jobs / "job.toml", "epochs = 26", "epochs = 27", "train.sbatch")):
            path.write_text(path.read_text().replace(old, new, 1))
            done = self.render(jobs, "--check")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(names, done.stdout)
            self.assertEqual(self.render(jobs).returncode, 0)
            self.assertEqual(self.render(jobs, "--check").returncode, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
