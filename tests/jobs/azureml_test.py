"""The Azure ML files, validated by Azure ML's own library with no network and no account."""
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import unittest
import warnings

from job_files import INSTALL, folders_of, render_jobs, wheel

setUpModule = render_jobs
FOLDER, CLASSIFY = folders_of("azureml")


def check(paths):
    """Prints what the library finds wrong, {file: [errors]}; in a process of its own, which can be without a network."""
    warnings.filterwarnings("ignore")
    ml = importlib.import_module("azure.ai.ml")
    loaders = {"commandJob": ml.load_job, "pipelineJob": ml.load_job, "amlCompute": ml.load_compute,
               "azureBlob": ml.load_datastore, "azureFile": ml.load_datastore,
               "managedOnlineEndpoint": ml.load_online_endpoint, "managedOnlineDeployment": ml.load_online_deployment}
    found = {}
    for path in paths:
        schema = wheel("yaml").safe_load(pathlib.Path(path).read_text())["$schema"]
        load = loaders[pathlib.PurePath(schema).name.removesuffix(".schema.json")]
        try:
            loaded = load(path)
            result = loaded._validate() if load is ml.load_job else None
            found[path] = result.error_messages if result and not result.passed else {}
        except Exception as error:  # The library has a dozen kinds of its own.
            found[path] = {"file": str(error).strip() or type(error).__name__}
    print(json.dumps(found))


def errors_of(paths):
    wheel("azure.core")
    if not importlib.util.find_spec("azure.ai.ml"):
        raise unittest.SkipTest(f"Python's azure-ai-ml is missing; {INSTALL}")
    away = ["unshare", "-rn"]  # without a network, where this machine lets us
    if not shutil.which(away[0]) or subprocess.run([*away, "true"], capture_output=True).returncode:
        away = []
    done = subprocess.run([*away, sys.executable, __file__, "--check", *paths], capture_output=True, text=True,
                          timeout=300)
    if done.returncode:
        raise AssertionError(done.stderr)
    found = json.loads(done.stdout)
    assert list(found) == list(map(str, paths))
    return found


class AzuremlFiles(unittest.TestCase):
    maxDiff = None

    # One process for all: the library takes seconds to load.
    def test_azures_library_takes_every_file(self):
        paths = [path for folder in (FOLDER, CLASSIFY) for path in sorted(folder.glob("*.yml"))]
        self.assertGreater(len(paths), 12)
        self.assertEqual({name: errors for name, errors in errors_of(paths).items() if errors}, {})

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
    sys.exit(check(sys.argv[2:]) if sys.argv[1:2] == ["--check"] else unittest.main())
