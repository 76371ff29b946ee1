"""What the tests of data sets by URL share."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import fault_server

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
# No credentials or proxies of this machine.
CLEAN = {name: value for name, value in os.environ.items()
         if not re.match(r"(?i)aws_|azure_|.*_proxy$|curl_|ssl_", name)}
DATA, NO_INPUT, IO, STOPPED, USAGE = 65, 66, 74, 75, 64
SECRET = "pLanTed+SecReT/9f8e7d"


def program(name):
    return next(path for path in (BUILD / "bin" / name, BUILD / "tests/remote" / name) if path.is_file())


class RemoteCase(unittest.TestCase):
    """A served folder, and a folder of the test's own."""

    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.folder, self.scratch = self.room / "served", self.room / "scratch"
        self.folder.mkdir()
        self.server = self.serve()

    def serve(self, prefix=""):
        server = fault_server.FaultServer(self.folder, prefix)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def run_program(self, name, *words, code=0, timeout=120, **environment):
        done = subprocess.run([program(name), *map(str, words)], capture_output=True, text=True,
                              timeout=timeout, env=CLEAN | environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def expect_error(self, done, *texts):
        """One line that says what was wrong."""
        lines = [line for line in done.stderr.splitlines() if "error: " in line]
        self.assertEqual(len(lines), 1, done.stderr)
        for text in texts:
            self.assertIn(text, lines[0])
        return lines[0]

    def expect_no_secret(self, *texts):
        for text in texts:
            for secret in (SECRET, SECRET.replace("+", "%2B").replace("/", "%2F")):
                self.assertNotIn(secret, text)
