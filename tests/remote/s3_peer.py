"""Epochs of a set in the S3 of moto, another implementation of the service than fault_server.py's, with the same
faults on the way. moto checks the signatures.

    RETINA_EPOCHS=1000 [RETINA_EPOCHS_SET=SHARDS] PYTHON tests/remote/s3_peer.py

PYTHON has moto[server,s3] (pip)."""
import http.client
import json
import logging
import sys
import threading
import unittest

import boto3
import fault_server
import werkzeug.serving
from moto import settings
from moto.server import DomainDispatcherApplication, create_backend_app
from remote_case import NO_INPUT, RemoteCase
from remote_set_test import EPOCHS_SET, RECORDS, SHARD_BYTES, EpochsOverFaults, FaultyEpochs

BUCKET, FOLDER, REGION = "bucket", "some path", "eu-central-1"


class S3Request(fault_server.Request):
    """Answered by moto, whose port the server has."""

    def serve(self, change=lambda code, headers, body: (code, headers, body)):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.moto_port)
        connection.putrequest("GET", self.handler.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "connection":
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        headers = {name: value for name, value in answer.getheaders()
                   if name.lower() not in ("connection", "server", "date", "content-length", "transfer-encoding")}
        headers = {{"etag": "ETag"}.get(name.lower(), name.title()): value for name, value in headers.items()}
        self.answer(*change(answer.status, headers | {"Content-Length": len(body)}, body))


class S3(RemoteCase, EpochsOverFaults):
    def setUp(self):
        super().setUp()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        moto = werkzeug.serving.make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app),
                                            threaded=True)
        threading.Thread(target=moto.serve_forever, daemon=True).start()
        self.addCleanup(moto.shutdown)
        self.server.moto_port, self.server.request_type = moto.server_port, S3Request
        where = {"endpoint_url": f"http://127.0.0.1:{moto.server_port}", "region_name": REGION}
        iam = boto3.client("iam", aws_access_key_id="a", aws_secret_access_key="b", **where)
        iam.create_user(UserName="trainer")
        iam.put_user_policy(UserName="trainer", PolicyName="all", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))
        key = iam.create_access_key(UserName="trainer")["AccessKey"]
        self.key = (key["AccessKeyId"], key["SecretAccessKey"])
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0  # from now on
        self.set = self.room / "set"
        if EPOCHS_SET:
            self.set.symlink_to(EPOCHS_SET)
        else:
            self.run_program("remote_reader", "write", self.set, RECORDS, SHARD_BYTES)
        s3 = boto3.client("s3", aws_access_key_id=self.key[0], aws_secret_access_key=self.key[1], **where)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        for path in self.set.iterdir():
            s3.upload_file(str(path), BUCKET, f"{FOLDER}/{path.name}")

    def environment(self, secret=None):
        return {"AWS_ENDPOINT_URL": self.server.root, "AWS_ACCESS_KEY_ID": self.key[0],
                "AWS_SECRET_ACCESS_KEY": secret or self.key[1], "AWS_REGION": REGION}

    def test_epochs_over_faults_have_no_wrong_byte(self):
        url = f"s3://{BUCKET}/{FOLDER}"
        refused = self.run_program("remote_reader", "epochs", url, self.scratch, 1, 0, "used", code=NO_INPUT,
                                   **self.environment(secret="x" * 40))
        self.expect_error(refused, "may not be read", "HTTP 403 SignatureDoesNotMatch")
        kinds = {name: kind for name, kind in FaultyEpochs.kinds.items() if name != "other ETag"}
        self.run_epochs(self.set, url, kinds, **self.environment())


if __name__ == "__main__":
    sys.exit(unittest.main())
