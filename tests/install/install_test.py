"""`cmake --install` into a folder that is then moved, run without an environment: RETINA_BUILD=BUILD
python3 install_test.py. The wheels' libraries are links there, not copies of gigabytes."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from installed import (BUILD, PROGRAMS, SCRIPTS, TRAINING, WEIGHTS, cache, fetched_weights, foreign_libraries, label,
                       licences, opened_libraries, run)

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
       "PATH": "/usr/local/bin:/usr/bin:/bin"}
UNAVAILABLE = 69


def install(prefix, component, **environment):
    done = try_install(prefix, component, **environment)
    assert done.returncode == 0, done.stderr


def try_install(prefix, component, **environment):
    return subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component", component],
                          capture_output=True, text=True, env=os.environ | environment)


class InstalledPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("patchelf") is None:
            raise unittest.SkipTest("patchelf is not installed")
        cls.room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.room.cleanup)
        first = pathlib.Path(cls.room.name, "first")
        install(first, "programs")
        install(first, "libraries")
        install(first, "wheels", CMAKE_INSTALL_MODE="ABS_SYMLINK")
        cls.prefix = first.rename(first.with_name("moved"))
        cls.libraries = cls.prefix / "lib/retina-batch"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.room.name))

    def program(self, name):
        return self.prefix / "bin" / name

    def expect_success(self, done):
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def test_the_tree_has_programs_libraries_and_licences_alone(self):
        self.assertEqual(sorted(os.listdir(self.prefix)), ["bin", "lib", "share"])
        self.assertEqual(sorted(os.listdir(self.prefix / "bin")), sorted([*PROGRAMS, *SCRIPTS]))
        ours = [path.name for path in self.libraries.glob("libretina*")]
        self.assertEqual(sorted(ours), ["libretina_eval_model.so", "libretina_mpi.so"])
        self.assertEqual([path for path in self.libraries.iterdir() if ".so" not in path.name], [])

    def test_each_library_is_named_with_its_licence_and_source(self):
        folder = self.prefix / "share/doc/retina-batch/licences"
        expression, lines = licences(folder)
        names = {name.split()[0] for name, _, _ in lines}
        for path in self.libraries.iterdir():
            if path.name.startswith(("libretina", "libjbig")):
                continue
            if path.is_symlink():  # a wheel's
                owner = path.resolve().relative_to(pathlib.Path(cache("RETINA_SITE_PACKAGES")).resolve()).parts[0]
                self.assertTrue(any(name.startswith(owner) for name in names), path.name)
                continue
            owner = run(["dpkg-query", "-S", f"*/{path.name}"], PATH="/usr/bin:/bin").stdout
            self.assertTrue(names & set(re.findall(r"^([^:,\s]+)[:,]", owner, re.M)), path.name)
        for name, licence, source in lines:
            package, version = name.split()
            texts = [text for text in folder.glob(f"{package}*/**/*") if text.is_file()]
            self.assertTrue(texts and all(text.stat().st_size for text in texts), name)
            self.assertRegex(source, "^https://.*" if not package.startswith("nvidia") else "^not published$")
            self.assertLessEqual(set(licence.split(" AND ")), set(expression.split(" AND ")))
            for term in licence.split(" AND "):  # what is under the GNU GPL alone does not go with what is not free
                self.assertNotRegex(term, r"^GPL(?!.* WITH )", name)
        if cache("RETINA_WITH_CUDA") == "ON":
            self.assertEqual(label("Dockerfile"), expression)

    def test_each_link_of_a_page_leads_somewhere(self):
        pages = list((self.prefix / "share/doc/retina-batch").rglob("*.md"))
        self.assertIn("README.md", [page.name for page in pages])
        for page in pages:
            for target in re.findall(r"\]\(([^)\s:#]+)[)#]", page.read_text()):
                self.assertTrue((page.parent / target).exists(), f"{page}: {target}")

    def test_a_library_without_its_licence_is_not_installed(self):
        (self.folder / "dpkg-query").write_text("#!/bin/sh\nexit 1\n")
        (self.folder / "dpkg-query").chmod(0o755)
        done = try_install(self.folder / "tree", "libraries", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(" ".join(done.stderr.split()), r"/lib\S+: is not installed without its licence .*; hint: ")

    def test_every_library_is_of_the_tree_or_of_the_c_and_cxx_runtime(self):
        own = {"libretina_mpi.so": "libmpi.so.40", "libcaffe2_nvrtc.so": "libcuda.so.1"}
        for path in [*map(self.program, PROGRAMS), *self.libraries.iterdir()]:
            with self.subTest(path.name):
                lines = run(["ldd", path]).stdout.splitlines()
                absent = {line.split()[0] for line in lines if "not found" in line}
                self.assertLessEqual(absent, {own.get(path.name)})
                if path.name != "libretina_mpi.so":  # Open MPI is the system's
                    found = [line.split()[2] for line in lines if "=> /" in line]
                    self.assertEqual(foreign_libraries(found, self.prefix), set())

    def test_the_check_of_model_files_comes_with_its_libraries(self):
        install(self.folder, "guard")
        libraries = self.folder / "lib/retina-batch"
        names = os.listdir(libraries)
        self.assertIn("libretina_onnx_guard.so", names)
        self.assertEqual([name for name in names if "torch" in name or "openvino" in name], [])
        told = run(["ldd", libraries / "libretina_onnx_guard.so"]).stdout
        self.assertNotIn("not found", told)
        expression, _ = licences(self.folder / "share/doc/retina-batch/licences")
        self.assertEqual(label("serve.Dockerfile"), expression)
        found = [line.split()[2] for line in told.splitlines() if "=> /" in line]
        self.assertEqual(foreign_libraries(found, self.folder), set())

    def test_each_program_says_what_it_is(self):
        for name in PROGRAMS:
            with self.subTest(name):
                version = self.expect_success(run([self.program(name), "--version"])).stdout
                self.assertTrue(version.startswith(f"{name} {cache('CMAKE_PROJECT_VERSION')} "), version)
                self.assertIn("--version", self.expect_success(run([self.program(name), "--help"])).stdout)

    def test_trains_converts_and_evaluates_on_one_rank_without_open_mpi(self):
        opened = set()
        for words in (["retina-train", *TRAINING, "--output", self.folder / "run"],
                      ["retina-convert", "--checkpoint", self.folder / "run", "--output",
                       self.folder / "model.onnx", "--device", "cpu"]):
            done = run([self.program(words[0]), *words[1:]], LD_DEBUG="files")
            self.expect_success(done)
            opened |= opened_libraries(done, words[0])
        names = {os.path.basename(path) for path in opened}
        self.assertLessEqual({"libtorch_cpu.so", "libopenvino_intel_cpu_plugin.so"}, names)
        self.assertEqual([name for name in names if name.startswith(("libmpi", "libretina_mpi"))], [])
        self.assertEqual(foreign_libraries(opened, self.prefix), set())

    def test_the_models_half_of_retina_eval_is_found(self):
        self.expect_success(run([self.program("retina-train"), *TRAINING, "--output", self.folder / "run"]))
        done = run([self.program("retina-eval"), "--model", self.folder / "run", "--images",
                    self.folder / "none", "--output", self.folder / "evaluation"], LD_DEBUG="files")
        self.assertEqual(done.returncode, 66)
        self.assertIn(str(self.libraries / "libretina_eval_model.so"), opened_libraries(done, "retina-eval"))

    def test_weights_are_fetched_and_imported_without_a_path_to_the_programs(self):
        second = self.folder / "usr local bin/weights"
        second.parent.mkdir()
        second.symlink_to(self.program(WEIGHTS))
        for command in (self.program(WEIGHTS), second):
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            self.assertEqual(fetched_weights(command, folder), ["retinanet_resnet50_fpn_v2_coco-5905b1c5.pt"])

    def test_two_ranks_train_with_the_systems_open_mpi(self):
        words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", self.program("retina-train"),
                 *TRAINING, "--output", self.folder / "run"]
        self.expect_success(run(words, HOME=str(self.folder), **MPI))
        self.assertTrue((self.folder / "run/checkpoints.json").is_file())

    def without_open_mpi(self, name, **environment):
        """As `name` fails where no libmpi can be loaded: the first that the linker finds is none."""
        (self.folder / "libmpi.so.40").write_bytes(b"")
        return run([self.program(name), *TRAINING, "--output", self.folder / "run"],
                   LD_LIBRARY_PATH=str(self.folder), **environment)

    def test_ranks_without_open_mpi_end_with_what_to_install(self):
        done = self.without_open_mpi("retina-train", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in ("Open MPI", "rank 0", "libmpi.so.40", "apt-get install openmpi-bin"):
            self.assertIn(part, done.stderr)

    def test_one_rank_does_without_open_mpi_and_its_version_says_so(self):
        self.expect_success(self.without_open_mpi("retina-train"))
        done = run([self.program("retina-train"), "--version"], LD_LIBRARY_PATH=str(self.folder))
        self.assertRegex(self.expect_success(done).stdout, r"(?m)^MPI not found.*libmpi\.so\.40")

    def test_ranks_without_our_own_library_end_with_where_it_belongs(self):
        (self.libraries / "libretina_mpi.so").rename(self.folder / "libretina_mpi.so")
        try:
            done = run([self.program("retina-train"), *TRAINING, "--output", self.folder / "run"],
                       OMPI_COMM_WORLD_RANK="0")
        finally:
            (self.folder / "libretina_mpi.so").rename(self.libraries / "libretina_mpi.so")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("keep the folder lib beside the programs' folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
