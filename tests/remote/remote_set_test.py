"""Data sets behind URLs: ShardSet and coco-pack on a server with faults."""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import fault_server as faults
from remote_case import CLEAN, DATA, IO, NO_INPUT, SECRET, USAGE, RemoteCase, program

RECORDS, SHARD_BYTES = 60, 100_000


class RemoteSet(RemoteCase):
    def setUp(self):
        super().setUp()
        self.set = self.folder / "set"
        self.run_program("remote_reader", "write", self.set, RECORDS, SHARD_BYTES)
        self.shards = sorted(path.name for path in self.set.glob("*.lmdb"))
        self.assertGreaterEqual(len(self.shards), 4)
        self.url = self.server.url + "/set"

    def epochs(self, url, count, limit=0, how="used", code=0):
        return self.run_program("remote_reader", "epochs", url, self.scratch, count, limit, how, code=code)

    def whole(self):
        return self.epochs(self.set, 1).stdout.splitlines()[0]

    def test_epochs_over_a_faulty_server_have_no_wrong_byte(self):
        seed = random.randrange(10**6)
        draw = random.Random(seed)
        kinds = [faults.cut, faults.closed, faults.truncated, faults.wrong_range, faults.reset,
                 faults.status(503), faults.status(429), faults.flipped, faults.without_length]
        # A flipped bit twice at the same place is damage of the file itself.
        flips = []

        def fault(request):
            kind = draw.choice(kinds) if draw.random() < 0.3 else None
            if kind is faults.flipped and (flips or not request.name.endswith(".lmdb")):
                return None
            flips.extend([1] if kind is faults.flipped else [])
            return kind
        self.server.fault = fault
        for how in ("used", "ahead"):
            flips.clear()
            found = self.epochs(self.url, 3, how=how).stdout.splitlines()
            self.assertEqual(found, [self.whole()] * 3, f"seed {seed}")
        self.assertFalse(list(self.scratch.iterdir()), "the last user has ended")

    def test_each_file_comes_once_for_all_processes(self):
        self.server.bytes_per_second = 2_000_000
        both = [subprocess.Popen([program("remote_reader"), "epochs", self.url, self.scratch, "2", "0", how],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN)
                for how in ("used", "ahead")]
        texts = [one.communicate(timeout=60) for one in both]
        self.assertEqual([out.split() for out, _ in texts], [[self.whole()] * 2] * 2, texts)
        names = [request.name for request in self.server.requests]
        for name in self.shards:
            self.assertEqual(names.count(f"set/{name}"), 1, name)
        self.assertEqual(names.count("set/index.bin"), 1)

    def test_copies_stay_within_the_limit(self):
        largest = max((self.set / name).stat().st_size for name in self.shards)
        limit = 2 * largest + (self.set / "index.bin").stat().st_size + 1000
        for how in ("used", "ahead"):
            *found, most = self.epochs(self.url, 2, limit, how).stdout.splitlines()
            self.assertEqual(found, [self.whole()] * 2)
            # Ahead: the reader and the stager may each begin a copy before they see the other's.
            self.assertLessEqual(int(most), limit + (2 * largest if how == "ahead" else 0))

    def test_what_a_killed_process_has_left_is_used(self):
        self.server.bytes_per_second = 200_000
        words = [program("remote_reader"), "epochs", self.url, self.scratch, "1", "0", "used"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=CLEAN) as child:
            while not list(self.scratch.glob("*/*.lmdb")):
                time.sleep(0.01)
            child.kill()
        left = {path.name for path in self.scratch.glob("*/*.lmdb")}
        self.server.bytes_per_second, self.server.requests = None, []
        self.assertEqual(self.epochs(self.url, 1).stdout.split(), [self.whole()])
        asked = {request.name.removeprefix("set/") for request in self.server.requests}
        self.assertTrue(left and not left & asked, (left, asked))

    def test_a_shard_that_goes_while_it_is_read_is_an_io_error(self):
        (self.set / self.shards[1]).unlink()
        self.expect_error(self.epochs(self.url, 1, code=IO), f"{self.url}/{self.shards[1]}: does not exist")

    def test_damage_in_the_source_is_damage(self):
        path = self.set / self.shards[2]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        done = self.run_program("coco-pack", "--verify", self.url, "--scratch", self.scratch, code=1)
        self.assertIn(f"{self.url}/{self.shards[2]}: is damaged (its checksum does not match", done.stdout)

    def test_verify_and_inspect(self):
        # The "JPEGs" of this set are none, and all that verify may say.
        done = self.run_program("coco-pack", "--verify", self.url, "--scratch", self.scratch, code=1)
        self.assertEqual(len(done.stdout.splitlines()), RECORDS, done.stdout)
        self.assertNotIn("checksum", done.stdout)
        local = self.run_program("coco-pack", "--inspect", self.set).stdout
        remote = self.run_program("coco-pack", "--inspect", self.url, "--scratch", self.scratch).stdout
        self.assertEqual(remote, local.replace(str(self.set), self.url))
        self.assertFalse(list(self.scratch.iterdir()))

    def test_what_cannot_be_opened(self):
        for url, code, text in ((self.server.url + "/none", NO_INPUT, "manifest.json: does not exist"),
                                ("ftp://host/set", USAGE, "want https://")):
            for option in ("--verify", "--inspect"):
                self.expect_error(self.run_program("coco-pack", option, url, code=code), text)
        done = self.run_program("coco-pack", "--annotations", "a.json", "--images", "i", "--output",
                                self.url, code=USAGE)
        self.expect_error(done, "is a URL, a set is packed into a folder")

    def test_no_output_has_a_secret(self):
        url = f"{self.url}?sig={SECRET}"
        settings = self.room / "options.json"
        settings.write_text(f'{{"inspect": "{url}", "log-level": "debug"}}')
        texts = []
        for fault, code in ((None, 0), (faults.azure_refusal, NO_INPUT), (faults.missing, NO_INPUT)):
            self.server.fault = lambda request: fault
            for words in (["--inspect", url], [f"--inspect={url}"], ["--config", settings]):
                done = self.run_program("coco-pack", *words, "--scratch", self.scratch, code=code)
                texts += [done.stdout, done.stderr]
        done = self.run_program("coco-pack", "--inpsect", url, code=USAGE)
        done2 = self.run_program("coco-pack", url, code=USAGE)
        self.expect_no_secret(*texts, done.stderr, done2.stderr)
        self.assertTrue(all(f"sig={SECRET}" in request.query for request in self.server.requests))
        for path in self.room.rglob("*"):
            if path.is_file() and path != settings:
                self.assertNotIn(SECRET.encode(), path.read_bytes(), path)


if __name__ == "__main__":
    sys.exit(unittest.main())
