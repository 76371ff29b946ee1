"""What the runtimes for MLServer have in common (retina_detector.py, retina_classifier.py): JPEGs in,
within limits, through a checked model one at a time; outputs by name.
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
from mlserver.types import Datatype, InferenceRequest, InferenceResponse, Parameters
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


class RetinaService(MLModel):
    """A runtime says what it makes of one picture's pixels and of all pictures' results."""

    # Whether its models are detectors: those have a score_threshold.
    DETECTS = None

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
        if hasattr(self._model, "score_threshold") != self.DETECTS:
            kinds = ("a detector", "a classifier")
            raise ValueError(f"{path}: is {kinds[self.DETECTS]} (want {kinds[not self.DETECTS]}); "
                             "hint: serve the folder that retina-convert --repository wrote for it")
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
                results.append(self._result(jpeg.height, jpeg.width, decoded(jpeg)))
        outputs = self._tensors(results)
        if not request.outputs:
            return outputs
        by_name = {output.name: output for output in outputs}
        for wanted in request.outputs:
            if wanted.name not in by_name:
                raise Refused(BAD, f"outputs: no {wanted.name} (there are {', '.join(by_name)})")
        return [by_name[wanted.name] for wanted in request.outputs]

    def _pixels(self, height, width, planes):
        """[1, 3, H, W] on the model's device."""
        pixels = torch.frombuffer(planes, dtype=torch.uint8).view(1, 3, height, width)
        return pixels.to(self._device)

    def _result(self, height, width, planes):
        """What the model finds on one picture, as lists."""
        raise NotImplementedError

    def _tensors(self, results):
        """The outputs for the pictures of a request."""
        raise NotImplementedError
