"""The Kubernetes files: pods, Jobs and the service against Kubernetes' own schemas, the MPIJob around them against
the project's, which has the rules of the operator's controller.
"""
import importlib
import json
import re
import sys
import unittest

from job_files import ROOT, folders_of, indexed_words, render_jobs, schema_errors, table, wheel

setUpModule = render_jobs
FOLDERS = folders_of("kubernetes")
# Of Kubernetes: the first in which a Job's podFailurePolicy is stable, and the wheel's newest.
VERSIONS = ("1.31", "1.37")


def documents(name, folder=FOLDERS[0]):
    return list(wheel("yaml").safe_load_all((folder / name).read_text()))


def refused(document, version=VERSIONS[-1]):
    """What an API server would refuse, unknown fields too; "" for nothing."""
    validate = wheel("kubernetes_validate")
    try:
        validate.validate(document, version, strict=True)
        return ""
    except validate.ValidationError as error:
        return f"{version}: {'.'.join(map(str, error.path))}: {error.message}"


def pods(job):
    """The pods of an MPIJob, as documents of their own."""
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": kind.lower()},
             "spec": {"restartPolicy": "Never", **replica["template"]["spec"]}}
            for kind, replica in job["spec"]["mpiReplicaSpecs"].items()]


class KubernetesFiles(unittest.TestCase):
    def setUp(self):
        wheel("kubernetes_validate")

    def mpijob(self, folder=FOLDERS[0]):
        [job] = documents("mpijob.yaml", folder)
        return job

    def test_the_api_server_would_take_every_file(self):
        for folder in FOLDERS:
            kinds = []
            for path in sorted(folder.glob("*.yaml")):
                for document in documents(path.name, folder):
                    kinds.append(document["kind"])
                    if kinds[-1] == "MPIJob":  # as the operator would take it
                        self.assertEqual(schema_errors(document, "mpijob"), [])
                    for part in pods(document) if kinds[-1] == "MPIJob" else [document]:
                        for version in VERSIONS:
                            self.assertEqual(refused(part, version), "", f"{path}: {part['kind']}")
            serving = ["Deployment", "Service"] if folder == FOLDERS[0] else []
            self.assertEqual(sorted(set(kinds)),
                             sorted(["Job", "MPIJob", "PersistentVolumeClaim", *serving]))

    def test_the_pods_of_the_indexed_job_pack_each_part_once_and_another_job_merges_them(self):
        for folder in FOLDERS:
            [packing], [merging] = (documents(name, folder)
                                    for name in ("pack-parts-job.yaml", "merge-job.yaml"))
            spec, count = packing["spec"], table()["size"]["pack_parts"]
            self.assertEqual((spec["completionMode"], spec["completions"]), ("Indexed", count))
            pod, merge = (job["spec"]["template"]["spec"] for job in (packing, merging))
            for kind in ("initContainers", "containers"):
                [container], [other] = pod[kind], merge[kind]
                runs = [indexed_words(container["command"], index) for index in range(count)]
                self.assertEqual([run[-2:] for run in runs],
                                 [["--part", f"{part}/{count}"] for part in range(1, count + 1)])
                words = other["command"]
                self.assertEqual({words[words.index("--merge") + 1]},
                                 {run[run.index("--output") + 1] for run in runs})

    def test_the_deployment_serves_the_converted_model_where_the_service_and_the_probes_look(self):
        deployment, service = documents("serve.yaml")
        [convert] = documents("convert-job.yaml")
        template = deployment["spec"]["template"]
        labels, notes = template["metadata"]["labels"], template["metadata"]["annotations"]
        self.assertEqual(deployment["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(service["spec"]["selector"], labels)
        [container] = template["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        settings = {one["name"]: one["value"] for one in container["env"]}
        self.assertEqual([port["targetPort"] for port in service["spec"]["ports"]], ["http"])
        self.assertEqual(settings["MLSERVER_HTTP_PORT"], str(ports["http"]))
        self.assertEqual(settings["MLSERVER_METRICS_PORT"], str(ports["metrics"]))
        self.assertEqual(notes["prometheus.io/port"], str(ports["metrics"]))
        # The command of the job `convert` says where its folder is on the share, and the model's name.
        words = convert["spec"]["template"]["spec"]["containers"][0]["command"]
        folder, name = (words[words.index(option) + 1]
                        for option in ("--repository", "--service-name"))
        [share] = [mount["mountPath"] for mount in
                   convert["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
                   if mount["name"] == "share"]
        [models] = container["volumeMounts"]
        self.assertEqual(folder, f"{share}/{models['subPath']}")
        self.assertTrue(models["readOnly"])
        claims = {claim["metadata"]["name"] for claim in documents("pvc.yaml")}
        self.assertIn(template["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], claims)
        for probe, path in (("startupProbe", f"/v2/models/{name}/ready"),
                            ("readinessProbe", f"/v2/models/{name}/ready"),
                            ("livenessProbe", "/v2/health/live")):
            self.assertEqual(container[probe]["httpGet"], {"path": path, "port": "http"})
        dockerfile = (ROOT / "docker/serve.Dockerfile").read_text()
        self.assertIn(f'CMD ["python", "/opt/retina/serve.py", "{models["mountPath"]}"]', dockerfile)
        self.assertIn(f"EXPOSE {ports['http']} {ports['metrics']}\n", dockerfile)
        [user] = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
        context = template["spec"]["securityContext"]
        self.assertEqual((context["runAsUser"], context["runAsGroup"]), tuple(map(int, user)))
        # The settings are ones that the service knows.
        sys.path.insert(0, str(ROOT / "jobs/serving"))
        limits = importlib.import_module("request").Limits.of_settings(
            json.loads(settings["MLSERVER_MODEL_EXTRA"]))
        self.assertEqual(limits.max_requests, table()["serving"]["max_requests"])

    def test_the_pods_are_the_user_of_the_image_and_start_its_sshd(self):
        dockerfile = (ROOT / "docker/Dockerfile").read_text()
        [user] = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
        job = self.mpijob()
        jobs = [document for folder in FOLDERS for path in folder.glob("*-job.yaml")
                for document in documents(path.name, folder)]
        specs = [pod["spec"] for folder in FOLDERS for pod in pods(self.mpijob(folder))] + [
            document["spec"]["template"]["spec"] for document in jobs]
        self.assertGreater(len(specs), 8)
        for spec in specs:
            context = spec["securityContext"]
            self.assertEqual((context["runAsUser"], context["runAsGroup"]), tuple(map(int, user)))
            self.assertTrue(context["runAsNonRoot"])
        sshd = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        config = sshd["command"][sshd["command"].index("-f") + 1]
        self.assertIn(f"COPY docker/sshd_config {config}\n", dockerfile)
        # Its client's settings lie where the launcher looks, and where no other ssh does.
        launcher = (ROOT / "docker/retina-launch").read_text()
        [settings] = re.findall(r"ssh_config=(/\S+)", launcher)
        self.assertEqual(re.findall(r"^COPY docker/ssh_config (\S+)$", dockerfile, re.MULTILINE),
                         [settings])
        self.assertFalse(settings.startswith("/etc/ssh/"))
        [home] = re.findall(r"^WORKDIR (/home/\S+)$", dockerfile, re.MULTILINE)
        self.assertEqual(job["spec"]["sshAuthMountPath"], f"{home}/.ssh")
        ports = re.findall(r"^Port (\d+)$", (ROOT / "docker/sshd_config").read_text(), re.MULTILINE)
        self.assertEqual([str(port["containerPort"]) for port in sshd["ports"]], ports)


if __name__ == "__main__":
    sys.exit(unittest.main())
