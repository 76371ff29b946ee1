"""Does the fake device see a missing order? Builds fake_device_test with one mutant of the product after the other.

    mutants.py --check          every mutant still applies to its source
    mutants.py BUILD [NAME...]  tries all, or those named, with the build folder's fake_device_test; prints what
                                found each, and exits with 1 if one was not found
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 300
TESTS = "Streams.*:TwoRanks*"


class Mutant(NamedTuple):
    source: str
    name: str
    old: str  # is there once
    new: str
    unit: str = ""  # of a header: the source that is compiled with it

    def text(self):
        text = (ROOT / self.source).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.source} has its text {text.count(self.old)} times")
        return text.replace(self.old, self.new)


NEW_STREAM = "c10::impl::VirtualGuardImpl(device_.type()).getNewStream(device_)"
BLOCK_TO = "prepare_images(block.to(device_, /*non_blocking=*/true),"
LAUNCH = """  const at::Tensor images = prepare_images(block.to(device_, /*non_blocking=*/true),
                                           rows.to(device_, /*non_blocking=*/true), wanted);
"""
QUERY = """  if (device_.is_cpu()) return images;
  while (!under_way_.empty() && under_way_.front().done.query()) under_way_.pop_front();
"""
RECORD = """  c10::Event done(device_.type());
  done.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
"""
UPLOAD = [Mutant("shared/ops/image_upload.cpp", *fields) for fields in [
    ("a batch's memory is used again at once", "under_way_.push_back({std::move(done), batch.stored});", ""),
    ("a batch's memory is used again when its slot is asked for", "&& under_way_.front().done.query()", ""),
    ("the batch's event is recorded before its copy", LAUNCH + QUERY + RECORD, RECORD + LAUNCH + QUERY),
    ("rows are written again before their copy", "  const at::Tensor rows =\n", "  static thread_local const at::Tensor rows =\n"),
    ("the upload's stream is its own", BLOCK_TO,
     "prepare_images([&] { const c10::StreamGuard own(" + NEW_STREAM + "); return block.to(device_, true); }(),"),
    ("the upload's stream is waited for, and its memory freed too early", BLOCK_TO,
     "prepare_images([&] {\n  const auto main = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);\n"
     "  const auto own = " + NEW_STREAM + ";\n  const c10::StreamGuard guard(own);\n"
     "  const at::Tensor there = block.to(device_, true);\n  c10::Event event(device_.type());\n"
     "  event.record(own);\n  event.block(main);\n  return there; }(),"),
]]
CLOCK = [Mutant("train/step/step_clock.cpp", *fields) for fields in [
    ("times are read before they are over", "if (!marks.empty() && marks.back().event) marks.back().event->synchronize();", ""),
    ("the step's first event is waited for", "marks.back().event->synchronize()", "marks.front().event->synchronize()"),
    ("events without time", "c10::EventFlag::BACKEND_DEFAULT", "c10::EventFlag::PYTORCH_DEFAULT"),
]]
REPLICA = [Mutant("train/step/replica.cpp", "metrics are copied after the event that is waited for",
                  "  const at::Tensor on_host = to_host(metrics);\n  clock_.end();\n",
                  "  clock_.end();\n  const at::Tensor on_host = to_host(metrics);\n")]
NCCL = [Mutant("train/reduce/nccl_transport.cpp", *fields) for fields in [
    ("no event is recorded for a full bucket", 'check_cuda(cudaEventRecord(filled_[number], compute), "cudaEventRecord");', ""),
    ("the event is recorded on NCCL's stream", "cudaEventRecord(filled_[number], compute)", "cudaEventRecord(filled_[number], stream_)"),
    ("nobody waits for a full bucket", "if (code == cudaSuccess) return;\n      if", "return;\n      if"),
    ("another bucket's event is waited for", "cudaEventQuery(filled_[number])", "cudaEventQuery(filled_[0])"),
    ("16-bit sums are made on the main stream", "const c10::cuda::CUDAStreamGuard guard(stream_);", ""),
    ("a bucket is given back before its sums are in it", "    stream_.synchronize();\n", ""),
]] + [Mutant("train/reduce/nccl_communicator.cpp", *fields) for fields in [
    ("a collective returns before it is done",
     "    while (!is_done()) {\n      check_alive(ncclCommGetAsyncError(comm_, &state));\n      check_alive(state);\n", "    while (false) {\n"),
    ("the event of an earlier collective is waited for",
     '    check_cuda(cudaEventRecord(done_, stream_), "cudaEventRecord");\n    while (!is_done()) {\n      check_alive',
     "    while (!is_done()) {\n      check_alive"),
]]
BUCKETS = [Mutant("train/reduce/gradient_buckets.cpp", *fields) for fields in [
    ("a bucket leaves before its last gradient", "missing_count_[next_bucket_] == 0", "missing_count_[next_bucket_] <= 1"),
    ("buckets are used while they travel", "    queue_->wait();\n", ""),
]]
KERNELS = [Mutant("shared/ops/dispatch.h", "a kernel runs on a stream of its own",
                  "device.getStream(tensor.device()).native_handle()",
                  "device.getNewStream(tensor.device()).native_handle()", "shared/ops/prepare_images.cpp")]
MUTANTS = UPLOAD + CLOCK + REPLICA + NCCL + BUCKETS + KERNELS


class Builder:
    def __init__(self, build):
        self.build = build
        self.commands = json.loads((build / "compile_commands.json").read_text())
        ninja = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", "bin/fake_device_test"],
                               capture_output=True, text=True, check=True)
        # ": && LINK && :"
        self.link = shlex.split(re.sub(r"^: && | && :$", "", ninja.stdout.splitlines()[-1]))

    def unit_of(self, source):
        """The command and file that compile it for the fake device: itself, or the unity file that includes it."""
        path = str(ROOT / source)
        alone = [e for e in self.commands if e["file"] == path]
        fake = [e for e in alone if "retina_fake_nccl" in e["command"]]
        unity = [e for e in self.commands if "/Unity/" in e["file"] and f'"{path}"' in Path(e["file"]).read_text()]
        return (fake or unity or alone)[0]

    def executable(self, mutant, folder):
        entry = self.unit_of(mutant.unit or mutant.source)
        mutated = folder / mutant.source
        mutated.parent.mkdir(parents=True)
        mutated.write_text(mutant.text())
        unit, output = folder / "unit.cpp", folder / "unit.o"
        text = Path(entry["file"]).read_text()
        if not mutant.unit:
            path = str(ROOT / mutant.source)
            text = text.replace(f'"{path}"', f'"{mutated}"') if "/Unity/" in entry["file"] else mutated.read_text()
        unit.write_text(text)
        command = shlex.split(entry["command"])
        command = command[:command.index("-o")] + ["-O0", "-w", "-o", output, "-c", unit]
        # A mutant's header comes before the tree's.
        command.insert(next(i for i, word in enumerate(command) if str(word).startswith("-I")), f"-I{folder}")
        subprocess.run(command, cwd=self.build, check=True)
        executable = folder / "fake_device_test"
        link = list(self.link)
        link[link.index("-o") + 1] = executable
        first = next(i for i, word in enumerate(link) if str(word).endswith(".o"))
        link[first:first] = ["-Wl,--allow-multiple-definition", output]  # the first one counts
        subprocess.run(link, cwd=self.build, check=True)
        return executable

    def what_finds(self, mutant):
        """The first line that tells of a failure, or None."""
        with tempfile.TemporaryDirectory() as folder:
            executable = self.executable(mutant, Path(folder))
            libraries = os.environ | {"LD_LIBRARY_PATH": ":".join(self.folders_to_load_from()), "OMP_WAIT_POLICY": "passive"}
            try:
                done = subprocess.run([executable, f"--gtest_filter={TESTS}", "--gtest_fail_fast"], env=libraries,
                                      capture_output=True, text=True, timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return f"more than {TIMEOUT_S} s"
        if done.returncode == 0:
            return None
        reasons = re.findall(r'Actual: \{ "([^"]*)"|Which is: "([^"]*)"|(.*: Failure)', done.stdout)
        return next((a or b for a, b, _ in reasons if a or b), reasons[0][2] if reasons else f"exit code {done.returncode}")

    def folders_to_load_from(self):
        return {str(Path(word).parent) for word in self.link if re.search(r"\.so(\.\d+)*$", word)}


def main(arguments):
    if arguments == ["--check"]:
        assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS), "two mutants share a name"
        for mutant in MUTANTS:
            mutant.text()
        print(f"{len(MUTANTS)} mutants apply")
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 64
    builder = Builder(Path(arguments[0]).resolve())
    tried = [mutant for mutant in MUTANTS if not arguments[1:] or mutant.name in arguments[1:]]
    found = 0
    for mutant in tried:
        reason = builder.what_finds(mutant)
        found += reason is not None
        print(f"{mutant.source}: {mutant.name}: {reason or 'NOT FOUND'}", flush=True)
    print(f"{found} of {len(tried)} mutants found")
    return 0 if found == len(tried) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
