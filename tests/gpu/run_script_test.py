"""tests/gpu/run.sh names what a machine lacks, in one line, before it builds anything."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("run.sh")


class GpuRunScript(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        # A machine that has all; each test takes something away.
        self.programs = self.room / "bin"
        self.programs.mkdir()
        self.program("nvidia-smi", 'echo "GPU 0: of a test"')
        self.program("nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.1"')
        for name in ("cmake", "ninja", "pkg-config", "mpicxx"):
            self.program(name, "exit 0")
        self.program("g++", "echo x86_64-linux-gnu")
        self.program("python", "exit 0")

    def program(self, name, body):
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def expect_refusal(self, code, fragment, *arguments):
        done = subprocess.run([SCRIPT, "--python", "python", "--build", self.room / "build",
                               *arguments], capture_output=True, text=True, timeout=60,
                              env=os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, code, done.stderr)
        errors = [line for line in done.stderr.splitlines() if "error: " in line]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(fragment, errors[0])

    def test_a_machine_without_gpu_is_refused(self):
        self.program("nvidia-smi", "exit 9")
        self.expect_refusal(69, "no NVIDIA GPU")

    def test_another_toolkit_is_refused(self):
        self.program("nvcc", 'echo "Cuda compilation tools, release 12.4, V12.4.1"')
        self.expect_refusal(69, "release 12.4")

    def test_a_python_without_torch_is_refused(self):
        self.program("python", "exit 1")
        self.expect_refusal(69, "no torch 2.11")

    def test_missing_packages_are_all_named(self):
        self.program("g++", '[ "$1" = -print-multiarch ]')
        for name in ("liblmdb-dev", "rapidjson-dev", "libjpeg-dev", "libpng-dev",
                     "libtiff-dev", "libwebp-dev", "libcurl4-openssl-dev", "libutf8proc-dev", "libpugixml-dev",
                     "libyaml-cpp-dev", "libonnx-dev", "libprotobuf-dev",
                     "libgoogle-perftools-dev", "libgmock-dev", "--debs"):
            self.expect_refusal(69, name)

    def test_a_folder_without_packages_is_refused(self):
        self.expect_refusal(69, "holds no .deb files", "--debs", self.room)

    def test_an_unknown_option_is_refused(self):
        self.expect_refusal(64, "--debug", "--debug")


if __name__ == "__main__":
    sys.exit(unittest.main())
