"""Data sets behind URLs: ShardSet and coco-pack on a server with faults."""
import collections
import fcntl
import os
import random
import subprocess
import sys
import time
import unittest

import fault_server as faults
from remote_case import CLEAN, DATA, IO, NO_INPUT, SECRET, USAGE, RemoteCase, program

RECORDS, SHARD_BYTES = 60, 100_000
# Of the test of epochs: how many, and of which set instead of a small one (tests/README.md).
EPOCHS, EPOCHS_SET = int(os.environ.get("RETINA_EPOCHS", 2)), os.environ.get("RETINA_EPOCHS_SET")


class FaultyEpochs:
    """A fault for three of ten requests, and storms of 503 in many epochs; `counts` says how many of each."""
    kinds = {"cut": faults.cut, "closed": faults.closed, "truncated": faults.truncated, "reset": faults.reset,
             "wrong range": faults.wrong_range, "too long": faults.too_long, "503": faults.status(503),
             "429": faults.status(429), "without length": faults.without_length, "gzipped": faults.gzipped,
             "other ETag": faults.changed, "flipped": faults.flipped, "stale": faults.stale}
    # Only a hash can tell. The same wrong bytes twice would be damage of the file itself.
    wrong_content = ("flipped", "stale")

    def __init__(self):
        self.seed = random.randrange(10**6)
        self.draw, self.counts, self.last, self.storm_ends = random.Random(self.seed), collections.Counter(), {}, 0

    def fault(self, request):
        kind = self.draw.choice(list(self.kinds)) if self.draw.random() < 0.3 else None
        now, is_text = time.monotonic(), request.name.endswith(".json")
        if now >= self.storm_ends and EPOCHS > 10 and self.draw.random() < 0.005:
            self.storm_ends = now + self.draw.uniform(0.2, 2)
            self.counts["storms"] += 1
        if now < self.storm_ends:
            kind = "503"
        if kind in self.wrong_content and (is_text or self.last.get(request.name) in self.wrong_content):
            kind = None
        if kind not in ("503", "429", "reset"):
            self.last[request.name] = kind
        self.counts.update([kind] if kind else [])
        return self.kinds.get(kind)


class RemoteSet(RemoteCase):
    def setUp(self):
        super().setUp()
        self.set = self.folder / "set"
        self.run_program("remote_reader", "write", self.set, RECORDS, SHARD_BYTES)
        self.shards = sorted(path.name for path in self.set.glob("*.lmdb"))
        self.assertGreaterEqual(len(self.shards), 4)
        self.url = self.server.url + "/set"

    def epochs(self, url, count, limit=0, how="used", code=0, timeout=120, **environment):
        return self.run_program("remote_reader", "epochs", url, self.scratch, count, limit, how, code=code,
                                timeout=timeout, **environment)

    def whole(self):
        return self.epochs(self.set, 1).stdout.splitlines()[0]

    def test_epochs_over_a_faulty_server_have_no_wrong_byte(self):
        folder, url = self.folder / "epochs", f"{self.server.url}/epochs"
        folder.symlink_to(EPOCHS_SET or self.set)
        shards_bytes = [path.stat().st_size for path in folder.glob("*.lmdb")]
        limit = 2 * max(shards_bytes) + (folder / "index.bin").stat().st_size + 1000
        want = self.epochs(folder, 1).stdout.splitlines()[0]
        # With the limit, all shards come again in each epoch.
        for how, limit, count in (("ahead", 0, 2), ("used", limit, EPOCHS)):
            faulty = FaultyEpochs()
            self.server.fault, self.server.requests = faulty.fault, []
            begin = time.monotonic()
            done = self.epochs(url, count, limit, how, timeout=120 + 10 * count)
            found = done.stdout.splitlines()[:count]
            wrong = sum(line != want for line in found)
            self.assertEqual((len(found), wrong), (count, 0), f"seed {faulty.seed}")
            self.assertFalse(list(self.scratch.iterdir()), "the last user has ended")
            asked = sum(request.name.endswith(".lmdb") for request in self.server.requests)
            self.assertGreaterEqual(asked, len(shards_bytes) * (1 if limit == 0 else count))
            print(f"{count} epochs of {sum(shards_bytes)} bytes in {len(shards_bytes)} shards, {how}: {wrong} "
                  f"wrong, {time.monotonic() - begin:.0f} s, {len(self.server.requests)} requests, "
                  f"{done.stderr.count('; trying again')} tries after a problem; {dict(faulty.counts)}")

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
        for path in self.scratch.rglob("*"):
            self.assertEqual(path.stat().st_mode & 0o077 if path.name != ".lock" else 0, 0, path)
        self.server.bytes_per_second, self.server.requests = None, []
        self.assertEqual(self.epochs(self.url, 1).stdout.split(), [self.whole()])
        asked = {request.name.removeprefix("set/") for request in self.server.requests}
        self.assertTrue(left and not left & asked, (left, asked))

    def test_a_shard_that_goes_while_it_is_read_is_an_io_error(self):
        (self.set / self.shards[1]).unlink()
        self.expect_error(self.epochs(self.url, 1, code=IO), f"{self.url}/{self.shards[1]}: does not exist")

    def test_a_shard_of_another_set_is_never_used(self):
        path, other = (self.set / name for name in self.shards[1:3])
        size = path.stat().st_size
        path.write_bytes(other.read_bytes().ljust(size, b"\0")[:size])
        for how in ("used", "ahead"):
            self.server.requests = []
            done = self.epochs(self.url, 1, 0, how, code=DATA)
            self.expect_error(done, f"{self.url}/{self.shards[1]}: is damaged, or of another set")
            asked = [request.name for request in self.server.requests].count(f"set/{self.shards[1]}")
            self.assertIn(asked, range(2, 5))  # twice; ahead, too

    def test_other_wrong_bytes_each_time_are_the_networks(self):
        self.server.fault = lambda r: faults.flipped if r.name.endswith(self.shards[1]) else None
        done = self.epochs(self.url, 1, code=IO)
        self.expect_error(done, f"{self.url}/{self.shards[1]}: came 4 times with as many wrong checksums")

    def test_copies_of_another_job_do_not_count(self):
        size = sum((self.set / name).stat().st_size for name in [*self.shards, "index.bin"])
        theirs = self.scratch / "retina-shards-theirs"
        theirs.mkdir(parents=True)
        with open(theirs / ".lock", "w") as lock, open(theirs / self.shards[0], "wb") as copy:
            fcntl.flock(lock, fcntl.LOCK_SH)
            copy.truncate(size)
            *found, _ = self.epochs(self.url, 3, size, "shuffled").stdout.splitlines()
        self.assertEqual(found, [self.whole()] * 3)
        asked = [request.name for request in self.server.requests if request.name.endswith(".lmdb")]
        self.assertEqual(sorted(asked), [f"set/{name}" for name in self.shards])

    def test_sets_of_a_job_share_the_limit(self):
        other = self.folder / "other"
        self.run_program("remote_reader", "write", other, RECORDS + 5, SHARD_BYTES)
        files = [path for folder in (self.set, other) for path in folder.iterdir()]
        limit = 2 * max(path.stat().st_size for path in files if path.suffix == ".lmdb") + sum(
            path.stat().st_size for path in files if path.name == "index.bin")
        done = self.run_program("remote_reader", "sets", self.scratch, limit, self.url, f"{self.server.url}/other")
        self.assertLessEqual(int(done.stdout), limit)

    def test_a_set_that_comes_again_and_again_is_told_of_once(self):
        largest = max((self.set / name).stat().st_size for name in self.shards)
        done = self.epochs(self.url, 4, largest + (self.set / "index.bin").stat().st_size, "shuffled")
        self.assertEqual(done.stdout.splitlines()[:4], [self.whole()] * 4)
        self.assertEqual(done.stderr.count("has been downloaded more than 2 times"), 1)
        self.assertNotIn("has been downloaded", self.epochs(self.url, 4, 0, "shuffled").stderr)

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

    def test_what_cannot_be_read_is_not_damage(self):
        def verify(code, *texts):
            done = self.run_program("coco-pack", "--verify", self.url, "--scratch", self.scratch, code=code)
            self.assertNotIn("damaged", self.expect_error(done, *texts))

        self.server.fault = lambda request: faults.azure_refusal if request.name.endswith(self.shards[1]) else None
        verify(NO_INPUT, f"{self.url}/{self.shards[1]}: may not be read")
        self.server.fault = lambda request: faults.status(200, b"<!DOCTYPE html><title>Log in</title>")
        verify(DATA, "manifest.json: ")
        self.server.fault, manifest = lambda request: None, self.set / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"version": 3', '"version": 9'))
        verify(DATA, "was written by a newer version", "update retina-batch")

    def test_what_cannot_be_opened(self):
        for url, code, text in ((self.server.url + "/none", NO_INPUT, "manifest.json: does not exist"),
                                ("ftp://host/set", USAGE, "want https://")):
            for option in ("--verify", "--inspect"):
                self.expect_error(self.run_program("coco-pack", option, url, code=code), text)
        done = self.run_program("coco-pack", "--annotations", "a.json", "--images", "i", "--output",
                                self.url, code=USAGE)
        self.expect_error(done, "--output: cannot be a URL")

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
