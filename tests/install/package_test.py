"""The tar and the wheel of docker/package.sh, unpacked and installed: RETINA_BUILD=BUILD python3
package_test.py. No network: the torch and openvino wheels are those that the build uses, and the tar
has links to their libraries instead of copies of gigabytes."""
import base64
import csv
import email
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

from installed import (BUILD, PROGRAMS, SCRIPTS, SOURCE, TRAINING, WEIGHTS, cache, fetched_weights, foreign_libraries,
                       licences, opened_libraries, run)

VERSION = cache("CMAKE_PROJECT_VERSION")
HAS_CUDA = cache("RETINA_WITH_CUDA") == "ON"
SITE_PACKAGES = pathlib.Path(cache("RETINA_SITE_PACKAGES")).resolve()
UNAVAILABLE = 69
REQUIREMENTS = SOURCE / ("docker/requirements-cuda.txt" if HAS_CUDA else "requirements.txt")


def newest(name, paths):
    """The newest version of a library's symbols that these files need, as a tuple."""
    told = subprocess.run(["objdump", "-p", *paths], capture_output=True, text=True, check=True).stdout
    return max(tuple(map(int, found.split("."))) for found in re.findall(rf"\b{name}_([0-9.]+)$", told, re.M))


def package(out, **environment):
    return subprocess.run([SOURCE / "docker/package.sh", BUILD, out, "--link-wheels"], capture_output=True,
                          text=True, env=os.environ | environment)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for needed in (["patchelf", "--version"], ["/usr/bin/python3", "-c", "import hatchling"]):
            if shutil.which(needed[0]) is None or subprocess.run(needed, capture_output=True).returncode:
                raise unittest.SkipTest(f"not installed: {needed[-1]}")
        room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(room.cleanup)
        cls.room, cls.out = pathlib.Path(room.name), pathlib.Path(room.name, "out")
        cls.told = package(cls.out)
        assert cls.told.returncode == 0, cls.told.stderr
        [cls.tar] = cls.out.glob("*.tar.gz")
        [cls.wheel] = cls.out.glob("*.whl")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.room))

    def expect_success(self, done):
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def metadata(self, name):
        with zipfile.ZipFile(self.wheel) as wheel:
            [path] = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
            return wheel.read(path).decode()

    def test_hashes_are_those_of_the_files(self):
        lines = [line.split() for line in (self.out / "SHA256SUMS").read_text().splitlines()]
        self.assertEqual(sorted(name for _, name in lines), sorted([self.tar.name, self.wheel.name]))
        for digest, name in lines:
            self.assertEqual(hashlib.sha256((self.out / name).read_bytes()).hexdigest(), digest)

    def test_the_tar_has_the_pages_that_its_pages_and_hints_name(self):
        self.expect_success(run(["tar", "-C", self.folder, "-xzf", self.tar], PATH="/usr/bin:/bin"))
        [tree] = self.folder.iterdir()
        pages = list(pathlib.Path(tree, "doc").resolve().rglob("*.md"))
        self.assertIn("README.md", [path.name for path in tree.joinpath("doc").iterdir()])
        for page in pages:
            for link in re.findall(r"\]\(([^):#]+\.md)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.relative_to(tree)}: {link}")
        told = self.expect_success(run([tree / "bin/retina-run", "--help"], PATH="/usr/bin:/bin")).stdout
        [hint] = re.findall(r"(/\S+/jobs/README.md)", told)
        self.assertTrue(pathlib.Path(hint).exists(), hint)

    def test_the_tar_runs_where_it_is_unpacked(self):
        self.expect_success(run(["tar", "-C", self.folder, "-xzf", self.tar], PATH="/usr/bin:/bin"))
        [tree] = self.folder.iterdir()
        self.assertEqual(f"{tree.name}.tar.gz", self.tar.name)
        done = run([tree / "bin/retina-train", *TRAINING, "--output", self.folder / "run"], LD_DEBUG="files")
        self.expect_success(done)
        self.assertEqual(foreign_libraries(opened_libraries(done, "retina-train"), tree), set())
        for name in PROGRAMS:
            self.assertIn(VERSION, self.expect_success(run([tree / "bin" / name, "--version"])).stdout)

    def test_the_glibc_that_is_told_is_the_newest_that_a_file_needs(self):
        self.expect_success(run(["tar", "-C", self.folder, "-xzf", self.tar], PATH="/usr/bin:/bin"))
        [tree] = self.folder.iterdir()
        files = [*(tree / "bin" / name for name in PROGRAMS), *tree.glob("lib/*/*")]
        line = next(line for line in self.told.stdout.splitlines() if self.tar.name in line)
        self.assertIn("glibc {}.{} ".format(*newest("GLIBC", files)), line)

    def test_the_wheel_requires_the_pinned_wheels_and_their_glibc(self):
        message = email.message_from_string(self.metadata("METADATA"))
        pins = re.findall(r"^(?:torch|openvino)==\S+", REQUIREMENTS.read_text(), re.M)
        self.assertEqual(len(pins), 2)
        self.assertEqual(sorted(message.get_all("Requires-Dist")), sorted(pins))
        self.assertEqual((message["Name"], message["Version"].partition("+")[0]), ("retina-batch", VERSION))
        tag = email.message_from_string(self.metadata("WHEEL"))["Tag"]
        self.assertTrue(self.wheel.name.endswith(f"-{tag}.whl"))
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(self.folder)
        files = [*self.folder.glob("retina_batch/_bin/*"), *self.folder.glob("retina_batch/_lib/*")]
        glibc = tuple(map(int, re.search(r"-manylinux_(\d+)_(\d+)_x86_64$", tag).groups()))
        self.assertGreaterEqual(glibc, newest("GLIBC", files))
        if newest("GLIBCXX", files) > (3, 4, 29):
            self.assertGreaterEqual(glibc, (2, 35))  # some systems of glibc 2.34 have GCC 11's libstdc++
        self.assertEqual(message["License-Expression"], licences(self.folder / "retina_batch/_licences")[0])

    def test_the_tag_is_of_systems_whose_libstdcxx_has_all_symbols(self):
        """What this build does not need, an objdump says that it does: as GCC 13's programs need of C++'s runtime."""
        for symbol, tag in (("CXXABI_1.3.15", "manylinux_2_39"), ("GLIBCXX_3.4.99", None)):
            (self.folder / "objdump").write_text(
                f"#!/bin/sh\n/usr/bin/objdump \"$@\"\necho ' 0x0 0x0 02 {symbol}'\n")
            (self.folder / "objdump").chmod(0o755)
            done = package(self.folder / "out", PATH=f"{self.folder}:{os.environ['PATH']}")
            if tag:
                self.expect_success(done)
                self.assertEqual(len(list(self.folder.glob(f"out/*-{tag}_x86_64.whl"))), 1)
            else:
                self.assertEqual(done.returncode, UNAVAILABLE)
                self.assertIn(f"no manylinux is known to have {symbol}", done.stderr)

    def test_jbig_is_declined_by_an_image(self):
        """libjbig, under the GNU GPL, has a stand-in in the packages."""
        self.expect_success(run(["tar", "-C", self.folder, "-xzf", self.tar], PATH="/usr/bin:/bin"))
        [tree] = self.folder.iterdir()
        images = self.folder / "images"
        images.mkdir()
        # A bilevel TIFF of 16 x 16 px with one strip of JBIG's header: tag, type, count, value.
        strip = bytes([0, 0, 1, 0, *(16).to_bytes(4, "big") * 3, 8, 0, 3, 0])
        fields = [(256, 3, 1, 16), (257, 3, 1, 16), (258, 3, 1, 1), (259, 3, 1, 34661), (262, 3, 1, 0),
                  (273, 4, 1, 8), (277, 3, 1, 1), (278, 3, 1, 16), (279, 4, 1, len(strip))]
        (images / "fax.tif").write_bytes(
            struct.pack("<2sHI", b"II", 42, 8 + len(strip)) + strip + struct.pack("<H", len(fields))
            + b"".join(struct.pack("<HHII", *field) for field in fields) + bytes(4))
        (self.folder / "boxes.csv").write_text("fax.tif,1,1,9,9,box\n")
        done = run([tree / "bin/coco-pack", "--format", "csv", "--annotations", self.folder / "boxes.csv", "--images",
                    images, "--convert", "--output", self.folder / "shards"])
        self.assertIn("JBIG is not read by this package", done.stderr + done.stdout + "".join(
            path.read_text() for path in self.folder.glob("shards/quarantine.jsonl")))

    def test_the_wheel_has_the_package_and_records_every_file(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            rows = {name: (digest, size) for name, digest, size in
                    csv.reader(self.metadata("RECORD").splitlines())}
            self.assertEqual(sorted(rows), sorted(wheel.namelist()))
            for info in wheel.infolist():
                if not info.filename.endswith("/RECORD"):
                    digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(info)).digest())
                    self.assertEqual(rows[info.filename],
                                     (f"sha256={digest.decode().rstrip('=')}", str(info.file_size)))
                if info.filename.startswith("retina_batch/_bin/"):
                    self.assertTrue(info.external_attr >> 16 & 0o111, info.filename)
            names = set(wheel.namelist())
        sources = {str(path.relative_to(SOURCE / "python"))
                   for path in SOURCE.glob("python/retina_batch/**/*") if path.suffix in (".py", ".typed")}
        self.assertLessEqual(sources | {f"retina_batch/_bin/{name}" for name in PROGRAMS}
                             | {"retina_batch/_lib/libretina_mpi.so", "retina_batch/_licences/LICENSE"}, names)
        big = [name for name in names if re.search("libtorch|libopenvino|libcu(?!rl)", name)]  # libcudart, libcublas ...
        self.assertEqual(big, [])
        scripts = re.findall(r"^(\S+) = retina_batch\._programs:(\S+)$", self.metadata("entry_points.txt"), re.M)
        self.assertEqual(sorted(scripts), sorted((name, name.replace("-", "_")) for name in [*PROGRAMS, *SCRIPTS]))

    def test_the_same_build_gives_the_same_bytes(self):
        self.assertEqual(package(self.folder).returncode, 0)
        for path in (self.tar, self.wheel):
            self.assertEqual((self.folder / path.name).read_bytes(), path.read_bytes(), path.name)

    def environment_with_the_wheel(self):
        """A virtual environment, its site-packages and the programs' folder."""
        place = self.folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                        "--disable-pip-version-check", self.wheel], check=True)
        [site] = place.glob("lib/python3*/site-packages")
        return place, site

    def expect_training(self, place):
        """And a conversion, which opens more of OpenVINO. Returns the libraries that both opened."""
        opened = set()
        for program, *words in (["retina-train", *TRAINING, "--output", self.folder / "run"],
                                ["retina-convert", "--checkpoint", self.folder / "run", "--output",
                                 self.folder / "model.onnx", "--device", "cpu"]):
            done = run([place / "bin" / program, *words], LD_DEBUG="files", PATH="/usr/bin:/bin")
            opened |= opened_libraries(self.expect_success(done), program)
        return opened

    def test_installed_beside_the_wheels_it_needs_no_environment_variable(self):
        place, site = self.environment_with_the_wheel()
        for name in ("torch", "openvino", "nvidia"):
            (site / name).symlink_to(SITE_PACKAGES / name)
        opened = self.expect_training(place)
        self.assertEqual(foreign_libraries(opened, place), set())
        for name in PROGRAMS:
            self.assertIn(VERSION, self.expect_success(run([place / "bin" / name, "--version"])).stdout)
        self.assertEqual(fetched_weights(place / "bin" / WEIGHTS, self.folder),
                         ["retinanet_resnet50_fpn_v2_coco-5905b1c5.pt"])
        done = run([place / "bin/retina-run", self.folder / "none"], PATH="/usr/bin:/bin")
        self.assertEqual((done.returncode, done.stderr),
                         (66, f"retina-run: error: {self.folder}/none: there is no such folder\n"))

    def test_wheels_of_another_folder_are_found_too(self):
        place, site = self.environment_with_the_wheel()
        done = run([place / "bin/retina-train", "--version"])
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertRegex(done.stderr, r"^retina-train: error: not installed: torch and openvino; hint: pip "
                                      r"install openvino==\S+ torch==\S+\n$")
        self.expect_success(run([place / "bin/coco-pack", "--version"]))
        (site / "wheels.pth").write_text(f"{SITE_PACKAGES}\n")
        opened = self.expect_training(place)
        self.assertIn(str(SITE_PACKAGES / "torch/lib/libtorch_cpu.so"), opened)


class Versions(unittest.TestCase):
    """CMakeLists.txt has the version; what names it must agree."""

    def test_the_changelog_and_the_pages_name_it(self):
        first = re.search(r"^## ([0-9.]+)", (SOURCE / "CHANGELOG.md").read_text(), re.M).group(1)
        self.assertEqual(first, VERSION)
        for page in ("README.md", "docker/README.md"):
            named = set(re.findall(r"retina[-_]batch[-:]([0-9]+\.[0-9]+\.[0-9]+)", (SOURCE / page).read_text()))
            self.assertEqual(named, {VERSION}, page)


if __name__ == "__main__":
    unittest.main()
