"""jobs/scaling.py on the metrics of made-up runs."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "jobs/scaling.py"


class Scaling(unittest.TestCase):
    def test_it_compares_the_median_steps_after_the_first_two(self):
        with tempfile.TemporaryDirectory() as folder:
            for ranks, step_ms in (2, 625), (1, 500):
                times = [{"compute_ms": 480 - rank, "data_wait_ms": 20} for rank in range(ranks)]
                lines = [{"loss": 1, "ranks": ranks, "images": 2 * ranks, "step_ms": ms} for ms in [9e3] * 2 + [step_ms] * 3]
                run = Path(folder) / str(ranks)
                run.mkdir()
                (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"rank_times": times}]))
            command = [sys.executable, SCRIPT, f"{folder}/2", f"{folder}/1"]
            rows = [line.split() for line in subprocess.check_output(command, text=True).splitlines()[1:]]
        self.assertEqual(rows, [["1", "4.00", "100.0%", "500.0", "500.0", "0.0"], ["2", "6.40", "80.0%", "625.0", "500.0", "125.0"]])


if __name__ == "__main__":
    unittest.main()
