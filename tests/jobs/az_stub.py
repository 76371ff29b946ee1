"""A recording stand-in for az and azcopy: what jobs/batchai/submit.sh talks to in its test.

It knows the commands and options of az (those of `az batchai` were read off azure-cli-batchai
0.4.10; an unknown one ends with 2, as az's own), keeps what exists in a dictionary, and lets time
pass by one at each question: a provider registers, nodes come up, a job goes from queued to its
end. What it writes that must stay secret has SECRET in it.

It runs inside the test: what stands on PATH as az and azcopy is a few lines of bash that send their
words here over loopback and print what comes back.
"""
import contextlib
import json
import pathlib
import re
import socketserver
import sys
import threading
import time

KEY = "SECRETKEY+abc/def=="
SIGNED_URL = "https://account.file.core.windows.net/share/stdout.txt?sv=2018&sig=SECRETSIGNATURE"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
USAGE, MISSING = 2, 3  # az's own exit codes
# What the client sends: these, then the number of its words, then they.
ENVIRONMENT = ("PWD", "AZURE_STORAGE_KEY", "AZURE_BATCHAI_STORAGE_KEY", "AZCOPY_AUTO_LOGIN_TYPE")
CLIENT = """#!/usr/bin/env bash
exec 3<>/dev/tcp/127.0.0.1/PORT
printf '%s\\0' VALUES "$(($# + 1))" NAME "$@" >&3
while IFS= read -r -u 3 line; do
  case $line in
    o*) echo "${line:1}" ;;
    e*) echo "${line:1}" >&2 ;;
    x*) exit "${line:1}" ;;
  esac
done
exit 99
"""

GROUP = "--resource-group/-g"
WORKSPACE = f"{GROUP} --workspace/-w"
EXPERIMENT = f"{WORKSPACE} --experiment/-e"
MOUNTS = ("--nfs --nfs-mount-path --afs-name --afs-mount-path --bfs-name --bfs-mount-path "
          "--storage-account-name --storage-account-key")
# command: (required, optional, flags)
GRAMMAR = {
    "batchai workspace create": (f"{GROUP} --workspace/-n", "--location/-l", ""),
    "batchai workspace show": (f"{GROUP} --workspace/-n", "", ""),
    "batchai workspace list": ("", GROUP, ""),
    "batchai workspace delete": (f"{GROUP} --workspace/-n", "", "--yes/-y --no-wait"),
    "batchai cluster create": (
        f"{WORKSPACE} --name/-n",
        "--config-file/-f --user-name/-u --ssh-key/-k --password/-p --image/-i --custom-image "
        "--vm-size/-s --vm-priority --target/-t --min --max --subnet --setup-task "
        f"--setup-task-output {MOUNTS}",
        "--generate-ssh-keys --use-auto-storage"),
    "batchai cluster delete": (f"{WORKSPACE} --name/-n", "", "--yes/-y --no-wait"),
    "batchai cluster show": (f"{WORKSPACE} --name/-n", "", ""),
    "batchai cluster list": (WORKSPACE, "", ""),
    "batchai cluster resize": (f"{WORKSPACE} --name/-n --target/-t", "", ""),
    "batchai cluster auto-scale": (f"{WORKSPACE} --name/-n --min --max", "", ""),
    "batchai cluster node list": (f"{WORKSPACE} --cluster/-c", "", ""),
    "batchai cluster file list": (f"{WORKSPACE} --cluster/-c", "--path/-p --expiry", ""),
    "batchai experiment create": (f"{WORKSPACE} --name/-n", "", ""),
    "batchai experiment show": (f"{WORKSPACE} --name/-n", "", ""),
    "batchai experiment list": (WORKSPACE, "", ""),
    "batchai experiment delete": (f"{WORKSPACE} --name/-n", "", "--yes/-y --no-wait"),
    "batchai job create": (f"{EXPERIMENT} --name/-n --config-file/-f --cluster/-c", MOUNTS, ""),
    "batchai job delete": (f"{EXPERIMENT} --name/-n", "", "--yes/-y --no-wait"),
    "batchai job terminate": (f"{EXPERIMENT} --name/-n", "", "--yes/-y --no-wait"),
    "batchai job show": (f"{EXPERIMENT} --name/-n", "", ""),
    "batchai job list": (EXPERIMENT, "", ""),
    "batchai job wait": (f"{EXPERIMENT} --name/-n", "--interval", ""),
    "batchai job file list": (f"{EXPERIMENT} --job/-j",
                              "--output-directory-id/-d --path/-p --expiry", ""),
    "batchai job file stream": (f"{EXPERIMENT} --job/-j --file-name/-f",
                                "--output-directory-id/-d --path/-p", ""),
    "batchai job node list": (f"{EXPERIMENT} --job/-j", "", ""),
    "account show": ("", "", ""),
    "account set": ("--subscription/-s", "", ""),
    "login": ("", "", ""),
    "provider show": ("--namespace/-n", "", ""),
    "provider register": ("--namespace/-n", "", "--wait"),
    "role assignment list": ("", "--role --assignee --scope", ""),
    "role assignment create": ("--role --assignee", "--scope", ""),
    "role assignment delete": ("", "--role --assignee --scope", "--yes/-y"),
    "group exists": ("--name/-n", "", ""),
    "group create": ("--name/-n --location/-l", "", ""),
    "group delete": ("--name/-n", "", "--yes/-y --no-wait"),
    "resource list": ("", GROUP, ""),
    "storage account list": ("", GROUP, ""),
    "storage account create": (f"--name/-n {GROUP}", "--location/-l --sku --kind", ""),
    "storage account show": ("--name/-n", GROUP, ""),
    "storage account delete": ("--name/-n", GROUP, "--yes/-y"),
    "storage account keys list": ("--account-name/-n", GROUP, ""),
    "storage share exists": ("--name/-n", "--account-name", ""),
    "storage share create": ("--name/-n", "--account-name --quota", ""),
    "storage share delete": ("--name/-n", "--account-name", ""),
    "storage container exists": ("--name/-n", "--account-name", ""),
    "storage container create": ("--name/-n", "--account-name", ""),
    "storage container delete": ("--name/-n", "--account-name", ""),
    "storage directory create": ("--name/-n --share-name/-s", "--account-name", ""),
    "storage file list": ("--share-name/-s", "--account-name --path/-p", ""),
    "storage file download-batch": ("--source/-s --destination/-d", "--account-name --pattern", ""),
}
GLOBAL = "--output/-o --query --subscription"


class Refused(Exception):
    """What az answers with an exit code of its own."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def names(text):
    """{each spelling: the first of its option}"""
    return {spelling: option.split("/")[0]
            for option in text.split() for spelling in option.split("/")}


def parse(words):
    """(command, {option: value}) of an az command line, or Refused as az's parser does."""
    command = ""
    while words and not words[0].startswith("-"):
        command = f"{command} {words[0]}".strip()
        words = words[1:]
    if command not in GRAMMAR:
        raise Refused(f"az: '{command}' is not in the 'az' command group.", USAGE)
    required, optional, flags = GRAMMAR[command]
    valued, switches = names(f"{required} {optional} {GLOBAL}"), names(flags)
    options = {}
    while words:
        word, words = words[0], words[1:]
        if word in switches:
            options[switches[word]] = True
        elif word in valued and words:
            options[valued[word]], words = words[0], words[1:]
        else:
            raise Refused(f"az {command}: unrecognized arguments: {word}", USAGE)
    for option in names(required).values():
        if option not in options:
            raise Refused(f"az {command}: the following arguments are required: {option}", USAGE)
    return command, options


def look_up(value, path):
    """a.b, a[0].b: None where something on the way is missing."""
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = value[int(index)] if isinstance(value, list) and value else None
    return value


def query(value, text):
    """The few forms of JMESPath that submit.sh uses; another one is refused."""
    path = r"(?:\w+|\[\d+\])(?:\.\w+|\[\d+\])*"
    if re.fullmatch(path, text):
        return look_up(value, text)
    if re.fullmatch(rf"\[{path}(,{path})+\]", text):
        return [look_up(value, part) for part in text[1:-1].split(",")]
    if match := re.fullmatch(r"\[\]\.(.+)", text):
        return [query(item, match[1]) for item in value]
    if match := re.fullmatch(r"\[\?(\w+)=='(\w+)'\]\.(\w+)", text):
        return [item[match[3]] for item in value if item[match[1]] == match[2]]
    raise Refused(f"az: argument --query: invalid jmespath_type value: {text!r}", USAGE)


def tsv(value):
    """As az prints it: an item a line, a list in a list with tabs, null as None, true as true."""
    lines = []
    for item in value if isinstance(value, list) else [value]:
        cells = item if isinstance(item, list) else [item]
        cells = [str(cell).lower() if isinstance(cell, bool) else str(cell) for cell in cells]
        lines.append("\t".join(cells) + "\n")
    return "".join(lines)


class Cloud:
    """What exists. Methods are az's commands with _ for blanks; they return what az would show."""

    def __init__(self, state, environment):
        self.state = state
        self.environment = environment

    def file(self, path):
        """A path on the command line, seen from where the command ran."""
        return pathlib.Path(self.environment["PWD"], path)

    def things(self, kind):
        return self.state.setdefault(kind, {})

    def make(self, kind, name, **facts):
        if name in self.things(kind):
            raise Refused(f"{kind} {name} exists already")
        self.things(kind)[name] = {"name": name} | facts
        return self.things(kind)[name]

    def need(self, kind, name):
        if name not in self.things(kind):
            raise Refused(f"ResourceNotFound: {kind} {name}", MISSING)
        return self.things(kind)[name]

    def drop(self, kind, name):
        self.need(kind, name)
        del self.things(kind)[name]

    # --- the account
    def account_show(self, _):
        if not self.state.get("logged_in"):
            raise Refused("Please run 'az login' to setup account.")
        return {"id": SUBSCRIPTION, "user": {"name": "someone@example.com"}}

    def login(self, _):
        self.state["logged_in"] = True
        return [{"id": SUBSCRIPTION}]

    def account_set(self, _):
        return None

    def provider_show(self, options):
        provider = self.things("provider").setdefault(options["--namespace"], {"polls": -1})
        if provider["polls"] > 0:
            provider["polls"] -= 1
        state = {-1: "NotRegistered", 0: "Registered"}.get(provider["polls"], "Registering")
        return {"registrationState": state}

    def provider_register(self, options):
        self.things("provider")[options["--namespace"]] = {"polls": 3}

    @staticmethod
    def assignment(options):
        return "|".join(options.get(key, "") for key in ("--role", "--assignee", "--scope"))

    def role_assignment_list(self, options):
        return [{"id": name} for name in self.things("role") if name == self.assignment(options)]

    def role_assignment_create(self, options):
        return self.make("role", self.assignment(options))

    def role_assignment_delete(self, options):
        self.drop("role", self.assignment(options))

    # --- groups and storage
    def group_exists(self, options):
        return options["--name"] in self.things("group")

    def group_create(self, options):
        return self.make("group", options["--name"])

    def group_delete(self, options):
        if "--yes" not in options:
            raise Refused("Unable to prompt for confirmation as no tty available. Use --yes.")
        self.drop("group", options["--name"])
        self.drop_within("storage", "group", options["--name"])
        self.drop_within("workspace", "group", options["--name"])

    def drop_within(self, kind, key, value):
        """With an account go its shares and containers."""
        for name, thing in list(self.things(kind).items()):
            if thing[key] == value:
                del self.things(kind)[name]
                if kind == "storage":
                    self.drop_within("share", "account", name)
                    self.drop_within("container", "account", name)

    def resource_list(self, options):
        return [thing for kind in ("storage", "workspace", "other")
                for thing in self.things(kind).values()
                if thing["group"] == options["--resource-group"]]

    def storage_account_list(self, options):
        return [thing for thing in self.things("storage").values()
                if thing["group"] == options["--resource-group"]]

    def storage_account_create(self, options):
        self.need("group", options["--resource-group"])
        return self.make("storage", options["--name"], group=options["--resource-group"],
                         primaryLocation=options["--location"])

    def storage_account_show(self, options):
        thing = self.need("storage", options["--name"])
        return thing | {"id": f"/subscriptions/{SUBSCRIPTION}/storageAccounts/{thing['name']}"}

    def storage_account_delete(self, options):
        self.need("storage", options["--name"])
        self.drop_within("storage", "name", options["--name"])

    def storage_account_keys_list(self, options):
        self.need("storage", options["--account-name"])
        return [{"keyName": "key1", "value": KEY}]

    def in_account(self, options):
        self.need("storage", options["--account-name"])
        if self.environment["AZURE_STORAGE_KEY"] != KEY:
            raise Refused("AuthenticationFailed: no key in AZURE_STORAGE_KEY")

    def storage_share_exists(self, options):
        self.in_account(options)
        return {"exists": options["--name"] in self.things("share")}

    def storage_share_create(self, options):
        self.in_account(options)
        return self.make("share", options["--name"], account=options["--account-name"])

    def storage_share_delete(self, options):
        self.in_account(options)
        self.drop("share", options["--name"])

    def storage_container_exists(self, options):
        self.in_account(options)
        return {"exists": options["--name"] in self.things("container")}

    def storage_container_create(self, options):
        self.in_account(options)
        return self.make("container", options["--name"], account=options["--account-name"])

    def storage_container_delete(self, options):
        self.in_account(options)
        self.drop("container", options["--name"])

    def storage_directory_create(self, options):
        self.in_account(options)
        self.need("share", options["--share-name"])
        return {"created": True}

    def storage_file_list(self, options):
        self.in_account(options)
        self.need("share", options["--share-name"])
        return [{"name": name} for name in ("checkpoint-26.pt", "metrics.jsonl", "report.html")]

    def storage_file_download_batch(self, options):
        self.in_account(options)
        self.need("share", options["--source"])
        place = self.file(options["--destination"])
        if not place.is_dir():
            raise Refused(f"{place}: no such folder")
        file = place / options["--pattern"].replace("*", "fetched.txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(options["--pattern"])

    # --- Batch AI
    def batchai_workspace_list(self, options):
        return [thing for thing in self.things("workspace").values()
                if thing["group"] == options["--resource-group"]]

    def batchai_workspace_create(self, options):
        self.need("group", options["--resource-group"])
        return self.make("workspace", options["--workspace"], group=options["--resource-group"])

    def batchai_workspace_delete(self, options):
        self.drop("workspace", options["--workspace"])

    def batchai_experiment_list(self, options):
        self.need("workspace", options["--workspace"])
        return list(self.things("experiment").values())

    def batchai_experiment_create(self, options):
        self.need("workspace", options["--workspace"])
        return self.make("experiment", options["--name"])

    def batchai_experiment_delete(self, options):
        self.drop("experiment", options["--name"])

    def batchai_cluster_list(self, options):
        self.need("workspace", options["--workspace"])
        return list(self.things("cluster").values())

    def batchai_cluster_create(self, options):
        self.need("workspace", options["--workspace"])
        content = json.loads(self.file(options["--config-file"]).read_text())
        text = json.dumps(content)
        needs_key = "<AZURE_BATCHAI_STORAGE" in text
        if needs_key and self.environment["AZURE_BATCHAI_STORAGE_KEY"] != KEY:
            raise Refused("Please configure Azure Storage account key")
        if not self.file(options["--ssh-key"]).read_text().startswith("ssh-rsa "):
            raise Refused("Incorrect ssh public key value.")
        if "--use-auto-storage" in options:
            self.things("group").setdefault("batchaiautostorage", {"name": "batchaiautostorage"})
            account = "baiabcdefghijkl"
            self.make("storage", account, group="batchaiautostorage", primaryLocation="eastus")
            self.make("share", "batchaishare", account=account)
            self.make("container", "batchaicontainer", account=account)
        target = content["properties"]["scaleSettings"]["autoScale"]["initialNodeCount"]
        return self.make("cluster", options["--name"], config=content, target=target, at=0, nodes=0)

    def batchai_cluster_delete(self, options):
        self.drop("cluster", options["--name"])

    def batchai_cluster_resize(self, options):
        self.need("cluster", options["--name"]).update(target=int(options["--target"]), at=0)

    def batchai_cluster_show(self, options):
        cluster = self.need("cluster", options["--name"])
        cluster["at"] += 1  # time passes: the third answer has the nodes
        trouble = self.state.get("cluster_trouble")
        ready = cluster["at"] >= 3 and not trouble
        if ready:
            cluster["nodes"] = cluster["target"]
        moving = abs(cluster["target"] - cluster["nodes"])
        busy = min(cluster["nodes"], sum(
            job["config"]["properties"]["nodeCount"] for job in self.things("job").values()
            if job["state"] == "running"))
        return {
            "name": cluster["name"], "allocationState": "steady" if ready else "resizing",
            "nodeStateCounts": {
                "idleNodeCount": cluster["nodes"] - busy if ready else 0, "runningNodeCount": busy,
                "preparingNodeCount": moving if cluster["target"] else 0,
                "leavingNodeCount": 0 if cluster["target"] else moving,
                "unusableNodeCount": 1 if trouble == "unusable" else 0},
            "errors": [{"message": "Core quota was exceeded"}] if trouble == "quota" else None,
            "nodeSetup": {"setupTask": {"stdOutErrPathSuffix": "sub/group/clusters/uuid"}}}

    def batchai_cluster_node_list(self, options):
        self.need("cluster", options["--cluster"])
        return [{"nodeId": "tvm-1", "ipAddress": "10.0.0.4", "port": 50000.0}]

    def batchai_job_list(self, options):
        self.need("experiment", options["--experiment"])
        return [{"name": name, "executionState": job["state"]}
                for name, job in self.things("job").items()]

    def batchai_job_create(self, options):
        self.need("experiment", options["--experiment"])
        self.need("cluster", options["--cluster"])
        content = json.loads(self.file(options["--config-file"]).read_text())
        return self.make("job", options["--name"], config=content, state="queued", code=None, at=0)

    def batchai_job_show(self, options):
        job = self.need("job", options["--name"])
        job["at"] += 1
        if job["at"] >= 4:
            job["code"] = self.state.get("job_codes", {}).get(job["name"], 0)
            job["state"] = "failed" if job["code"] else "succeeded"
        elif job["at"] >= 2:
            job["state"] = "running"
        return {"name": job["name"], "executionState": job["state"],
                "executionInfo": None if job["code"] is None else {"exitCode": job["code"]}}

    def batchai_job_delete(self, options):
        self.drop("job", options["--name"])

    def batchai_job_file_stream(self, options):
        self.need("job", options["--job"])  # the rest is AzStub.stream

    def batchai_job_file_list(self, options):
        self.need("job", options["--job"])
        return [{"name": name, "downloadUrl": SIGNED_URL} for name in (
            "execution.log", "stdout.txt", "stderr.txt", "stdout-job_prep-tvm-1.txt",
            "stdout-job_prep-tvm-2.txt")]


class AzStub:
    """The stand-in as a context: `state` is what exists, `calls` every command line."""

    def __init__(self):
        self.state, self.calls = {}, []
        self.lock, self.ended = threading.Lock(), threading.Event()

    def __enter__(self):
        stub = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                with contextlib.suppress(ConnectionError):  # a client that was stopped
                    stub.serve(self.rfile, self.wfile)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def install(self, folder):
        for name in ("az", "azcopy"):
            values = " ".join(f'"${{{variable}:-}}"' for variable in ENVIRONMENT)
            client = pathlib.Path(folder) / name
            client.write_text(CLIENT.replace("PORT", str(self.server.server_address[1]))
                              .replace("VALUES", values).replace("NAME", name))
            client.chmod(0o755)

    def serve(self, incoming, outgoing):
        def field():
            text = b""
            while not text.endswith(b"\0"):
                text += incoming.read(1) or b"\0"
            return text[:-1].decode()

        def answer(kind, text):
            outgoing.write("".join(f"{kind}{line}\n" for line in text.splitlines()).encode())

        environment = {name: field() for name in ENVIRONMENT}
        program, *words = [field() for _ in range(int(field()))]
        code = 0
        try:
            with self.lock:
                self.calls.append([program, *words])
                answer_one = self.azcopy if program == "azcopy" else self.az
                answer("o", answer_one(words, environment))
            if words[:4] == ["batchai", "job", "file", "stream"]:
                self.stream(parse(words)[1], answer)
        except Refused as refused:
            answer("e", f"ERROR: {refused}")
            code = refused.code
        answer("x", str(code))

    def az(self, words, environment):
        if words == ["--version"]:
            return f"azure-cli ({self.state.get('az_version', '2.0.81')})\n\nbatchai (0.4.10)"
        if words == ["batchai", "--help"]:
            return "Group az batchai"
        command, options = parse(words)
        if command in self.state.get("failing", []):
            raise Refused(f"az {command}: no such luck")
        result = getattr(Cloud(self.state, environment), re.sub(r"\W", "_", command))(options)
        if "--query" in options:
            result = query(result, options["--query"])
        if options.get("--output") == "tsv":
            return tsv(result)
        return "" if result is None else json.dumps(result, indent=2)

    def azcopy(self, words, environment):
        if words == ["--version"]:
            return f"azcopy version {self.state.get('azcopy_version', '10.27.1')}"
        if len(words) != 3 or words[0] != "sync":
            raise Refused(f"azcopy: unknown command {words}")
        if environment["AZCOPY_AUTO_LOGIN_TYPE"] != "AZCLI":
            raise Refused("azcopy: no login")
        if not pathlib.Path(environment["PWD"], words[1]).is_dir():
            raise Refused(f"azcopy: {words[1]}: no such folder")
        if "azcopy sync" in self.state.get("failing", []):
            raise Refused("azcopy: 403 This request is not authorized to perform this operation")
        return "Final Job Status: Completed"

    def stream(self, options, answer):
        """Says where the file is, with a signature, as az does; ends with the job."""
        job, file = options["--job"], options["--file-name"]
        answer("e", f'File found with URL "{SIGNED_URL}". Start streaming')
        answer("o", f"{job} {file}: a line")
        while self.state["job"][job]["state"] not in ("succeeded", "failed"):
            if self.ended.is_set():
                return
            time.sleep(0.01)


def main():
    """For trying by hand: az_stub.py FOLDER puts az and azcopy there, until Ctrl-C."""
    with AzStub() as stub:
        stub.install(sys.argv[1])
        stub.thread.join()


if __name__ == "__main__":
    main()
