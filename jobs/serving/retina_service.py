"""What the runtimes for MLServer have in common (retina_detector.py, retina_classifier.py): JPEGs in,
within limits, through a checked model one at a time; outputs by name.
"""
import asyncio
import contextlib
import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor

import grpc
import mlserver.rest.app
import mlserver.rest.errors
import mlserver.rest.requests
import prometheus_client
import torch
from fastapi import HTTPException
from mlserver import MLModel
from mlserver.errors import MLServerError
from mlserver.grpc.utils import STATUS_CODE_MAPPING, logger
from mlserver.types import Datatype, InferenceRequest, InferenceResponse, Parameters
from mlserver.utils import get_model_uri

import checked_model
import connections
from admission import ADMISSION_OF_MODEL, BUSY, Admission, admission_of
from pictures import BAD, TOO_LARGE, Limits, Refused, Tensor, decoded, jpegs_of

# Not by mlserver.register: without parallel workers MLServer does not show what that registers.
MODEL_SECONDS = prometheus_client.Histogram(
    "retina_model_seconds", "The model's time for a picture, without decoding and waiting",
    ["model", "version"], buckets=(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
REFUSED = prometheus_client.Counter(
    "retina_refused", "Requests that were refused, by HTTP's status over gRPC too",
    ["model", "status"])


class RefusedRequest(MLServerError, HTTPException):
    """Of an error in a body that is no HTTPException, FastAPI would make status 400."""

    def __init__(self, refused):
        HTTPException.__init__(self, refused.status, str(refused))

    def __str__(self):
        return self.detail


@contextlib.contextmanager
def refusals(model):
    try:
        yield
    except Refused as refused:
        REFUSED.labels(model, refused.status).inc()
        raise RefusedRequest(refused) from None


class BoundedRequest(mlserver.rest.requests.Request):
    """MLServer's, for every path; one without a body is always answered."""

    async def body(self):
        if not hasattr(self, "_body"):
            admission = admission_of(self.path_params.get("model_name"))
            with refusals(admission.model):
                self.scope["body_arrives"] = True
                self._body = await admission.body(self.headers, self.stream())
                self.scope["body_arrives"] = False
        return self._body


class ErrorResponse(mlserver.rest.errors.Response):
    """A place comes free with each answer: soon."""

    def __init__(self, content, status_code):
        headers = {"Retry-After": "1"} if status_code == BUSY else None
        super().__init__(content, status_code, headers)

    async def __call__(self, scope, receive, send):
        if scope.get("body_arrives"):
            send = connections.lingering(receive, send)
        await super().__call__(scope, receive, send)


mlserver.rest.app.Request = BoundedRequest
mlserver.rest.errors.Response = ErrorResponse
STATUS_CODE_MAPPING.setdefault(TOO_LARGE, grpc.StatusCode.RESOURCE_EXHAUSTED)
STATUS_CODE_MAPPING.setdefault(BUSY, grpc.StatusCode.UNAVAILABLE)
# Over gRPC MLServer would log a traceback for each.
logger.addFilter(lambda record: not isinstance(record.msg, RefusedRequest))


def tensors_of(request):
    return [Tensor(tensor.name, Datatype(tensor.datatype).value, tensor.shape, tensor.data.root)
            for tensor in request.inputs]


class RetinaService(MLModel):
    """A runtime says what it makes of one picture's pixels and of all pictures' results."""

    # Whether its models are detectors: those have a score_threshold.
    DETECTS = None

    def __init__(self, settings):
        super().__init__(settings)
        limits = Limits.of_settings(settings.parameters.extra)
        self._admission = Admission(limits, settings.name)
        # Requests in the order of their arrival, each with one decoded picture in memory: the next is
        # decoded while the model has one.
        self._workers = ThreadPoolExecutor(2)
        # A thread of its own: each thread that computes would bring OpenMP's on every core.
        self._model_thread = ThreadPoolExecutor(1)
        ADMISSION_OF_MODEL[settings.name] = self._admission

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
        self._seconds = MODEL_SECONDS.labels(self.name, self.version)
        return True

    async def metadata(self):
        metadata = await super().metadata()
        metadata.parameters = Parameters(**dataclasses.asdict(self._admission.limits))
        return metadata

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        # In a thread: the server goes on answering, health checks above all.
        with refusals(self.name), self._admission.place():
            outputs = await asyncio.get_running_loop().run_in_executor(
                self._workers, self._outputs, payload)
        return InferenceResponse(id=payload.id, model_name=self.name, model_version=self.version,
                                 outputs=outputs)

    def _outputs(self, request):
        # Pictures of unequal sizes cannot share a batch, and of a batch of equal ones each would
        # wait for all.
        results = []
        for jpeg in jpegs_of(tensors_of(request), self._admission.limits):
            results.append(self._model_thread.submit(
                self._result, jpeg.height, jpeg.width, decoded(jpeg)).result())
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
