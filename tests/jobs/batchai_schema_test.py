"""The files of jobs/batchai: against the project's own schema and rules; where Batch AI's published
schemas of 2018-05-01 are at hand (RETINA_TEST_SCHEMAS names their folder), against those too.
"""
import json
import re
import sys
import unittest

import own_schema
from job_files import SCHEMAS, folders_of, render_jobs, wheel
from own_schema import changed

setUpModule = render_jobs
FOLDERS = folders_of("batchai")
PUBLISHED = SCHEMAS / "batchai/schemas/2018-05-01"
EXPRESSION = "https://schema.management.azure.com/schemas/2015-01-01/deploymentTemplate.json"
SETTINGS = {"mpi": "customMpiSettings", "custom": "customToolkitSettings"}

# --- Rules that no schema can say
# What the service sets for a job; inputs and outputs of the file come on top.
ENVIRONMENT = {"AZ_BATCHAI_MOUNT_ROOT", "AZ_BATCHAI_JOB_TEMP", "AZ_BATCHAI_MPI_HOST_FILE"}


def mounts(cluster):
    """({relative path} of blob containers, {relative path} of file shares)"""
    volumes = cluster["properties"]["nodeSetup"]["mountVolumes"]
    return [{mount["relativeMountPath"] for mount in volumes[kind]}
            for kind in ("azureBlobFileSystems", "azureFileShares")]


def strings(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def cluster_faults(cluster):
    """What is wrong with cluster.json, a line each."""
    properties = cluster["properties"]
    scale = properties["scaleSettings"]["autoScale"]
    blobs, shares = mounts(cluster)
    logs = properties["nodeSetup"]["setupTask"]["stdOutErrPathPrefix"].split("/")
    volumes = properties["nodeSetup"]["mountVolumes"]
    if not 0 == scale["minimumNodeCount"] < scale["initialNodeCount"] <= scale["maximumNodeCount"]:
        yield "the nodes do not scale from 0"
    if logs[0] != "$AZ_BATCHAI_MOUNT_ROOT" or logs[1] not in shares:
        yield "the set-up's logs are not on a mounted share"
    if blobs & shares:
        yield "two mounts have one path"
    for mount in volumes["azureBlobFileSystems"] + volumes["azureFileShares"]:
        if mount["accountName"] != "<AZURE_BATCHAI_STORAGE_ACCOUNT>":
            yield "an account's name instead of its placeholder"
        if mount["credentials"] != {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"}:
            yield "a key instead of its placeholder"


def toolkit_of(job):
    """By the schema that the file names: mpi or custom."""
    return job.get("$schema", "").rsplit("/", 1)[-1].removesuffix(".json")


def job_faults(job, cluster):
    """What is wrong with a job file, a line each."""
    toolkit = toolkit_of(job)
    properties = job["properties"]
    registry = properties["containerSettings"].get("imageSourceRegistry", {})
    image = registry.get("image", "")
    settings = properties.get(SETTINGS.get(toolkit), {})
    command = settings.get("commandLine", "")
    blobs, shares = mounts(cluster)
    if not command:
        yield "$schema is not the toolkit's own"
    # A first part without a dot or a port is no host: such an image is on Docker Hub.
    host = image.split("/")[0] if re.match(r"[^/]*[.:][^/]*/", image) else "docker.io"
    if not image or host != registry.get("serverUrl"):
        yield "serverUrl is not the image's registry"
    if not re.search(r"(:[^/:]+|@sha256:[0-9a-f]{64})$", image) or image.endswith(":latest"):
        yield "the image has no tag that stays"
    for key, text in registry.get("credentials", {}).items():
        if text != f"<RETINA_REGISTRY_{key.upper()}>":
            yield f"a {key} instead of its placeholder"
    logs = properties.get("stdOutErrPathPrefix", "/").split("/")
    if logs[0] != "$AZ_BATCHAI_MOUNT_ROOT" or logs[1] not in shares:
        yield "the output is not on a mounted share, where it could be streamed"
    known = ENVIRONMENT | {
        f"AZ_BATCHAI_{kind}_{folder.get('id')}" for kind in ("INPUT", "OUTPUT")
        for folder in properties.get(f"{kind.lower()}Directories", [])}
    for text in strings(job):
        for name in re.findall(r"\$\{?(\w+)", text):
            if name not in known:
                yield f"${name} is not set"
        for mount in re.findall(r"\$AZ_BATCHAI_MOUNT_ROOT/(\w+)", text):
            if mount not in blobs | shares:
                yield f"{mount} is not mounted"
    yield from rank_faults(toolkit, properties, settings, command, cluster)


def rank_faults(toolkit, properties, settings, command, cluster):
    nodes = properties["nodeCount"]
    if nodes > cluster["properties"]["scaleSettings"]["autoScale"]["maximumNodeCount"]:
        yield "more nodes than the cluster can have"
    if toolkit == "mpi" and settings.keys() != {"commandLine", "processCount"}:
        yield "processCount is missing: it would be a process a node"
    ranks = {settings["processCount"]} if "processCount" in settings else set()
    ranks |= {int(count) for count in re.findall(r"--(?:expect-)?ranks (\d+)", command)}
    if len(ranks) > 1 or any(count % nodes for count in ranks):
        yield f"ranks {sorted(ranks)} on {nodes} nodes"


class BatchaiSchema(unittest.TestCase):
    def load(self, name, folder=FOLDERS[0]):
        return json.loads((folder / f"{name}.json").read_text())

    def files(self, folders=FOLDERS[:1]):
        """(name, content) of every file."""
        return [(file.stem, self.load(file.stem, folder)) for folder in folders
                for file in sorted(folder.glob("*.json"))]

    def faults(self, name, content, folder=FOLDERS[0]):
        if name == "cluster":
            return list(cluster_faults(content))
        return list(job_faults(content, self.load("cluster", folder)))

    def own_errors(self, name, content):
        return own_schema.errors(content, "batchai", "cluster" if name == "cluster" else "job")

    def test_every_file_fits_the_schema(self):
        for folder in FOLDERS:
            self.assertLessEqual(
                {"cluster", "pack", "train", "train-custom-toolkit", "eval", "convert"},
                {name for name, _ in self.files([folder])})
        for name, content in self.files(FOLDERS):
            self.assertEqual(self.own_errors(name, content), [], name)

    def test_every_typo_and_every_wrong_type_is_found(self):
        for name, content in self.files():
            passed = [slip for slip, wrong in own_schema.slips(content)
                      if not self.own_errors(name, wrong)]
            self.assertEqual(passed, [], name)

    def test_a_missing_field_is_found(self):
        at = ("properties",)
        registry = (*at, "containerSettings", "imageSourceRegistry")
        volumes = (*at, "nodeSetup", "mountVolumes")
        job = [at, (*at, "nodeCount"), (*at, "constraints"), (*at, "stdOutErrPathPrefix"),
               (*at, "containerSettings", "shmSize"), registry, (*registry, "image"),
               (*registry, "credentials", "username"), (*at, "outputDirectories"),
               (*at, "inputDirectories", 0, "id"), (*at, "inputDirectories", 0, "path"),
               (*at, "outputDirectories", 0, "id"), (*at, "outputDirectories", 0, "pathPrefix"),
               (*at, "jobPreparation", "commandLine")]
        cluster = [at, (*at, "vmSize"), (*at, "userAccountSettings"),
                   (*at, "userAccountSettings", "adminUserName"),
                   (*at, "scaleSettings", "autoScale"),
                   (*at, "scaleSettings", "autoScale", "minimumNodeCount"),
                   (*at, "scaleSettings", "autoScale", "maximumNodeCount"),
                   (*at, "virtualMachineConfiguration", "imageReference", "sku"),
                   (*at, "nodeSetup", "setupTask", "commandLine"),
                   (*at, "nodeSetup", "setupTask", "stdOutErrPathPrefix"),
                   *((*volumes, "azureBlobFileSystems", 0, key) for key in (
                       "accountName", "containerName", "credentials", "relativeMountPath")),
                   *((*volumes, "azureFileShares", 0, key) for key in (
                       "accountName", "azureFileUrl", "credentials", "relativeMountPath"))]
        for name, content in self.files():
            paths = cluster
            if name != "cluster":
                settings = SETTINGS[toolkit_of(content)]
                paths = [*job, (*at, settings), (*at, settings, "commandLine")]
            passed = [path for path in paths if path in set(own_schema.places(content))
                      and not self.own_errors(name, changed(content, path))]
            self.assertEqual(passed, [], name)

    def test_values_that_the_service_does_not_know_are_found(self):
        at = ("properties",)
        for name, path, value in (
                ("train", (*at, "schedulingPriority"), "urgent"),
                ("train", (*at, "nodeCount"), 0),
                ("train", (*at, "customToolkitSettings"), {"commandLine": "a second one"}),
                ("train", (*at, "horovodSettings"), {"pythonScriptFilePath": "train.py"}),
                ("train", (*at, "constraints", "maxWallClockTime"), "P1D"),
                ("pack", (*at, "containerSettings", "shmSize"), "16g"),
                ("pack", ("$schema",), "https://example.com/2018-05-01/horovod.json"),
                ("cluster", (*at, "vmPriority"), "low-priority"),
                ("cluster", (*at, "scaleSettings", "manual"), {"targetNodeCount": 2}),
                ("cluster", (*at, "userAccountSettings", "adminUserPassword"), "hunter2")):
            with self.subTest(path=path):
                wrong = changed(self.load(name), path, value)
                self.assertNotEqual(self.own_errors(name, wrong), [])

    def published(self, name):
        file = PUBLISHED / f"{name}.json"
        if not file.is_file():
            self.skipTest(f"{file}: not here; the project's own schema has checked the files")
        schema = json.loads(file.read_text())
        # cluster.json says "required": [] where a property's name belongs.
        if isinstance(schema["properties"].get("required"), list):
            del schema["properties"]["required"]
        return schema

    def test_every_file_passes_the_published_schemas_too(self):
        stub = json.loads((SCHEMAS / "arm_expression_stub.json").read_text()) \
            if PUBLISHED.is_dir() else {}
        referencing = wheel("referencing")
        registry = referencing.Registry().with_resource(EXPRESSION, referencing.Resource(
            contents=stub, specification=wheel("referencing.jsonschema").DRAFT7))
        for name, content in self.files(FOLDERS):
            for schema in ["cluster"] if name == "cluster" else ["job", toolkit_of(content)]:
                validator = wheel("jsonschema").Draft7Validator(self.published(schema),
                                                                registry=registry)
                self.assertEqual([error.message for error in validator.iter_errors(content)], [],
                                 name)

    def test_the_schema_names_no_field_that_the_service_does_not_have(self):
        known = set().union(*(own_schema.field_names(self.published(name))
                              for name in ("cluster", "job")))
        own = own_schema.field_names(own_schema.schema("batchai"))
        self.assertEqual(own - known, {"$schema"})
        self.assertIn("nodeCount", own)

    def test_every_file_keeps_the_rules(self):
        for folder in FOLDERS:
            for name, content in self.files([folder]):
                self.assertEqual(self.faults(name, content, folder), [], name)

    def test_the_rules_catch_planted_slips_in_a_job(self):
        at = ("properties",)
        command = self.load("train")["properties"]["customMpiSettings"]["commandLine"]
        for name, path, change, fault in [
                ("train", (*at, "customMpiSettings", "processCount"), {"key": "processcount"},
                 "processCount is missing"),
                ("train", (*at, "customMpiSettings", "processCount"), {"value": 4}, "ranks [4, 8]"),
                ("train", (*at, "customMpiSettings", "processCount"), {}, "processCount"),
                ("train", (*at, "nodeCount"), {"value": 3}, "more nodes than the cluster"),
                ("train", (*at, "customMpiSettings"), {"key": "horovodSettings"}, "$schema"),
                ("train", (*at, "containerSettings", "imageSourceRegistry", "image"), {},
                 "serverUrl is not"),
                ("train", (*at, "containerSettings", "imageSourceRegistry", "image"),
                 {"value": "me/retina-batch:0.1.0"}, "serverUrl is not"),
                ("eval", (*at, "containerSettings", "imageSourceRegistry", "image"),
                 {"value": "registry.example.com/retina-batch:latest"}, "no tag that stays"),
                ("eval", (*at, "containerSettings", "imageSourceRegistry", "credentials"),
                 {"value": {"password": "hunter2"}}, "a password instead of"),
                ("pack", (*at, "stdOutErrPathPrefix"),
                 {"value": "$AZ_BATCHAI_MOUNT_ROOT/external/logs"}, "external is not mounted"),
                ("pack", (*at, "stdOutErrPathPrefix"),
                 {"value": "$AZ_BATCHAI_MOUNT_ROOT/coco/logs"}, "not on a mounted share"),
                ("convert", (*at, "outputDirectories", 0, "id"), {"value": "LOGS"},
                 "$AZ_BATCHAI_OUTPUT_LOG is not set"),
                ("train", (*at, "customMpiSettings", "commandLine"),
                 {"value": command.replace("/coco/", "/autobfs/")}, "autobfs is not mounted"),
                ("train-custom-toolkit", ("$schema",), {}, "$schema")]:
            found = self.faults(name, changed(self.load(name), path, **change))
            self.assertTrue(any(fault in line for line in found), (fault, found))

    def test_the_rules_catch_planted_slips_in_the_cluster(self):
        at = ("properties",)
        for path, change, fault in [
                ((*at, "scaleSettings", "autoScale", "minimumNodeCount"), {"value": 1}, "from 0"),
                ((*at, "nodeSetup", "setupTask", "stdOutErrPathPrefix"),
                 {"value": "$AZ_BATCHAI_MOUNT_ROOT/afs/logs"}, "not on a mounted share"),
                ((*at, "nodeSetup", "mountVolumes", "azureFileShares", 0, "credentials"),
                 {"value": {"accountKey": "c2VjcmV0"}}, "a key instead"),
                ((*at, "nodeSetup", "mountVolumes", "azureFileShares", 0, "relativeMountPath"),
                 {"value": "coco"}, "two mounts")]:
            found = self.faults("cluster", changed(self.load("cluster"), path, **change))
            self.assertTrue(any(fault in line for line in found), (fault, found))

    def test_a_job_on_another_mount_than_the_clusters_is_caught(self):
        cluster = self.load("cluster")
        del cluster["properties"]["nodeSetup"]["mountVolumes"]["azureBlobFileSystems"][:]
        found = list(job_faults(self.load("train"), cluster))
        self.assertIn("coco is not mounted", found)


if __name__ == "__main__":
    sys.exit(unittest.main())
