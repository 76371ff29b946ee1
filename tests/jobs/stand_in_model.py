"""model_program.py with a stand-in for ONNX Runtime: the first scale of grey of an image says what the
model does with it. For model_process_test.py.
"""
import json
import os
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jobs/serving"))
import model_program  # noqa: E402

FINDS, HANGS, CRASHES, FAILS, EATS = 0, 50, 100, 150, 200  # JPEG moves them by little


class Model:
    kind, provider, has_gpu, size = "classifier", "stand-in", False, None
    names, ids = ["cat", "dog"], [1, 2]

    def run(self, images, height, width):
        first = [image[0] for image in images]
        images.clear()
        does = max(first) // 10 * 10 + 10 if max(first) % 10 > 5 else max(first) // 10 * 10
        if does == HANGS:
            time.sleep(3600)
        if does == CRASHES:
            os.abort()
        if does == FAILS:
            raise ValueError("no kernel\nfor this")
        if does == EATS:
            bytearray(1 << 40)
        time.sleep(0.02)  # for others to come, if they may
        return [([1 / width, 1 - 1 / width],)] * len(first)


class SlowDetector(Model):
    kind = "detector"

    def run(self, images, height, width):
        count = len(images)
        images.clear()
        time.sleep(0.2)
        return [([], [], [])] * count


def loaded(path, is_trusted, limits):
    """`path` says how loading goes, and counts the starts in its second line."""
    file = pathlib.Path(path)
    [how, *starts] = file.read_text().split("\n")
    file.write_text("\n".join([how, *starts, "start"]))
    if how == "refused":
        raise model_program.BadModel("node 7 is a Loop")
    if how == "hangs":
        time.sleep(3600)
    if how == "crashes" or how == "crashes later" and starts:
        os.abort()
    resource.setrlimit(resource.RLIMIT_DATA, (limits.max_model_bytes,) * 2)
    return SlowDetector() if how == "detects slowly" else Model(), "not ours" if is_trusted else None


if __name__ == "__main__":
    model_program.checked = loaded
    json.loads(sys.argv[1])
    model_program.main()
