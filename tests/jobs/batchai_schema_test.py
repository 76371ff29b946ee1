"""The files of jobs/batchai against the project's own schema, which was made from Batch AI's of 2018-05-01, and rules."""
import json
import re
import sys
import unittest

from job_files import folders_of, render_jobs, schema_errors

setUpModule = render_jobs
FOLDERS = folders_of("batchai")
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
    def faults(self, name, text, folder):
        content = json.loads(text)
        if name == "cluster":
            return schema_errors(content, "batchai", "cluster") or list(cluster_faults(content))
        cluster = json.loads((folder / "cluster.json").read_text())
        return schema_errors(content, "batchai", "job") or list(job_faults(content, cluster))

    def test_every_file_fits_the_schema_and_keeps_the_rules(self):
        for folder in FOLDERS:
            files = {file.stem: file.read_text() for file in sorted(folder.glob("*.json"))}
            self.assertLessEqual({"cluster", "pack", "train", "train-custom-toolkit", "eval", "convert"}, set(files))
            for name, text in files.items():
                self.assertEqual(self.faults(name, text, folder), [], name)

    def test_planted_slips_are_found(self):
        for name, old, new, fault in (
                ("train", "nodeCount", "nodeCounts", "nodeCounts"),
                ("train", '"processCount": 8', '"processCount": 4', "ranks [4, 8]"),
                ("train", '"nodeCount": 2', '"nodeCount": 3', "more nodes than the cluster"),
                ("train", "ROOT/coco/", "ROOT/autobfs/", "autobfs is not mounted"),
                ("eval", "registry.example.com/", "me/", "serverUrl is not"),
                ("convert", '"id": "LOG"', '"id": "LOGS"', "$AZ_BATCHAI_OUTPUT_LOG is not set"),
                ("cluster", '"minimumNodeCount": 0', '"minimumNodeCount": 1', "from 0")):
            text = (FOLDERS[0] / f"{name}.json").read_text()
            self.assertIn(old, text)
            found = self.faults(name, text.replace(old, new), FOLDERS[0])
            self.assertTrue(any(fault in line for line in found), (fault, found))


if __name__ == "__main__":
    sys.exit(unittest.main())
