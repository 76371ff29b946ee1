"""The files of jobs/batchai: against Batch AI's schemas of 2018-05-01, and against our own rules.

The schemas are not part of this repository: RETINA_TEST_SCHEMAS names their folder. As published
they let every misspelt key pass, so that they are also tried with every unknown key forbidden.
"""
import copy
import json
import os
import pathlib
import re
import sys
import unittest

try:
    import jsonschema
    import referencing
except ImportError:
    jsonschema = referencing = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "jobs/batchai"
SCHEMAS = pathlib.Path(os.environ.get("RETINA_TEST_SCHEMAS", ROOT.parent / "shared/schemas"))
EXPRESSION = "https://schema.management.azure.com/schemas/2015-01-01/deploymentTemplate.json"
JOBS = {"pack": "custom", "weights": "custom", "train": "mpi", "train-custom-toolkit": "custom", "eval": "mpi",
        "convert": "custom"}
SETTINGS = {"mpi": "customMpiSettings", "custom": "customToolkitSettings"}

# --- Rules that need no schema
JOB_KEYS = {
    "nodeCount", "schedulingPriority", "constraints", "containerSettings", "jobPreparation",
    "inputDirectories", "outputDirectories", "stdOutErrPathPrefix", "environmentVariables",
    *SETTINGS.values()}
NEEDED = {"nodeCount", "constraints", "containerSettings", "inputDirectories", "outputDirectories",
          "stdOutErrPathPrefix"}
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
    account = properties["userAccountSettings"]
    scale = properties["scaleSettings"]["autoScale"]
    blobs, shares = mounts(cluster)
    logs = properties["nodeSetup"]["setupTask"]["stdOutErrPathPrefix"].split("/")
    volumes = properties["nodeSetup"]["mountVolumes"]
    if "adminUserPassword" in account or "adminUserSshPublicKey" not in account:
        yield "the account wants a public key and no password"
    if not 0 == scale["minimumNodeCount"] < scale["initialNodeCount"] <= scale["maximumNodeCount"]:
        yield "the nodes do not scale from 0"
    if properties["vmPriority"] not in ("dedicated", "lowpriority"):
        yield "vmPriority"
    if logs[0] != "$AZ_BATCHAI_MOUNT_ROOT" or logs[1] not in shares:
        yield "the set-up's logs are not on a mounted share"
    if blobs & shares:
        yield "two mounts have one path"
    for mount in volumes["azureBlobFileSystems"] + volumes["azureFileShares"]:
        if mount["accountName"] != "<AZURE_BATCHAI_STORAGE_ACCOUNT>":
            yield "an account's name instead of its placeholder"
        if mount["credentials"] != {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"}:
            yield "a key instead of its placeholder"


def job_faults(toolkit, job, cluster):
    """What is wrong with a job file, a line each."""
    properties = job["properties"]
    container = properties.get("containerSettings", {})
    registry = container.get("imageSourceRegistry", {})
    image = registry.get("image", "")
    settings = properties.get(SETTINGS[toolkit], {})
    command = settings.get("commandLine", "")
    blobs, shares = mounts(cluster)
    for key in job.keys() - {"$schema", "properties"} | properties.keys() - JOB_KEYS:
        yield f"unknown key {key}"
    for key in NEEDED - properties.keys():
        yield f"no {key}"
    if not job.get("$schema", "").endswith(f"/2018-05-01/{toolkit}.json"):
        yield "$schema is not the toolkit's own"
    if len([name for name in properties if name.endswith("Settings")]) != 2 or not command:
        yield f"want containerSettings, {SETTINGS[toolkit]} and no other settings"
    if not image or not image.startswith(registry.get("serverUrl", "?") + "/"):
        yield "the image's name does not begin with its registry"
    if not re.search(r"(:[^/:]+|@sha256:[0-9a-f]{64})$", image) or image.endswith(":latest"):
        yield "the image has no tag that stays"
    for key, text in registry.get("credentials", {}).items():
        if text != f"<RETINA_REGISTRY_{key.upper()}>":
            yield f"a {key} instead of its placeholder"
    if not re.fullmatch(r"[1-9]\d*gb", container.get("shmSize", "")):
        yield "no shmSize, so that NCCL finds 64 MB"
    if not re.fullmatch(r"\d+\.\d\d:\d\d:\d\d",
                        properties.get("constraints", {}).get("maxWallClockTime", "")):
        yield "maxWallClockTime is not d.hh:mm:ss"
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
    nodes = properties.get("nodeCount")
    if not isinstance(nodes, int) or nodes < 1:
        yield "nodeCount"
        return
    if nodes > cluster["properties"]["scaleSettings"]["autoScale"]["maximumNodeCount"]:
        yield "more nodes than the cluster can have"
    if toolkit == "mpi" and settings.keys() != {"commandLine", "processCount"}:
        yield "processCount is missing: it would be a process a node"
    ranks = {settings["processCount"]} if "processCount" in settings else set()
    ranks |= {int(count) for count in re.findall(r"--(?:expect-)?ranks (\d+)", command)}
    if len(ranks) > 1 or any(count % nodes for count in ranks):
        yield f"ranks {sorted(ranks)} on {nodes} nodes"


# --- The schemas

def strict(schema):
    """The schema with every key that it does not name forbidden."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        result.setdefault("additionalProperties", False)
    return result


class BatchaiSchema(unittest.TestCase):
    def load(self, name):
        return json.loads((FILES / f"{name}.json").read_text())

    def changed(self, name, *path, to=None, key=None):
        """The file with what is at `path` set to `to`, renamed to `key`, or removed."""
        content = place = self.load(name)
        for step in path[:-1]:
            place = place[step]
        if to is not None:
            place[path[-1]] = to
            return content
        old = place.pop(path[-1])
        if key is not None:
            place[key] = old
        return content

    def faults(self, name, content=None):
        content = content or self.load(name)
        if name == "cluster":
            return list(cluster_faults(content))
        return list(job_faults(JOBS[name], content, self.load("cluster")))

    def schema(self, name, is_strict=False):
        if jsonschema is None:
            self.skipTest("jsonschema and referencing are missing: make test installs them")
        file = SCHEMAS / f"batchai/schemas/2018-05-01/{name}.json"
        if not file.is_file():
            self.skipTest(f"{file}: no such schema; RETINA_TEST_SCHEMAS names their folder")
        schema = json.loads(file.read_text())
        # cluster.json says "required": [] where a property's name belongs.
        if isinstance(schema["properties"].get("required"), list):
            del schema["properties"]["required"]
        if is_strict:
            schema = strict(schema)
            schema["properties"]["$schema"] = {"type": "string"}
            # What the service demands, less what az fills in.
            needed = schema["definitions"]["ClusterBaseProperties" if name == "cluster"
                                           else "JobBaseProperties"]["required"]
            schema["required"] = ["properties"]
            schema["properties"]["properties"]["required"] = sorted(set(needed) - {"cluster"})
        return schema

    def errors(self, schema, content):
        stub = json.loads((SCHEMAS / "arm_expression_stub.json").read_text())
        registry = referencing.Registry().with_resource(EXPRESSION, referencing.Resource(
            contents=stub, specification=referencing.jsonschema.DRAFT7))
        jsonschema.Draft7Validator.check_schema(schema)
        return list(jsonschema.Draft7Validator(schema, registry=registry).iter_errors(content))

    def schemas_of(self, name):
        return ["cluster"] if name == "cluster" else ["job", JOBS[name]]

    def test_every_file_passes_the_published_schemas(self):
        for name in ["cluster", *JOBS]:
            for schema in self.schemas_of(name):
                self.assertEqual(self.errors(self.schema(schema), self.load(name)), [], name)

    def test_every_file_passes_the_strict_schemas(self):
        for name in ["cluster", *JOBS]:
            for schema in self.schemas_of(name):
                found = self.errors(self.schema(schema, is_strict=True), self.load(name))
                self.assertEqual([error.message for error in found], [], name)

    PLANTED = [
        ("train", ("properties", "nodeCount"), {"key": "nodeCounts"}),
        ("train", ("properties", "containerSettings", "shmSize"), {"key": "shmsize"}),
        ("train", ("properties", "customMpiSettings", "processCount"), {"key": "processcount"}),
        ("pack", ("properties", "inputDirectories"), {"key": "inputDirectory"}),
        ("pack", ("properties",), {"key": "property"}),
        ("cluster", ("properties", "vmPriority"), {"key": "vmpriority"}),
        ("cluster", ("properties", "scaleSettings", "autoScale", "initialNodeCount"),
         {"key": "targetNodeCount"}),
    ]
    PLANTED_WORSE = [
        ("train", ("properties", "containerSettings", "imageSourceRegistry", "image"), {}),
        ("train", ("properties", "customMpiSettings", "processCount"), {"to": "8"}),
        ("eval", ("properties", "schedulingPriority"), {"to": "urgent"}),
        ("pack", ("properties", "outputDirectories", 0), {"to": {"id": "LOG"}}),
        ("cluster", ("properties", "vmPriority"), {"to": "low-priority"}),
        ("cluster", ("properties", "nodeSetup", "mountVolumes", "azureFileShares"),
         {"to": [{"azureFileUrl": "https://a.file.core.windows.net/b"}]}),
    ]

    def test_the_strict_schemas_catch_what_the_published_ones_let_pass(self):
        for name, path, change in self.PLANTED:
            content = self.changed(name, *path, **change)
            for schema in self.schemas_of(name):
                self.assertEqual(self.errors(self.schema(schema), content), [], path)
                self.assertNotEqual(
                    self.errors(self.schema(schema, is_strict=True), content), [], path)

    def test_the_published_schemas_catch_what_is_plainly_wrong(self):
        for name, path, change in self.PLANTED_WORSE:
            content = self.changed(name, *path, **change)
            for schema in self.schemas_of(name):
                self.assertNotEqual(self.errors(self.schema(schema), content), [], path)

    def test_every_file_keeps_the_rules(self):
        for name in ["cluster", *JOBS]:
            self.assertEqual(self.faults(name), [], name)
        known = {"cluster.json", *(f"{name}.json" for name in JOBS)}
        self.assertEqual({file.name for file in FILES.glob("*.json")}, known)

    def test_the_rules_catch_planted_slips_in_a_job(self):
        at = ("properties",)
        command = self.load("train")["properties"]["customMpiSettings"]["commandLine"]
        for name, path, change, fault in [
                ("train", (*at, "nodeCount"), {"key": "nodeCounts"}, "unknown key nodeCounts"),
                ("train", (*at, "containerSettings", "shmSize"), {"key": "shmsize"}, "shmSize"),
                ("train", (*at, "customMpiSettings", "processCount"), {"key": "processcount"},
                 "processCount is missing"),
                ("train", (*at, "customMpiSettings", "processCount"), {"to": 4}, "ranks [4, 8]"),
                ("train", (*at, "customMpiSettings", "processCount"), {}, "processCount"),
                ("train", (*at, "nodeCount"), {"to": 3}, "more nodes than the cluster"),
                ("train", (*at, "customMpiSettings"), {"key": "horovodSettings"}, "horovod"),
                ("train", (*at, "containerSettings", "imageSourceRegistry", "image"), {},
                 "does not begin with its registry"),
                ("eval", (*at, "containerSettings", "imageSourceRegistry", "image"),
                 {"to": "registry.example.com/retina-batch:latest"}, "no tag that stays"),
                ("eval", (*at, "containerSettings", "imageSourceRegistry", "credentials"),
                 {"to": {"password": "hunter2"}}, "a password instead of"),
                ("eval", (*at, "constraints", "maxWallClockTime"), {"to": "P1D"}, "d.hh:mm:ss"),
                ("pack", (*at, "stdOutErrPathPrefix"),
                 {"to": "$AZ_BATCHAI_MOUNT_ROOT/external/logs"}, "external is not mounted"),
                ("pack", (*at, "stdOutErrPathPrefix"), {"to": "$AZ_BATCHAI_MOUNT_ROOT/coco/logs"},
                 "not on a mounted share"),
                ("convert", (*at, "outputDirectories", 0, "id"), {"to": "LOGS"},
                 "$AZ_BATCHAI_OUTPUT_LOG is not set"),
                ("train", (*at, "customMpiSettings", "commandLine"),
                 {"to": command.replace("/coco/", "/autobfs/")}, "autobfs is not mounted"),
                ("train-custom-toolkit", ("$schema",), {}, "$schema")]:
            found = self.faults(name, self.changed(name, *path, **change))
            self.assertTrue(any(fault in line for line in found), (fault, found))

    def test_the_rules_catch_planted_slips_in_the_cluster(self):
        at = ("properties",)
        for path, change, fault in [
                ((*at, "userAccountSettings"),
                 {"to": {"adminUserName": "retina", "adminUserPassword": "hunter2"}}, "password"),
                ((*at, "vmPriority"), {"to": "low"}, "vmPriority"),
                ((*at, "scaleSettings", "autoScale", "minimumNodeCount"), {"to": 1}, "from 0"),
                ((*at, "nodeSetup", "setupTask", "stdOutErrPathPrefix"),
                 {"to": "$AZ_BATCHAI_MOUNT_ROOT/afs/logs"}, "not on a mounted share"),
                ((*at, "nodeSetup", "mountVolumes", "azureFileShares", 0, "credentials"),
                 {"to": {"accountKey": "c2VjcmV0"}}, "a key instead"),
                ((*at, "nodeSetup", "mountVolumes", "azureFileShares", 0, "relativeMountPath"),
                 {"to": "coco"}, "two mounts")]:
            found = self.faults("cluster", self.changed("cluster", *path, **change))
            self.assertTrue(any(fault in line for line in found), (fault, found))

    def test_a_job_on_another_mount_than_the_clusters_is_caught(self):
        cluster = copy.deepcopy(self.load("cluster"))
        del cluster["properties"]["nodeSetup"]["mountVolumes"]["azureBlobFileSystems"][:]
        found = list(job_faults("mpi", self.load("train"), cluster))
        self.assertIn("coco is not mounted", found)


if __name__ == "__main__":
    sys.exit(unittest.main())
