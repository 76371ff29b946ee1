"""One file over a connection with faults: every byte arrives, or one line says why not."""
import pathlib
import random
import resource
import shutil
import ssl
import subprocess
import sys
import threading
import time
import unittest

import fault_server as faults
from remote_case import CLEAN, DATA, IO, NO_INPUT, SECRET, STOPPED, USAGE, RemoteCase, program

PART, PARTS = 10_000, 7
SIZE = PART * PARTS - 123


class Download(RemoteCase):
    def setUp(self):
        super().setUp()
        self.content = random.Random(1).randbytes(SIZE)
        (self.folder / "file").write_bytes(self.content)
        self.out = self.room / "out"

    def download(self, code=0, size=SIZE, url=None, tries=5, stall=30, connections=4, **environment):
        return self.run_program("remote_reader", "download", url or self.server.url, "file", size,
                                self.out, PART, tries, 5, stall, connections, code=code, **environment)

    def expect_whole(self):
        self.assertEqual(self.out.read_bytes(), self.content)

    def test_comes_by_ranges_side_by_side(self):
        self.download()
        self.expect_whole()
        self.assertEqual(len(self.server.requests), PARTS)
        self.assertEqual({r.headers["Accept-Encoding"] for r in self.server.requests}, {"identity"})

    def test_arrives_whole_through_every_fault_that_passes(self):
        passing = [faults.cut, faults.closed, faults.truncated, faults.without_length, faults.reset,
                   faults.wrong_range, faults.gzipped, faults.too_long, faults.status(500),
                   faults.status(503, b"<Error><Code>SlowDown</Code></Error>"), faults.status(429),
                   faults.status(408), faults.changed]
        for fault in passing:
            for place in (0, 3):
                with self.subTest(fault=getattr(fault, "__name__", "status"), place=place):
                    self.out.unlink(missing_ok=True)
                    self.server.faults = [faults.Request.serve] * place + [fault]
                    self.download()
                    self.expect_whole()

    def test_what_has_come_of_a_part_is_not_asked_for_again(self):
        self.server.faults = [faults.cut]
        self.download(connections=1)
        self.expect_whole()
        self.assertEqual(self.server.requests[1].asked, (PART // 2, PART - 1))

    def test_a_storm_of_503_ends_with_the_storm(self):
        self.server.faults = [faults.status(503, b"<Error><Code>ServerBusy</Code></Error>")] * 8
        done = self.download(connections=2, tries=9)
        self.expect_whole()
        self.assertEqual(done.stderr.count("warning: "), 1)
        self.assertIn("HTTP 503 ServerBusy; such requests are made again", done.stderr)

    def test_a_storm_without_end_is_an_error(self):
        self.server.fault = lambda request: faults.status(503, b"<Error><Code>ServerBusy</Code></Error>")
        self.expect_error(self.download(code=IO, tries=3, connections=1), self.server.url + "/file",
                          "HTTP 503 ServerBusy", "hint: check the URL and the network")
        self.assertEqual(len(self.server.requests), 3)

    def test_waits_as_long_as_the_server_asks(self):
        for fault in (faults.status(429, Retry_After="1"), faults.busy_until(2)):
            self.out.unlink(missing_ok=True)
            self.server.faults = [fault]
            begin = time.monotonic()
            self.download(connections=1)
            self.assertGreaterEqual(time.monotonic() - begin, 0.9)
            self.expect_whole()

    def test_a_stalled_connection_is_given_up(self):
        self.server.faults = [faults.stall]
        begin = time.monotonic()
        self.download(connections=1, stall=1)
        self.expect_whole()
        self.assertLess(time.monotonic() - begin, 20)

    def test_what_has_no_end_is_cut_off(self):
        for fault, code, text in ((faults.endless(403), NO_INPUT, "HTTP 403"),
                                  (faults.endless_headers, NO_INPUT, "its headers have no end")):
            self.out.unlink(missing_ok=True)
            self.server.fault = lambda request: fault
            self.expect_error(self.download(code=code, tries=1, connections=1), text)
        self.out.unlink(missing_ok=True)
        self.server.fault, self.server.faults = lambda request: None, [faults.endless(0)]
        self.download(connections=1)
        self.expect_whole()

    def test_a_signal_ends_every_wait(self):
        for fault in (faults.silent, lambda r: faults.stall(r, 600), faults.status(429, Retry_After="600")):
            for words in (("download", self.server.url, "file", SIZE, self.out, PART, 5, 5, 600),
                          ("read", self.server.url, "file")):
                self.server.fault, asked = lambda request: fault, len(self.server.requests)
                with subprocess.Popen([program("remote_reader"), *map(str, words)], env=CLEAN, text=True,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as reader:
                    while len(self.server.requests) == asked:
                        time.sleep(0.01)
                    reader.terminate()
                    _, log = reader.communicate(timeout=60)
                self.assertEqual(reader.returncode, STOPPED, log)

    def test_a_file_whose_version_never_stays_the_same_comes_for_its_checksum_to_decide(self):
        # As replicas of a server, each with an ETag of its own: the checksum decides.
        self.server.fault = lambda request: faults.changed
        self.download()
        self.expect_whole()

    def test_another_size_is_an_error_at_once(self):
        self.expect_error(self.download(code=DATA, size=SIZE - 1), "has another size",
                          f"got {SIZE}, want {SIZE - 1} bytes")
        self.out.unlink()
        self.expect_error(self.download(code=DATA, size=SIZE + 5 * PART), self.server.url + "/file")

    def test_a_server_without_ranges_sends_it_whole(self):
        self.server.has_ranges = False
        self.server.faults = [faults.Request.serve, faults.cut, faults.closed]
        self.download(connections=1)
        self.expect_whole()
        self.out.unlink()
        self.expect_error(self.download(code=DATA, size=SIZE - 1), "has another size")

    def test_a_proxy_that_compresses_everything_is_named(self):
        self.server.fault = lambda request: faults.gzipped
        self.expect_error(self.download(code=IO, tries=2, connections=1), "Content-Encoding gzip", "proxy")

    def test_what_does_not_exist(self):
        (self.folder / "file").unlink()
        self.expect_error(self.download(code=NO_INPUT), "does not exist",
                          "HTTP 404 BlobNotFound: The specified blob does not exist.")

    def test_a_name_that_is_not_known_is_asked_for_again_and_then_told(self):
        name = 64 * "a"  # no query leaves the machine for so long a label
        done = self.download(code=IO, url=f"https://{name}/set", tries=3)
        self.expect_error(done, "Could not resolve host")

    def test_this_machine_is_not_asked_through_a_proxy(self):
        self.download(http_proxy="http://127.0.0.1:1", tries=1)
        self.expect_whole()

    def test_a_scheme_in_capitals(self):
        self.download(url=self.server.url.replace("http", "HTTP"))
        self.expect_whole()

    def test_no_redirect_leads_to_another_machine_without_encryption(self):
        elsewhere = self.server.url.replace("127.0.0.1", "0.0.0.0")  # this one, by a name for any
        self.server.faults = [faults.status(302, Location=f"{elsewhere}/file")]
        self.expect_error(self.download(code=NO_INPUT, connections=1), "is not encrypted")

    def test_nobody_listens(self):
        server = self.serve()
        server.server.server_close()
        self.expect_error(self.download(code=IO, url=server.url, tries=2), "cannot be read")

    def test_a_full_disk_is_not_the_network(self):
        self.out.symlink_to("/dev/full")
        done = self.run_program("remote_reader", "download", self.server.url, "file", SIZE, self.out,
                                PART, 3, 5, 30, code=69)
        self.assertNotIn("cannot be read", done.stderr)

    def test_urls_that_cannot_be_opened(self):
        for url, text in (("ftp://host/set", "want https://, azure:// or s3://"),
                          ("http://example.com/set", "is not encrypted"),
                          ("http://127.0.0.1.example.com/set", "is not encrypted"),
                          ("http://127.0.0.1/my set", "is not a URL"),
                          ("http://127.0.0.1:99999/set", "is not a URL"),
                          ("http://me:p@ss@127.0.0.1/set", "is not a URL"),
                          ("azure://account", "want azure://ACCOUNT/CONTAINER/PATH"),
                          ("s3://", "want s3://BUCKET/PATH")):
            self.expect_error(self.download(code=USAGE, url=url), text)


class Credentials(RemoteCase):
    """Each service's own, checked by the server; none of them is ever printed."""

    def setUp(self):
        super().setUp()
        (self.folder / "file name").write_bytes(b"content")
        self.problems = []

    def read(self, url, code=0, **environment):
        done = self.run_program("remote_reader", "read", url, "file name", code=code, **environment)
        self.expect_no_secret(done.stdout, done.stderr)
        self.assertEqual(self.problems, [])
        if code == 0:
            self.assertEqual(done.stdout, "content")
        return done

    def check(self, problem_of):
        def check(request):
            problem = problem_of(request)
            if problem:
                self.problems.append(problem)
                return faults.status(403)
            return None
        self.server.check = check

    def test_a_signature_in_the_query_goes_with_each_file(self):
        query = f"sv=2022-11-02&sp=r&sig={SECRET.replace('+', '%2B').replace('/', '%2F')}"
        self.check(lambda r: None if r.query == query else f"query {r.query}")
        self.read(f"{self.server.url}/?{query}")
        self.server.check = lambda request: faults.azure_refusal
        self.expect_error(self.read(f"{self.server.url}?{query}", code=NO_INPUT), "may not be read",
                          "HTTP 403 AuthenticationFailed: Server failed to authenticate the request.")

    def test_a_refusal_that_repeats_the_request_is_blanked(self):
        query = f"sv=2022-11-02&sig={SECRET.replace('+', '%2B').replace('/', '%2F')}"
        echo = f"<Error><Message>/file name?{query}, sig={SECRET}, Basic bWU6cGFzczEyMzQ1</Message></Error>"
        self.server.check = lambda request: faults.status(403, echo.encode())
        url = self.server.url.replace("http://", "http://me:pass12345@")
        done = self.read(f"{url}?{query}", NO_INPUT)
        self.expect_error(done, "/file name?***, sig=***, Basic ***")
        for other in (query.replace("%", "%25"),
                      query.replace("%2B", "%2b").replace("%2F", "/"), query.replace("%2B", " "),
                      "".join(f"%{ord(c):02x}" for c in query)):
            for before in (0, 180):  # whole, and cut to a message's length
                echo = f"<Error><Message>{'x' * before} {other} end</Message></Error>".encode()
                self.server.check = lambda request: faults.status(403, echo)
                done = self.read(f"{url}?{query}", NO_INPUT)
                for piece in (SECRET[:2], SECRET[-5:], "%70%4c", "%37%64"):
                    self.assertNotIn(piece, done.stderr, other)

    def test_a_refusal_has_the_services_own_reason(self):
        body = ("<Error><Code>AuthenticationFailed</Code><Message>Server failed.\nTime: now</Message>"
                "<AuthenticationErrorDetail>Signature not valid in the specified time frame: Expiry [Sat, 01 Jan "
                f"2022] String to sign used was {SECRET}</AuthenticationErrorDetail></Error>")
        self.server.check = lambda request: faults.status(403, body.encode())
        self.expect_error(self.read(f"{self.server.url}?sig={SECRET}", NO_INPUT),
                          "Server failed. Signature not valid in the specified time frame: Expiry [Sat, 01 Jan 2022])")
        body = ("<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message><Region>eu-west-1</Region>"
                "<Endpoint>b.s3.eu-west-1.amazonaws.com</Endpoint></Error>")
        self.server.check = lambda request: faults.status(301, body.encode())
        self.expect_error(self.read("s3://b", NO_INPUT, AWS_ENDPOINT_URL=self.server.root),
                          "Elsewhere., Region: eu-west-1, Endpoint: b.s3.eu-west-1.amazonaws.com")

    def test_name_and_password_in_the_url(self):
        self.check(lambda r: None if r.headers["Authorization"] == "Basic bWU6cGFzczEyMzQ1" else "no")
        done = self.read(self.server.url.replace("http://", "http://me:pass12345@"))
        self.assertNotIn("pass12345", done.stderr)

    def test_a_program_leaves_a_core_file_only_where_it_has_none(self):
        identity = {"AZURE_STORAGE_ENDPOINT": self.server.root,
                    "AZURE_POD_IDENTITY_AUTHORITY_HOST": self.server.root}
        for url, environment, limit, filters in (
                (self.server.url, {}, "1048576", "0*[1-9a-f]+0*"), (f"{self.server.url}?sig={SECRET}", {}, "0", "0+"),
                ("azure://account/container", identity, "0", "0+")):  # already while it asks for a token
            started, found = threading.Event(), []

            def look(request):
                started.wait()
                found.append([pathlib.Path(f"/proc/{reader.pid}/{name}").read_text()
                              for name in ("limits", "coredump_filter")])
                return faults.missing
            self.server.check = look
            reader = subprocess.Popen(
                [program("remote_reader"), "read", url, "file name"], stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # AddressSanitizer's own default is none
                env=CLEAN | environment | {"ASAN_OPTIONS": "disable_coredump=0:" + CLEAN.get("ASAN_OPTIONS", "")},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (2**20, 2**20)))
            started.set()
            self.assertEqual(reader.wait(timeout=60), NO_INPUT)
            self.assertRegex(found[0][0], rf"Max core file size +{limit} ")
            self.assertRegex(found[0][1].strip(), rf"^{filters}$")  # of what a handler of core files gets

    def test_a_variable_of_more_than_a_line_is_refused(self):
        for name, url in (("AZURE_STORAGE_SAS_TOKEN", "azure://a/c"), ("AWS_SESSION_TOKEN", "s3://b")):
            environment = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET,
                           name: f"{SECRET}\r\nX-Other: 1"}
            self.expect_error(self.read(url, USAGE, **environment), f"{name}: holds a line break")

    def test_no_endpoint_elsewhere_is_asked_without_encryption(self):
        for name, url in (("AZURE_STORAGE_ENDPOINT", "azure://a/c"), ("AWS_ENDPOINT_URL", "s3://b"),
                          ("AWS_ENDPOINT_URL_S3", "s3://b"), ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "azure://a/c")):
            for value in ("http://storage.example", "http://127.0.0.1.example", "storage.example", "ftp://localhost"):
                self.expect_error(self.read(url, USAGE, **{name: value}), f"{name}: is not encrypted", value)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_certificates_are_those_that_a_variable_names(self):
        pem = self.room / "server.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out",
                        f"{pem}.crt", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{pem}.crt", pem)
        self.server.server.socket = context.wrap_socket(self.server.server.socket, server_side=True)
        url, right, none = self.server.url.replace("http:", "https:"), f"{pem}.crt", str(self.room / "none")
        for environment in ({"CURL_CA_BUNDLE": right}, {"SSL_CERT_FILE": right},
                            {"CURL_CA_BUNDLE": right, "SSL_CERT_FILE": none},
                            {"CURL_CA_BUNDLE": "", "SSL_CERT_FILE": right}):
            self.read(url, **environment)
        self.expect_error(self.read(url, NO_INPUT), "certificate")
        self.expect_error(self.read(url, NO_INPUT, CURL_CA_BUNDLE=none), none)

    def test_azure_with_a_sas(self):
        self.server.prefix = "/container/some path"
        self.check(lambda r: None if r.query == f"sp=r&sig={SECRET}" and r.headers["x-ms-version"]
                   and r.path == "/container/some%20path/file%20name" else f"{r.path} {r.query}")
        self.read("azure://account/container/some path", AZURE_STORAGE_ENDPOINT=self.server.root,
                  AZURE_STORAGE_SAS_TOKEN=f"?sp=r&sig={SECRET}")
        self.server.check = lambda request: faults.azure_refusal
        self.expect_error(
            self.read("azure://account/container/some path", NO_INPUT,
                      AZURE_STORAGE_ENDPOINT=self.server.root,
                      AZURE_STORAGE_SAS_TOKEN=f"sp=r&sig={SECRET}"),
            "azure://account/container/some path/file name: may not be read", "AuthenticationFailed",
            "hint: AZURE_STORAGE_SAS_TOKEN")

    def test_azure_with_the_machines_identity(self):
        identity = self.serve()
        tokens = iter(range(10))

        def token(request):
            self.assertEqual((request.headers["Metadata"], request.path),
                             ("true", "/metadata/identity/oauth2/token"))
            self.assertEqual(request.query, "api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com"
                             "%2F&client_id=an-id")
            body = f'{{"access_token":"{SECRET}-{next(tokens)}","expires_in":"86399"}}'.encode()
            request.answer(200, {"Content-Length": len(body)}, body)
        identity.faults = [faults.status(429)]
        identity.fault = lambda request: token
        # The first token has ended when it is used.
        self.server.faults = [faults.status(401)]
        self.server.fault = lambda r: (None if r.headers["Authorization"] == f"Bearer {SECRET}-1"
                                       else faults.status(403))
        self.server.prefix = "/container"
        environment = {"AZURE_STORAGE_ENDPOINT": self.server.root, "AZURE_CLIENT_ID": "an-id",
                       "AZURE_POD_IDENTITY_AUTHORITY_HOST": identity.root}
        self.read("azure://account/container/", **environment)
        self.server.fault = lambda request: faults.azure_refusal
        self.expect_error(self.read("azure://account/container", NO_INPUT, **environment),
                          "may not be read", "hint: give the machine's identity the role")
        # No header of its own for a token of two lines, and no end of memory for an answer without end.
        two_lines = b'{"access_token":"a\\r\\nX-Other: 1","expires_in":"86399"}'
        for fault in (faults.status(200, two_lines), lambda r: faults.write_for_ever(r, b"HTTP/1.1 200 OK\r\n\r\n")):
            identity.fault, self.server.requests = lambda request: fault, []
            self.expect_error(self.read("azure://account/container", NO_INPUT, **environment),
                              "gives no token (IMDS: its answer has no token)")
            self.assertEqual(self.server.requests, [])
        identity.fault = lambda request: faults.status(400, b'{"error":"invalid_request"}')
        self.expect_error(self.read("azure://account/container", NO_INPUT, **environment),
                          "azure://account/container: the machine's managed identity gives no token",
                          "HTTP 400", "hint: set AZURE_STORAGE_SAS_TOKEN")

    def test_s3_signs_its_requests(self):
        self.server.prefix = "/bucket/some path"
        for token in (None, "session" + SECRET):
            self.check(lambda r: faults.sigv4_problem(r, "AKIAEXAMPLE", SECRET, "eu-central-1", token))
            environment = {"AWS_ENDPOINT_URL": self.server.root, "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
                           "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-central-1"}
            if token:
                environment["AWS_SESSION_TOKEN"] = token
            self.read("s3://bucket/some path/", **environment)
        # A session that has ended: nothing that another try could mend.
        self.server.check = lambda request: faults.status(400, b"<Error><Code>ExpiredToken</Code></Error>")
        self.expect_error(self.read("s3://bucket/some path", NO_INPUT, **environment),
                          "may not be read (HTTP 400 ExpiredToken)", "s3:GetObject")
        self.server.check = lambda request: faults.s3_refusal
        done = self.read("s3://bucket/some path", NO_INPUT, **environment)
        self.expect_error(done, "HTTP 403 SignatureDoesNotMatch: The request signature", "s3:GetObject")
        self.assertNotIn("AKIAEXAMPLE", done.stderr)

    def test_s3_without_a_key_is_not_signed(self):
        self.server.prefix = "/bucket"
        self.check(lambda r: r.headers.get("Authorization"))
        self.read("s3://bucket", AWS_ENDPOINT_URL_S3=self.server.root)

    def test_a_redirect_is_followed_without_credentials(self):
        other = self.serve()
        moved = faults.status(302, Location=f"{other.url}/file%20name")
        self.server.fault = lambda request: moved
        self.read(self.server.url.replace("http://", "http://me:pass12345@"))
        self.assertIsNone(other.requests[0].headers.get("Authorization"))


if __name__ == "__main__":
    sys.exit(unittest.main())
