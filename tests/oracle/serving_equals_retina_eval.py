"""A real model server, asked over HTTP and gRPC, gives retina-eval's detections.

usage: serving_equals_retina_eval.py BUILD_DIR

`retina-convert --repository` writes the folder, MLServer with jobs/serving loads it on a free port of
this machine, every photograph is sent as a JPEG (some again in grey and in CMYK), and each detection
must be the one that retina-eval writes for the same file and model. Beside it the server has a
classifier, whose best classes must be those that the model itself gives. The folder's other half,
Triton's config, is parsed by Triton's own schema and held against what the model takes and returns.
"""
import base64
import json
import pathlib
import shutil
import sys
import tempfile

import numpy
import onnxruntime
import torch
import tritonclient.grpc
from google.protobuf import text_format
from PIL import Image
from torchvision.models import resnet18
from tritonclient.grpc import model_config_pb2

from inference_model_equals_torchvision import (CLASSES, MAX_DETECTIONS, PHOTOS, imported_checkpoint,
                                                pixels_of, run, threshold_between_scores,
                                                torchvision_model)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from model_server import ModelServer  # noqa: E402

NAME, CLASSIFIER = "coco_retinanet", "classifier"
BOX_PX, SCORE = 1e-2, 1e-4
ODD_PHOTOS = 4


# --- Comparing -----------------------------------------------------------------------------------
def differences(name, ours, theirs):
    """(problems, largest box difference, largest score difference) of two lists of detections:
    {"box": x1 y1 x2 y2, "score", "category_id", "name"}. Each must have its partner."""
    problems, box_px, score = [], 0.0, 0.0
    free = list(theirs)
    for one in ours:
        def distance(other):
            return max(abs(a - b) for a, b in zip(one["box"], other["box"]))
        near = [other for other in free
                if (other["category_id"], other["name"]) == (one["category_id"], one["name"])
                and distance(other) <= BOX_PX and abs(other["score"] - one["score"]) <= SCORE]
        if not near:
            problems.append(f"{name}: the server's alone: {one}")
            continue
        partner = min(near, key=distance)
        box_px = max(box_px, distance(partner))
        score = max(score, abs(partner["score"] - one["score"]))
        free.remove(partner)
    problems += [f"{name}: retina-eval's alone: {one}" for one in free]
    return problems, box_px, score


# --- The data and retina-eval's answer -----------------------------------------------------------
def fullest(model, threshold, images, instances):
    """The photographs on which the model finds most."""
    def count(image):
        return int((model([pixels_of(images, image) / 255])[0]["scores"] > threshold).sum())
    return sorted(instances["images"], key=count, reverse=True)[:ODD_PHOTOS]


def with_grey_and_cmyk(images, instances, sources, folder):
    """The photographs in a folder of their own, `sources` again as grey and as CMYK JPEGs."""
    folder.mkdir()
    for image in instances["images"]:
        shutil.copy(images / image["file_name"], folder)
    for number, source in enumerate(sources):
        for mode in ("L", "CMYK"):
            name = f"{mode}-{number}.jpg"
            Image.open(images / source["file_name"]).convert("RGB").convert(mode).save(folder / name)
            with Image.open(folder / name) as saved:
                assert saved.mode == mode
            new_id = 1000 + len(instances["images"])
            instances["images"].append(source | {"id": new_id, "file_name": name})
    return folder


def expected_detections(programs, folder, instances):
    """retina-eval's results of the converted model, by file name."""
    run(programs / "retina-eval", "--model", folder / "m.onnx", "--data", folder / "shards", "--output",
        folder / "evaluation", "--device", "cpu")
    names = {image["id"]: image["file_name"] for image in instances["images"]}
    expected = {name: [] for name in names.values()}
    for one in json.loads((folder / "evaluation/detections.json").read_text()):
        x, y, width, height = one["bbox"]
        expected[names[one["image_id"]]].append(
            {"box": [x, y, x + width, y + height], "score": one["score"],
             "category_id": one["category_id"], "name": f"class {one['category_id'] // 10 - 1}"})
    for kind in ("L-", "CMYK-"):
        assert any(found for name, found in expected.items() if name.startswith(kind)), kind
    return expected


# --- The server ----------------------------------------------------------------------------------
class Server(ModelServer):
    def infer(self, *texts, name="image", shape=None, model=NAME, **more):
        """(status, parsed answer) of elements that are texts already."""
        tensor = {"name": name, "datatype": "BYTES", "shape": shape or [len(texts)],
                  "data": list(texts)}
        status, text = self.get(f"/v2/models/{model}/infer",
                                json.dumps({"inputs": [tensor], **more}).encode())
        return status, json.loads(text)

    def outputs(self, *files, model=NAME):
        """The outputs by name for some JPEG files."""
        status, answer = self.infer(*(base64.b64encode(file).decode() for file in files),
                                    model=model)
        assert status == 200, answer
        return {output["name"]: output for output in answer["outputs"]}


def detections_of(outputs, number=0):
    """Those of one image of an answer."""
    tensors = {name: numpy.array(output["data"], dtype=object).reshape(output["shape"])
               for name, output in outputs.items()}
    return [{"box": list(tensors["boxes"][number][i]), "score": tensors["scores"][number][i],
             "category_id": tensors["category_ids"][number][i],
             "name": tensors["category_names"][number][i]}
            for i in range(tensors["counts"][number])]


# --- What must hold ------------------------------------------------------------------------------
def compare_every_photograph(server, photos, expected):
    count, worst_px, worst_score = 0, 0.0, 0.0
    for name, theirs in expected.items():
        ours = detections_of(server.outputs((photos / name).read_bytes()))
        problems, box_px, score = differences(name, ours, theirs)
        assert not problems, "\n".join(problems[:20])
        count, worst_px, worst_score = (count + len(ours), max(worst_px, box_px),
                                        max(worst_score, score))
    assert count >= 10 * PHOTOS, count
    print(f"MLServer over HTTP: all {count} detections on {len(expected)} JPEGs equal retina-eval's "
          f"within {worst_px:.2g} px and {worst_score:.2g} score")


def check_several_in_a_request(server, photos, expected):
    most = max(expected, key=lambda name: len(expected[name]))
    names = [next(iter(expected)), most, "L-0.jpg", "CMYK-1.jpg"]
    outputs = server.outputs(*((photos / name).read_bytes() for name in names))
    for number, name in enumerate(names):
        assert not differences(name, detections_of(outputs, number), expected[name])[0], name


def check_tiles(server, programs, folder, photo):
    """Asked for by a request's parameters: tests/jobs/tiles_test.py has the rest."""
    run(programs / "retina-eval", "--model", folder / "m.onnx", "--images", photo, "--output",
        folder / "tiled", "--device", "cpu", "--tile", "200,overlap=0.3")
    names = {10 * (label + 1): f"class {label}" for label in range(CLASSES)}
    expected = [{"box": [x, y, x + width, y + height], "score": one["score"],
                 "category_id": one["category_id"], "name": names[one["category_id"]]}
                for one in json.loads((folder / "tiled/detections.json").read_text())
                for x, y, width, height in [one["bbox"]]]
    status, answer = server.infer(base64.b64encode(photo.read_bytes()).decode(),
                                  parameters={"tile": 200, "tile_overlap": 0.3})
    assert status == 200, answer
    ours = detections_of({output["name"]: output for output in answer["outputs"]})
    problems, _, _ = differences(photo.name, ours, expected)
    assert ours and not problems, problems[:5]
    print(f"tiles: all {len(ours)} merged detections equal retina-eval's")


def check_raw_bytes_over_grpc(server, photos, expected):
    name = max(expected, key=lambda name: len(expected[name]))
    client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    image = tritonclient.grpc.InferInput("image", [1], "BYTES")
    image.set_data_from_numpy(numpy.array([(photos / name).read_bytes()], dtype=object))
    answer = client.infer(NAME, [image])
    client.close()
    count = int(answer.as_numpy("counts")[0])
    ours = [{"box": box.tolist(), "score": float(score), "category_id": int(category),
             "name": label.decode()}
            for box, score, category, label in zip(
                *(answer.as_numpy(key)[0][:count]
                  for key in ("boxes", "scores", "category_ids", "category_names")))]
    problems, _, _ = differences(name, ours, expected[name])
    assert ours and not problems, problems[:5]
    print(f"gRPC with raw bytes: the same {count} detections")


class Model:
    """A model of the repository, as ONNX Runtime has it."""

    def __init__(self, repository, name):
        self.session = onnxruntime.InferenceSession(repository / name / "1/model.onnx",
                                                    providers=["CPUExecutionProvider"])
        header = json.loads(self.session.get_modelmeta().custom_metadata_map["retina.json"])
        self.names = [category["name"] for category in header["categories"]]
        self.ids = [category["id"] for category in header["categories"]]

    def __call__(self, images):
        return self.session.run(None, {"images": images.numpy()})


def check_classes(server, repository, photos, names):
    """Several images in a request: their best classes are those of the model."""
    model = Model(repository, CLASSIFIER)
    outputs = server.outputs(*((photos / name).read_bytes() for name in names), model=CLASSIFIER)
    tensors = {name: numpy.array(output["data"], dtype=object).reshape(output["shape"])
               for name, output in outputs.items()}
    for number, name in enumerate(names):
        pixels = pixels_of(photos, {"file_name": name})
        probabilities = torch.from_numpy(model(pixels[None])[0][0])
        scores, labels = probabilities.topk(tensors["labels"].shape[1])
        assert tensors["labels"][number].tolist() == labels.tolist(), name
        assert numpy.abs(tensors["scores"][number].astype(float) - scores.numpy()).max() < 1e-6, name
        assert tensors["category_names"][number].tolist() == [
            model.names[label] for label in labels], name
        assert tensors["category_ids"][number].tolist() == [
            model.ids[label] for label in labels], name
    assert len({row[0] for row in tensors["labels"].tolist()}) > 1, "always the same class"
    print(f"a classifier: the best {len(labels)} classes of {len(names)} JPEGs are the model's")


def check_schema(server, repository, photo, model=NAME):
    """The metadata is what the folder declares, and the answers keep to it."""
    settings = json.loads((repository / model / "model-settings.json").read_text())
    status, text = server.get(f"/v2/models/{model}")
    metadata = json.loads(text)
    assert status == 200 and metadata["name"] == model and metadata["versions"] == ["1"], text
    for key in ("inputs", "outputs"):
        declared = [tensor | {"parameters": tensor.get("parameters", {})} for tensor in settings[key]]
        served = [tensor | {"parameters": tensor.get("parameters", {})} for tensor in metadata[key]]
        assert served == declared, served
    outputs = server.outputs(photo, model=model)
    assert list(outputs) == [tensor["name"] for tensor in metadata["outputs"]], list(outputs)
    for tensor in metadata["outputs"]:
        output = outputs[tensor["name"]]
        assert output["datatype"] == tensor["datatype"], output["name"]
        assert len(output["shape"]) == len(tensor["shape"]), output["shape"]
        assert all(want in (-1, got) for got, want in zip(output["shape"], tensor["shape"]))
        assert len(output["data"]) == numpy.prod(output["shape"]), output["name"]

    status, text = server.get(f"/v2/models/{model}/docs/dataplane.json")
    openapi = json.loads(text)
    assert status == 200 and openapi["openapi"].startswith("3."), text
    assert "post" in openapi["paths"][f"/v2/models/{model}/infer"], list(openapi["paths"])
    status, page = server.get(f"/v2/models/{model}/docs")
    assert status == 200 and f"/v2/models/{model}/docs/dataplane.json" in page
    assert server.get("/v2/health/live")[0] == server.get("/v2/health/ready")[0] == 200
    assert server.get("/v2/models/another/ready")[0] == 404
    print(f"schema and OpenAPI page of {model}: served, and the answers keep to them")


def check_triton_configs(repository, pixels, name=NAME):
    """Triton's schema takes it, and it describes what the model takes and returns."""
    text = (repository / name / "config.pbtxt").read_text()
    try:
        text_format.Parse(text.replace("max_batch_size", "max_batch_sise"), model_config_pb2.ModelConfig())
    except text_format.ParseError:
        pass
    else:
        raise AssertionError("a typo passed")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert (config.name, config.backend, config.platform) == (name, "onnxruntime", "onnxruntime_onnx")
    check_tensors(config, Model(repository, name), pixels)
    # What the hint in config.pbtxt says is there, too.
    text = text.replace("# optimization", "optimization")
    [accelerator] = text_format.Parse(text, model_config_pb2.ModelConfig(
        )).optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "tensorrt"
    print(f"Triton's config of {name}: parsed by its schema; it fits the model")


def check_tensors(config, model, pixels):
    [image] = config.input
    assert (image.name, image.data_type, list(image.dims)) == (
        "images", model_config_pb2.TYPE_UINT8, [3, -1, -1])
    batch = torch.stack([pixels] * config.max_batch_size)
    outputs = dict(zip((output.name for output in model.session.get_outputs()), model(batch)))
    assert [tensor.name for tensor in config.output] == list(outputs)
    types = {model_config_pb2.TYPE_FP32: numpy.float32, model_config_pb2.TYPE_INT64: numpy.int64}
    for declared in config.output:
        # Every tensor begins with the batch; `reshape` is what the model has where clients get dims.
        dims = declared.reshape.shape if declared.HasField("reshape") else declared.dims
        assert list(outputs[declared.name].shape) == [len(batch), *dims], declared
        assert outputs[declared.name].dtype == types[declared.data_type], declared
    assert config.name != NAME or MAX_DETECTIONS in config.output[1].dims


def check_labels(repository, name):
    labels = (repository / name / "labels.txt").read_text().splitlines()
    assert labels == Model(repository, name).names == [f"class {label}" for label in range(CLASSES)]


def serve_a_classifier(programs, folder, repository, images):
    """torchvision's ResNet-18 with random weights whose scores depend on the image."""
    torch.manual_seed(5)
    model = resnet18(num_classes=CLASSES).eval()
    batch = torch.stack([torch.nn.functional.interpolate(pixels[None] / 255, size=(64, 64))[0]
                         for pixels in images])
    model.fc.weight.mul_(2 / model(batch).std(0).mean())
    model.fc.bias.sub_(model(batch).mean(0))
    torch.save(model.state_dict(), folder / "classifier.pth")
    (folder / "names.txt").write_text("".join(f"class {label}\n" for label in range(CLASSES)))
    run(programs / "retina-convert", "--import", folder / "classifier.pth", "--task", "classify",
        "--categories", folder / "names.txt", "--min-side", "64", "--max-side", "73", "--output",
        folder / "classifier-c.pt")
    run(programs / "retina-convert", "--checkpoint", folder / "classifier-c.pt", "--output",
        folder / "classifier.onnx", "--verification-images", "1", "--repository", repository)


def check_requirements():
    """What is tested here is what jobs/serving pins."""
    served, tested = ([line for path in paths for line in (ROOT / path).read_text().split("\n")]
                      for paths in (("jobs/serving/requirements-server.txt",
                                     "jobs/serving/requirements.txt"),
                                    ["tests/oracle/requirements.txt"]))
    missing = [line for line in served if line and not line.startswith(("#", "--"))
               and line.removesuffix(" \\") not in {other.removesuffix(" \\") for other in tested}]
    assert not missing, f"in jobs/serving/requirements*.txt alone: {missing}"


@torch.no_grad()
def compare():
    programs = pathlib.Path(sys.argv[1]).resolve() / "bin"
    check_requirements()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checkpoint, images, instances = imported_checkpoint(programs, folder)
        reference = torchvision_model(checkpoint)
        threshold = threshold_between_scores(
            reference, [pixels_of(images, image) for image in instances["images"]], rank=100)
        first = pixels_of(images, instances["images"][0])
        photos = with_grey_and_cmyk(images, instances, fullest(reference, threshold, images, instances),
                                    folder / "photos")
        (folder / "served.json").write_text(json.dumps(instances))
        run(programs / "coco-pack", "--annotations", folder / "served.json", "--images", photos,
            "--output", folder / "shards")
        repository = folder / "repository"
        run(programs / "retina-convert", "--checkpoint", checkpoint, "--output", folder / "m.onnx",
            "--score-threshold", repr(threshold), "--verification-images", "1", "--repository", repository,
            "--service-name", NAME)
        expected = expected_detections(programs, folder, instances)
        serve_a_classifier(programs, folder, repository,
                           [pixels_of(images, image) for image in instances["images"][:PHOTOS]])
        for name in (NAME, CLASSIFIER):
            check_triton_configs(repository, first, name)
            check_labels(repository, name)
        photo = (photos / instances["images"][0]["file_name"]).read_bytes()
        with Server(repository, folder, (NAME, CLASSIFIER)) as server:
            check_schema(server, repository, photo)
            check_schema(server, repository, photo, CLASSIFIER)
            check_classes(server, repository, photos,
                          [image["file_name"] for image in instances["images"][:8]] + ["L-0.jpg"])
            compare_every_photograph(server, photos, expected)
            check_several_in_a_request(server, photos, expected)
            check_tiles(server, programs, folder, photos / instances["images"][0]["file_name"])
            check_raw_bytes_over_grpc(server, photos, expected)
            assert server.process.poll() is None


if __name__ == "__main__":
    compare()
