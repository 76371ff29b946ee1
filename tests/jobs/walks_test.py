"""The walks of the pages for schedulers, as a reader types them: their commands run in order, in
bash, with stand-ins for az, azcopy and kubectl that write down what they are asked. Every file is
there, and no step is missing.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from job_files import ROOT, wheel

STAGES = ("pack", "weights", "train", "eval", "convert")
# What each walk does, in this order; other commands may stand between.
WALKS = {
    "batchai": [
        "az login", "az group create", "az batchai cluster create",
        *(f"az batchai job create --workspace retina --experiment coco --cluster nodes "
          f"--name {stage}" for stage in STAGES),
        "az batchai job file stream", "az batchai cluster resize", "az batchai cluster delete", "az group delete"],
    "azureml": [
        "az login", "az group create", "az ml workspace create", "az storage account create",
        "az storage container create", "az storage share create", "az ml datastore create",
        "azcopy sync coco/annotations", "azcopy sync coco/train2017", "azcopy sync coco/val2017",
        "az ml compute create", *(f"az ml job create --file jobs/azureml/{stage}.yml"
                                  for stage in STAGES),
        "az ml job stream", "az storage file list", "az storage file download-batch",
        "az ml compute update", "az ml compute delete", "az group delete"],
    "kubernetes": [
        "az aks create", "az aks nodepool add", "kubectl apply --server-side",
        "kubectl apply -f jobs/kubernetes/pvc.yaml", "kubectl exec -i files -- tar",
        "kubectl apply -f jobs/kubernetes/pack-job.yaml",
        "kubectl apply -f jobs/kubernetes/weights-job.yaml",
        "kubectl wait --for=condition=complete", "kubectl apply -f jobs/kubernetes/mpijob.yaml",
        "kubectl wait --for=condition=Succeeded", "kubectl apply -f jobs/kubernetes/eval-job.yaml",
        "kubectl apply -f jobs/kubernetes/convert-job.yaml", "kubectl logs -f",
        "kubectl exec files -- ls", "kubectl cp", "kubectl apply -f jobs/kubernetes/serve.yaml",
        "kubectl rollout status deployment/coco-retinanet", "az aks nodepool scale",
        "kubectl delete -f jobs/kubernetes/serve.yaml", "kubectl delete mpijob", "az group delete"],
}
# Of a folder's files, those that another page's walk or another variant uses.
ELSEWHERE = {"batchai": {"train-custom-toolkit.json"},
             "azureml": {"endpoint.yml", "deployment.yml"}, "kubernetes": set()}
PROGRAMS = ("az", "azcopy", "kubectl")

# Writes down its words, in one piece because both ends of a pipe write, and the files among them
# that are not there; what it reads is kept.
STAND_IN = r"""#!/usr/bin/env bash
printf -v words '%s\037' "${0##*/}" "$@"
printf '%s\036' "$words" >>"$WALK/commands"
for word in "$@"; do
  case $word in
    jobs/* | job-files/* | *.key.yml) [ -f "$word" ] || echo "$word" >>"$WALK/missing" ;;
  esac
done
case " $* " in
  *" -f - "* | *" -i "*) cat >>"$WALK/read" ;;
  *" --query "*) echo VALUE ;;
esac
"""


def page(name):
    return (ROOT / f"jobs/{name}/README.md").read_text()


def script(text):
    """The commands of a page: its indented blocks, in order."""
    return "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ")) + "\n"


class Walked:
    """What came of typing a page's commands."""

    def __init__(self, text):
        with tempfile.TemporaryDirectory() as name:
            room = pathlib.Path(name)
            (room / "bin").mkdir()
            (room / "here").mkdir()
            (room / "here/jobs").symlink_to(ROOT / "jobs")
            for program in (*PROGRAMS, "make", "tar"):
                (room / "bin" / program).write_text(STAND_IN)
                (room / "bin" / program).chmod(0o755)
            self.done = subprocess.run(
                ["bash", "-eu", "-c", script(text)], cwd=room / "here", capture_output=True,
                text=True, timeout=60, stdin=subprocess.DEVNULL, env={
                    "PATH": f"{room}/bin:/usr/bin:/bin", "HOME": name, "WALK": name,
                    # Batch AI's walk begins with the storage of Azure ML's.
                    **({} if "export AZURE_STORAGE_KEY" in text else
                       {"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_KEY": "key"})})
            self.left = sorted(path.name for path in (room / "here").iterdir())

            def written(file):
                return (room / file).read_text() if (room / file).exists() else ""

            self.missing, self.read = written("missing").split(), written("read")
            self.commands = [entry.split("\x1f")[:-1]
                             for entry in written("commands").split("\x1e")[:-1]]
            self.lines = [" ".join(words) for words in self.commands]


def missing_step(lines, steps):
    """The first step that does not follow the one before it, or None."""
    place = 0
    for step in steps:
        while place < len(lines) and not lines[place].startswith(step):
            place += 1
        if place == len(lines):
            return step
        place += 1
    return None


class Walks(unittest.TestCase):
    maxDiff = None

    def test_every_walk_runs_from_the_login_to_the_end_with_every_step(self):
        for name, steps in WALKS.items():
            with self.subTest(name):
                walked = Walked(page(name))
                self.assertEqual((walked.done.returncode, walked.done.stderr), (0, ""))
                self.assertIsNone(missing_step(walked.lines, steps))

    def test_every_file_that_a_walk_names_is_there_and_every_job_file_is_walked(self):
        for name, elsewhere in ELSEWHERE.items():
            walked = Walked(page(name))
            self.assertEqual(walked.missing, [], name)
            used = {pathlib.PurePath(word).name for words in walked.commands for word in words}
            files = {path.name for path in (ROOT / f"jobs/{name}").iterdir()} - {"README.md"}
            stores = {file for file in files if f"{file.removesuffix('.yml')}.key.yml" in used}
            self.assertEqual(files - used - stores, elsewhere, name)

    def test_no_walk_leaves_a_key_behind(self):
        for name in WALKS:
            walked = Walked(page(name))
            self.assertEqual([file for file in walked.left if file not in ("jobs", "results")], [])
            for line in walked.lines:
                self.assertNotIn("VALUE", line.replace("--scope VALUE", "").replace(
                    "--assignee VALUE", "").replace("/subscriptions/VALUE", ""), name)

    def test_the_pod_that_takes_the_data_in_is_one_that_kubernetes_takes(self):
        pods = list(wheel("yaml").safe_load_all(Walked(page("kubernetes")).read))
        self.assertEqual([pod["kind"] for pod in pods], ["Pod"])
        wheel("kubernetes_validate").validate(pods[0], "1.31", strict=True)
        claims = {volume["persistentVolumeClaim"]["claimName"] for volume in
                  pods[0]["spec"]["volumes"]}
        made = wheel("yaml").safe_load_all((ROOT / "jobs/kubernetes/pvc.yaml").read_text())
        self.assertEqual(claims, {claim["metadata"]["name"] for claim in made})


if __name__ == "__main__":
    sys.exit(unittest.main())
