"""MLServer with jobs/serving on free ports of this machine, as jobs/serving/README.md starts it. For a
Python that has jobs/serving/requirements.txt.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SERVING = pathlib.Path(__file__).resolve().parents[2] / "jobs/serving"
START_S = 300  # a cold disk, a busy machine


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class ModelServer:
    """`serve.py REPOSITORY`; the limits are those of every model."""

    def __init__(self, repository, folder, models, **limits):
        self.http, self.grpc, self.metrics_port = free_ports(3)
        self.models = models
        self.log = pathlib.Path(folder) / "server.log"
        environment = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
            "MLSERVER_HOST": "127.0.0.1", "MLSERVER_HTTP_PORT": str(self.http),
            "MLSERVER_GRPC_PORT": str(self.grpc), "MLSERVER_METRICS_PORT": str(self.metrics_port),
            "MLSERVER_MODEL_EXTRA": json.dumps(limits)}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, SERVING / "serve.py", pathlib.Path(repository).resolve()], cwd=folder, env=environment, stdout=log,
                stderr=subprocess.STDOUT)

    def __enter__(self):
        end = time.monotonic() + START_S
        try:
            while any(self.get(f"/v2/models/{name}/ready")[0] != 200 for name in self.models):
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, self.log.read_text()
                time.sleep(0.2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path, body=None, port=None):
        """(status, text); 0 where nothing answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{port or self.http}{path}", data=body,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (ConnectionError, urllib.error.URLError):
            return 0, ""

    def metric(self, name, **labels):
        """The sum of a metric's samples that have these labels; 0 for none."""
        status, text = self.get("/metrics", port=self.metrics_port)
        assert status == 200, text
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(value) for found, value in re.findall(
            rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
            if all(one in found.split(",") for one in wanted))
