"""The runtime that MLServer loads for a model of `retina-convert --repository`: JPEGs in, what is seen
on them out. Beside README.md, which says how to start it; model-settings.json holds the schema.
"""
import asyncio
import contextlib
import dataclasses
import os
import threading

import grpc
import mlserver.rest.app
import mlserver.rest.requests
import torch
from mlserver import MLModel
from mlserver.errors import MLServerError
from mlserver.grpc.utils import STATUS_CODE_MAPPING
from mlserver.types import (Datatype, InferenceRequest, InferenceResponse, Parameters,
                            ResponseOutput)
from mlserver.utils import get_model_uri

import checked_model
from pictures import (BAD, LIMITS_OF_MODEL, TOO_LARGE, Limits, Refused, Tensor, check_headers,
                      decoded, jpegs_of)


@contextlib.contextmanager
def refusals():
    try:
        yield
    except Refused as refused:
        raise MLServerError(str(refused), refused.status) from None


class BoundedRequest(mlserver.rest.requests.Request):
    """MLServer, which has no limit of its own, reads and parses a whole body before a model is
    asked: so a request for one of our models is judged by its headers first."""

    def __init__(self, scope, *channels):
        super().__init__(scope, *channels)
        limits = LIMITS_OF_MODEL.get(scope["path_params"].get("model_name"))
        if limits:
            with refusals():
                check_headers(self.headers, limits)


mlserver.rest.app.Request = BoundedRequest
STATUS_CODE_MAPPING.setdefault(TOO_LARGE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def tensors_of(request):
    return [Tensor(tensor.name, Datatype(tensor.datatype).value, tensor.shape, tensor.data.root)
            for tensor in request.inputs]


def padded(rows, fill, width):
    """Rows of unequal length as one list of equal ones."""
    return [item for row in rows for item in row + [fill] * (width - len(row))]


class RetinaDetector(MLModel):
    def __init__(self, settings):
        super().__init__(settings)
        self._limits = Limits.of_settings(settings.parameters.extra)
        # Two pictures are in memory, however many requests there are.
        self._room = threading.BoundedSemaphore(2)
        LIMITS_OF_MODEL[settings.name] = self._limits

    async def load(self) -> bool:
        path = await get_model_uri(self.settings, wellknown_filenames=["1/model.pt", "model.pt"])
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        # Not a key of model-settings.json, which comes from where the model does.
        trusted = os.environ.get("RETINA_TRUST_MODELS") == "1"
        self._model = checked_model.load(path, self._device, trusted)
        # One picture at a time has the device; others are decoded meanwhile.
        self._turn = threading.Lock()
        return True

    async def metadata(self):
        metadata = await super().metadata()
        metadata.parameters = Parameters(**dataclasses.asdict(self._limits))
        return metadata

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        # In a thread: the server goes on answering, health checks above all.
        with refusals():
            outputs = await asyncio.to_thread(self._outputs, payload)
        return InferenceResponse(id=payload.id, model_name=self.name, model_version=self.version,
                                 outputs=outputs)

    def _outputs(self, request):
        # Pictures of unequal sizes cannot share a batch, and of a batch of equal ones each would
        # wait for all.
        results = []
        for jpeg in jpegs_of(tensors_of(request), self._limits):
            with self._room:
                results.append(self._detect(jpeg.height, jpeg.width, decoded(jpeg)))
        outputs = self._tensors(results)
        if not request.outputs:
            return outputs
        by_name = {output.name: output for output in outputs}
        for wanted in request.outputs:
            if wanted.name not in by_name:
                raise Refused(BAD, f"outputs: no {wanted.name} (there are {', '.join(by_name)})")
        return [by_name[wanted.name] for wanted in request.outputs]

    @torch.inference_mode()
    def _detect(self, height, width, planes):
        """(boxes [n][4], scores [n], labels [n]) of one picture, as lists."""
        pixels = torch.frombuffer(planes, dtype=torch.uint8).view(1, 3, height, width)
        with self._turn:
            boxes, scores, labels, counts = self._model(pixels.to(self._device))
            count = int(counts[0])
            return tuple(tensor[0, :count].tolist() for tensor in (boxes, scores, labels))

    def _tensors(self, results):
        """N pictures, D the most detections on one: rows are padded with zeros and empty names."""
        pictures, most = len(results), max(len(scores) for _, scores, _ in results)
        names, ids = self._model.category_names, self._model.category_ids

        def output(name, datatype, rows, fill=0, tail=()):
            data = padded(rows, fill, most)
            if tail:
                data = [number for box in data for number in box]
            return ResponseOutput(name=name, datatype=datatype, shape=[pictures, most, *tail],
                                  data=data)

        labels = [row for _, _, row in results]
        return [
            output("boxes", "FP32", [row for row, _, _ in results], [0.0] * 4, (4,)),
            output("scores", "FP32", [row for _, row, _ in results], 0.0),
            output("labels", "INT64", labels),
            output("category_ids", "INT64", [[ids[label] for label in row] for row in labels]),
            output("category_names", "BYTES", [[names[label] for label in row] for row in labels],
                   ""),
            ResponseOutput(name="counts", datatype="INT64", shape=[pictures],
                           data=[len(row) for row in labels]),
        ]
