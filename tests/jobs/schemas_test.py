"""Job files against schemas: Batch AI's against the project's own, which was made from the service's of 2018-05-01, with
the rules that no schema can say; Compose's against the specification's."""
import importlib.resources
import json
import sys
import unittest

from job_files import folders_of, render_jobs, schema_errors, wheel

setUpModule = render_jobs


class JobFilesSchemas(unittest.TestCase):
    def test_batchai(self):
        for folder in folders_of("batchai"):
            files = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
            self.assertLessEqual({"cluster", "pack", "train", "train-custom-toolkit", "eval", "convert"}, set(files))
            cluster = files.pop("cluster")
            self.assertEqual(schema_errors(cluster, "batchai", "cluster"), [])
            setup = cluster["properties"]["nodeSetup"]
            blobs, shares = ({mount["relativeMountPath"] for mount in setup["mountVolumes"][kind]}
                             for kind in ("azureBlobFileSystems", "azureFileShares"))
            self.assertFalse(blobs & shares, "two mounts have one path")
            scale = cluster["properties"]["scaleSettings"]["autoScale"]
            self.assertTrue(0 < scale["initialNodeCount"] <= scale["maximumNodeCount"])
            for name, job in files.items():
                with self.subTest(name):
                    self.assertEqual(schema_errors(job, "batchai", "job"), [])
                    properties = job["properties"]
                    toolkit = {"mpi.json": "customMpiSettings", "custom.json": "customToolkitSettings"}[
                        job["$schema"].rsplit("/", 1)[-1]]
                    self.assertIn(toolkit, properties)
                    self.assertLessEqual(properties["nodeCount"], scale["maximumNodeCount"])
                    # Only a share's files can be streamed.
                    for place in (properties, setup["setupTask"]):
                        self.assertIn(place["stdOutErrPathPrefix"].split("/")[1], shares)

    def test_compose(self):
        # check-jsonschema brings the schema: nothing is fetched.
        wheel("check_jsonschema")
        schema = importlib.resources.files("check_jsonschema.builtin_schemas.vendor") / "compose-spec.json"
        schema = json.loads(schema.read_text())
        validator = wheel("jsonschema").validators.validator_for(schema)(schema)
        stages = ["convert", "eval", "pack", "train"]
        for folder, expected in zip(folders_of("docker"), ([*stages, "weights"], stages), strict=True):
            paths = sorted(folder.glob("*.compose.yaml"))
            self.assertEqual([path.name.split(".")[0] for path in paths], expected)
            for path in paths:
                content = wheel("yaml").safe_load(path.read_text())
                self.assertEqual([error.message for error in validator.iter_errors(content)], [], path.name)


if __name__ == "__main__":
    sys.exit(unittest.main())
