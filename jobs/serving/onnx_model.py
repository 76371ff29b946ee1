"""Checks a model file and runs it by ONNX Runtime. The check is retina-convert's own, in C++
(libretina_onnx_guard.so): the graph must be the one that retina-convert writes for the file's header;
only the weights are the file's own. The bytes that were checked are the bytes that run.
"""
import json
import math
import os
import pathlib

from library import NoLibrary, call

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")  # the first available one is used
OUTPUTS = {"detector": ["boxes", "scores", "labels", "counts"],
           "classifier": ["probabilities", "logits"]}


class BadModel(Exception):
    """Says in one line why a model file is not served."""


def refusal(data):
    """Checks a file's bytes. Returns the problem in one line, or None. Raises BadModel where the check
    is not available."""
    try:
        code, text = call("retina_onnx_check", data)
    except NoLibrary as error:
        raise BadModel(str(error)) from None
    return (text.removeprefix("model: ") or "refused without a reason") if code else None


def usable_cores():
    """Returns the number of cores that this process may use, within a container's quota."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # another cgroup version, or no quota ("max")
        return cores


class OnnxModel:
    def __init__(self, data):
        """`data`: the file's bytes, checked or trusted. Raises BadModel."""
        import onnxruntime  # not needed for the checks before it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = usable_cores()
        # Threads that wait by spinning take the cores from those that decode and answer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # These would keep a memory plan for each size of image that was ever sent, and the memory of the
        # largest one, for good; without them the model is as fast.
        options.enable_mem_pattern = options.enable_cpu_mem_arena = False
        there = onnxruntime.get_available_providers()
        if hasattr(onnxruntime, "preload_dlls") and PROVIDERS[0] in there:
            onnxruntime.preload_dlls()  # from NVIDIA's wheels
        try:
            self._session = onnxruntime.InferenceSession(
                data, options, providers=[name for name in PROVIDERS if name in there])
        except Exception as error:  # ONNX Runtime has no common class of errors
            raise BadModel(f"ONNX Runtime does not load it ({first_line(error)})") from None
        self.provider = self._session.get_providers()[0]
        self.has_gpu = self.provider != PROVIDERS[-1]
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.kind = next((kind for kind, names in OUTPUTS.items() if names == self._outputs), None)
        inputs = [(tensor.name, tensor.type) for tensor in self._session.get_inputs()]
        if self.kind is None or inputs != [("images", "tensor(uint8)")]:
            raise BadModel(f"has the outputs {', '.join(self._outputs)} (want "
                           f"{' or '.join(', '.join(names) for names in OUTPUTS.values())}); hint: "
                           "convert without --no-postprocess")
        height, width = self._session.get_inputs()[0].shape[2:]
        fixed = isinstance(height, int) and isinstance(width, int)
        self.size = (height, width) if fixed else None  # size of every image; None: any
        try:
            header = json.loads(self._session.get_modelmeta().custom_metadata_map["retina.json"])
            self.names = [str(category["name"]) for category in header["categories"]]
            self.ids = [int(category["id"]) for category in header["categories"]]
        except (KeyError, TypeError, ValueError):
            raise BadModel("its metadata retina.json does not name the classes") from None

    def run(self, images, height, width):
        """Runs the model. `images`: planes, uint8 [3, height, width] each, removed from the list as they
        are used. Returns for each (boxes [n][4], scores [n], labels [n]), or (probabilities [K],)."""
        import numpy

        count, shape = len(images), (3, height, width)
        if count == 1:
            batch = numpy.frombuffer(images.pop(), numpy.uint8).reshape(1, *shape)
        else:
            batch = numpy.empty((count, *shape), numpy.uint8)
            while images:
                batch[len(images) - 1] = numpy.frombuffer(images.pop(), numpy.uint8).reshape(shape)
        results = dict(zip(self._outputs, self._session.run(None, {"images": batch})))
        if self.kind == "classifier":
            return [(row.tolist(),) for row in results["probabilities"]]
        found = []
        for place, kept in enumerate(results["counts"].tolist()):
            labels = results["labels"][place, :kept].tolist()
            if any(not 0 <= label < len(self.names) for label in labels):
                raise ValueError(f"a label outside 0 to {len(self.names) - 1}")
            found.append((results["boxes"][place, :kept].tolist(),
                          results["scores"][place, :kept].tolist(), labels))
        return found


def first_line(error):
    return str(error).strip().split("\n")[0] or type(error).__name__
