"""The Azure ML files, validated by Azure ML's own library with no network and no account."""
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from job_files import INSTALL, folders_of, render_jobs, wheel

setUpModule = render_jobs
FOLDER, CLASSIFY = folders_of("azureml")
CHECK = pathlib.Path(__file__).with_name("azureml_check.py")
TYPOS = (
    ("train.yml", "process_count_per_instance", "process_count_per_instnce"),
    ("pipeline.yml", "parent.jobs.pack", "parent.jobs.packs"),
    ("gpu-cluster.yml", "min_instances:", "min_instance:"),
    ("deployment.yml", "liveness_route:", "liveness_rout:"),
)


def network_away():
    """A prefix that takes the network from a command, where this machine lets us."""
    away = ["unshare", "-rn"]
    if not shutil.which(away[0]):
        return []
    allowed = subprocess.run([*away, "true"], capture_output=True).returncode == 0
    return away if allowed else []


def errors_of(paths):
    wheel("yaml")
    wheel("azure.core")
    if not importlib.util.find_spec("azure.ai.ml"):
        raise unittest.SkipTest(f"Python's azure-ai-ml is missing; {INSTALL}")
    done = subprocess.run([*network_away(), sys.executable, CHECK, *paths], capture_output=True,
                          text=True, timeout=300)
    if done.returncode:
        raise AssertionError(done.stderr)
    found = json.loads(done.stdout)
    assert list(found) == list(map(str, paths))
    return found


class AzuremlFiles(unittest.TestCase):
    maxDiff = None

    # One process for all: the library takes seconds to load.
    def test_azures_library_takes_every_file_and_finds_every_typo(self):
        paths = sorted(FOLDER.glob("*.yml"))
        expected = {name for name, _, _ in TYPOS} | {"endpoint.yml", "pack.yml", "weights.yml", "eval.yml", "convert.yml"}
        self.assertLessEqual(expected, {path.name for path in paths})
        others = sorted(CLASSIFY.glob("*.yml"))
        self.assertLessEqual({"pack.yml", "train.yml", "eval.yml", "convert.yml", "pipeline.yml"},
                             {path.name for path in others})
        paths += others
        with tempfile.TemporaryDirectory() as room:
            planted = {}
            for number, (name, old, new) in enumerate(TYPOS):
                content = (FOLDER / name).read_text()
                self.assertIn(old, content, name)
                path = pathlib.Path(room) / f"{number}-{name}"
                path.write_text(content.replace(old, new, 1))
                planted[str(path)] = new
            found = errors_of([*paths, *planted])
        self.assertEqual({str(path): found[str(path)] for path in paths if found[str(path)]}, {})
        self.assertEqual([new for path, new in planted.items() if not found[path]], [])

    def test_the_deployment_belongs_to_the_endpoint_and_asks_for_the_model(self):
        load = wheel("yaml").safe_load
        endpoint, deployment = (load((FOLDER / f"{name}.yml").read_text())
                                for name in ("endpoint", "deployment"))
        self.assertEqual(deployment["endpoint_name"], endpoint["name"])
        model = deployment["model"].split(":")[1]
        routes = deployment["environment"]["inference_config"]
        self.assertEqual(routes["scoring_route"]["path"], f"/v2/models/{model}/infer")
        self.assertEqual(routes["readiness_route"]["path"], f"/v2/models/{model}/ready")
        self.assertIn(f"--service-name {model}\n", (FOLDER / "convert.yml").read_text())


if __name__ == "__main__":
    sys.exit(unittest.main())
