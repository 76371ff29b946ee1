"""gpu_trace.py adds up a trace as torch's profiler writes it."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).with_name("gpu_trace.py")
# Microseconds, with the fraction and the size that Kineto gives them.
START = 4971021735000.293


def on_gpu(category, name, begin, duration, **more):
    """An event of Kineto's output_json.cpp; its thread is the stream."""
    stream = more.pop("stream", 7)
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": START + begin, "dur": duration,
            "args": {"External id": 3, "device": 0, "context": 1, "stream": stream, "correlation": 11, **more}}


def kernel(name, begin, duration, **more):
    return on_gpu("kernel", name, begin, duration, **{
        "queued": 0, "registers per thread": 32, "shared memory": 0, "blocks per SM": 1.5, "warps per SM": 6,
        "grid": [216, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 9, **more})


# What lies around the GPU's events: torch 2.11's profiler wrote these on a CPU.
AROUND = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::randn", "pid": 13205, "tid": 13205, "ts": START, "dur": 367.418,
     "args": {"External id": 1, "Record function id": 0, "Ev Idx": 0}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 13205, "tid": 13205, "ts": START, "dur": 5000.5,
     "args": {"External id": 3, "cbid": 211, "correlation": 11}},
    {"ph": "s", "id": 11, "pid": 13205, "tid": 13205, "ts": START, "cat": "ac2g", "name": "ac2g"},
    {"name": "process_name", "ph": "M", "ts": START, "pid": 13205, "tid": 0, "args": {"name": "python"}},
    {"ph": "X", "cat": "Trace", "ts": START, "dur": 39826.231, "pid": "Spans", "tid": "PyTorch Profiler",
     "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
    {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler",
     "ts": START},
]


class GpuTrace(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.trace = pathlib.Path(room.name) / "trace.json"

    def write(self, events):
        self.trace.write_text(json.dumps({
            "schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1790857026000000000, "traceEvents": AROUND + events, "traceName": str(self.trace)}))

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, self.trace, *arguments], capture_output=True, text=True, timeout=60)

    def lines(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_adds_up_calls_and_counts_overlapping_streams_once(self):
        self.write([kernel("void conv<float>(int*)", 3000, 1500.5), kernel("void conv<float>(int*)", 0, 500.5),
                    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 400, 600, stream=20),
                    on_gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 4000, 250, bytes=1609728),
                    on_gpu("gpu_memset", "Memset (Device)", 4900, 149, bytes=512)])
        # 0 to 500.5 and 400 to 1000; 3000 to 4500.5 with the copy within; 4900 to 5049.
        self.assertEqual(self.lines(), [
            "    2.001 ms  66.7 %      2.0 x  void conv<float>(int*)",
            "    0.600 ms  20.0 %      1.0 x  ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "    0.250 ms   8.3 %      1.0 x  Memcpy HtoD (Pinned -> Device)",
            "    0.149 ms   5.0 %      1.0 x  Memset (Device)",
            "5 kernels and copies; busy 2.6 ms of 5.0 ms"])

    def test_divides_by_the_steps_and_shows_the_longest(self):
        self.write([kernel("a", 0, 1000), kernel("a", 2000, 3000), kernel("b", 1000, 1000)])
        self.assertEqual(self.lines("--steps", "2", "--most", "1"),
                         ["    2.000 ms  80.0 %      1.0 x  a", "3 kernels and copies; busy 5.0 ms of 5.0 ms"])

    def test_reads_a_packed_trace_and_kernels_that_took_no_time(self):
        self.write([kernel("a", 0, 0)])
        self.trace.write_bytes(gzip.compress(self.trace.read_bytes()))
        self.assertEqual(self.lines(), ["    0.000 ms   0.0 %      1.0 x  a", "1 kernels and copies; busy 0.0 ms of 0.0 ms"])

    def refusal(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr.strip().splitlines()[-1]

    def test_says_in_one_line_what_is_wrong(self):
        self.assertIn("No such file", self.refusal())
        self.write([])
        self.assertEqual(self.refusal(), f"{self.trace}: holds no kernels")
        whole = self.trace.read_text()
        self.trace.write_text(whole[:len(whole) // 2])  # the program ended while it wrote
        self.assertIn(f"{self.trace}: is not a whole trace", self.refusal())
        for events in ([5], [{"cat": "kernel", "name": "a", "ts": 0}], [{"cat": "kernel", "name": "a", "ts": 0, "dur": "x"}]):
            self.trace.write_text(json.dumps({"traceEvents": events}))
            self.assertIn(f"{self.trace}: is not a whole trace", self.refusal())
        self.trace.write_text("[]")
        self.assertIn(f"{self.trace}: is not a whole trace", self.refusal())
        self.assertIn("--steps", self.refusal("--steps", "0"))


if __name__ == "__main__":
    unittest.main()
