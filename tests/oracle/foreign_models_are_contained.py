"""Models that the server's check refuses, run by ONNX Runtime because the environment trusts them: one that
never ends or wants too much memory costs its request, and the next one is answered.

usage: foreign_models_are_contained.py BUILD_DIR
"""
import asyncio
import io
import json
import os
import pathlib
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jobs/serving"))
sys.dont_write_bytecode = True
import model_process  # noqa: E402
import request  # noqa: E402

WRONG = 200  # red of the image that a model misbehaves on
LIMITS = request.Limits(max_image_seconds=5, max_model_bytes=1 << 30)


def constant(name, *numbers, dtype=numpy.int64, shape=None):
    return numpy_helper.from_array(numpy.array(numbers, dtype).reshape(shape or len(numbers)), name)


def endless(red):
    """A loop whose condition holds while the image is red, and its result."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["goes_on"], ["goes_on_still"]),
         helper.make_node("Add", ["sum", "sum"], ["more"])], "body",
        [helper.make_tensor_value_info("step", TensorProto.INT64, []),
         helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("goes_on_still", TensorProto.BOOL, []),
         helper.make_tensor_value_info("more", TensorProto.FLOAT, None)])
    return ([helper.make_node("Squeeze", [red], ["is_red"]),
             helper.make_node("Loop", ["", "is_red", "none"], ["result"], body=body)], [])


def huge(red):
    """A tensor of 400 GB where the image is red, of nothing otherwise; its sum."""
    return ([helper.make_node("Cast", [red], ["one"], to=TensorProto.INT64),
             helper.make_node("Mul", ["one", "elements"], ["size"]),
             helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
             helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
             helper.make_node("Add", ["none", "sum"], ["result"])],
            [constant("elements", 100_000_000_000)])


def write(path, misbehaves):
    """A detector of one box, whose coordinates are what `misbehaves` makes of the first pixel."""
    red = [helper.make_node("Slice", ["images", "zeros4", "ones4"], ["pixel"]),
           helper.make_node("Cast", ["pixel"], ["value"], to=TensorProto.INT32),
           helper.make_node("Reshape", ["value", "single"], ["number"]),
           helper.make_node("Greater", ["number", "most"], ["red"])]
    nodes, constants = misbehaves("red")
    made = [helper.make_node("Identity", [source], [target]) for source, target in (
        ("result", "boxes"), ("score", "scores"), ("label", "labels"), ("count", "counts"))]
    graph = helper.make_graph(
        red + nodes + made, "foreign",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["N", 1, 4]),
         helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 1]),
         helper.make_tensor_value_info("labels", TensorProto.INT64, ["N", 1]),
         helper.make_tensor_value_info("counts", TensorProto.INT64, ["N"])],
        [*constants, constant("zeros4", 0, 0, 0, 0), constant("ones4", 1, 1, 1, 1),
         constant("single", 1), constant("most", WRONG // 2, dtype=numpy.int32),
         constant("none", 0, 0, 0, 0, dtype=numpy.float32, shape=(1, 1, 4)),
         constant("score", 1, dtype=numpy.float32, shape=(1, 1)), constant("label", 0, shape=(1, 1)),
         constant("count", 1)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"retina.json": json.dumps({"categories": [{"id": 7, "name": "x"}]})})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def jpeg(red):
    file = io.BytesIO()
    Image.new("RGB", (64, 48), (red, 0, 0)).save(file, "JPEG")
    return file.getvalue()


async def contained(path, status, words):
    try:
        await model_process.ModelProcess(path, False, LIMITS).start()
    except model_process.ModelRefused as refused:
        assert "RETINA_TRUST_MODELS=1" in str(refused), refused
    else:
        raise AssertionError(f"{path.name}: taken without trust")
    model = model_process.ModelProcess(path, True, LIMITS)
    assert (await model.start())["warning"]
    try:
        for _ in range(2):
            outputs, _ = await model.ask([jpeg(0)])
            assert outputs[-1] == {"name": "counts", "datatype": "INT64", "shape": [1], "data": [1]}
            try:
                await model.ask([jpeg(WRONG)])
            except request.Refused as refused:
                assert refused.status == status and words in str(refused), refused
            else:
                raise AssertionError(f"{path.name}: harms nobody")
    finally:
        await model.stop()
    print(f"{path.stem}: {words}; answered before and after")


def main(build):
    os.environ.setdefault("RETINA_ONNX_GUARD", str(build / "lib/libretina_onnx_guard.so"))
    with tempfile.TemporaryDirectory() as name:
        for misbehaves, words in ((endless, "took longer than 5 seconds"), (huge, "bad_alloc")):
            path = pathlib.Path(name) / f"{misbehaves.__name__}.onnx"
            write(path, misbehaves)
            asyncio.run(contained(path, request.FAILED, words))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
