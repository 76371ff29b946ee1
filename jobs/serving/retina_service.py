"""The runtime that MLServer loads for a model of `retina-convert --repository`: takes JPEGs, within
limits, and returns detections or classes. README.md says how to start it; model-settings.json holds
the schema, model_program.py does the work.
"""
import asyncio
import contextlib
import dataclasses
import os
import re

import grpc
import mlserver.raw
import mlserver.rest.app
import mlserver.rest.errors
import mlserver.rest.requests
import prometheus_client
from fastapi import HTTPException
from mlserver import MLModel
from mlserver.cloudevents import CloudEventsMiddleware
from mlserver.errors import MLServerError
from mlserver.grpc.converters import ModelInferRequestConverter
from mlserver.grpc.utils import STATUS_CODE_MAPPING
from mlserver.grpc.utils import logger as grpc_logger
from mlserver.handlers import DataPlane
from mlserver.logging import logger
from mlserver.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput
from mlserver.utils import get_model_uri

import connections
from admission import ADMISSION_OF_MODEL, Admission, admission_of
from model_process import ModelProcess, ModelRefused
from request import (BUSY, TOO_LARGE, Limits, Refused, Tensor, check_values, elements_of, outputs_of,
                     tiling_of)

# Not registered by mlserver.register: without parallel workers MLServer does not show such metrics.
MODEL_SECONDS = prometheus_client.Histogram(
    "retina_model_seconds", "The model's time for an image or tile, without decoding and waiting",
    ["model", "version"], buckets=(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
REFUSED = prometheus_client.Counter(
    "retina_refused", "Requests that were refused, by HTTP's status over gRPC too",
    ["model", "status"])


class RefusedRequest(MLServerError, HTTPException):
    """A refused request. FastAPI turns an error in a body into status 400 unless it is an HTTPException."""

    def __init__(self, refused):
        HTTPException.__init__(self, refused.status, str(refused))

    def __str__(self):
        return self.detail


class RefusedModel(MLServerError):
    def __init__(self, path, refused):
        super().__init__(f"{path}: {refused}", 422)


def count(model, refused):
    REFUSED.labels(model, refused.status).inc()


@contextlib.contextmanager
def refusals(model):
    try:
        yield
    except Refused as refused:
        count(model, refused)
        raise RefusedRequest(refused) from None


class BoundedRequest(mlserver.rest.requests.Request):
    """MLServer's request, for every path, with a bounded body; one without a body is always answered."""

    async def body(self):
        if not hasattr(self, "_body"):
            admission = admission_of(self.path_params.get("model_name"))
            with refusals(admission.model):
                self.scope["body_arrives"] = True
                self._body = await admission.body(self.headers, self.stream())
                self.scope["body_arrives"] = False
        return self._body


class ErrorResponse(mlserver.rest.errors.Response):
    """MLServer's error response, with Retry-After for a full server: each answer frees a place."""

    def __init__(self, content, status_code):
        headers = {"Retry-After": "1"} if status_code == BUSY else None
        super().__init__(content, status_code, headers)

    async def __call__(self, scope, receive, send):
        if scope.get("body_arrives"):
            send = connections.lingering(receive, send)
        await super().__call__(scope, receive, send)


def in_one_line(record):
    """Shortens the log: MLServer writes a traceback for a refused request over gRPC, and for a refused
    model."""
    if isinstance(record.msg, RefusedRequest):
        return False
    if record.exc_info and isinstance(record.exc_info[1], RefusedModel):
        record.msg, record.args, record.exc_info = str(record.exc_info[1]), None, None
    return True


def checked_request(request):
    """Converts a request over gRPC; counts its values before MLServer makes objects of them."""
    asked = admission_of(request.model_name)
    with refusals(asked.model):
        check_values(sum(map(len, (request.inputs, request.outputs, request.parameters,
                                   request.raw_input_contents))), asked.limits)
        check_values(sum(len(part.parameters) for part in (*request.inputs, *request.outputs))
                     + sum(len(values) for tensor in request.inputs
                           for values in (tensor.shape, *dict(tensor.contents.ListFields()).values())),
                     asked.limits)
    return TO_TYPES(request)


def unpacked(tensor, raw):
    """Returns the elements of a tensor in raw_input_contents, no more than a request may have."""
    elements, at = [], 0
    while tensor.datatype == "BYTES" and at < len(raw) and len(elements) < Limits.max_values:
        begin = at + 4
        at = begin + int.from_bytes(raw[at:begin], "little")
        elements.append(raw[begin:at])
    return elements


def headers_of(events, kind, settings, request_id):
    """Returns MLServer's headers of an answer, with the request's id only where a header can hold it; the
    body has it in any case."""
    fits = re.fullmatch("[!-~]{1,200}", request_id or "")
    return GET_HEADERS(events, kind, settings, fits and request_id)


@contextlib.asynccontextmanager
async def measured(plane, name, version=None):
    """Wraps MLServer's metrics of a request, for existing models only: it would keep any name for ever."""
    await plane._model_registry.get_model(name, version)
    async with MEASURED(plane, name, version) as model:
        yield model


TO_TYPES, GET_HEADERS, MEASURED = (ModelInferRequestConverter.to_types,
                                   CloudEventsMiddleware._get_headers, DataPlane._infer_contextmanager)
ModelInferRequestConverter.to_types = checked_request
CloudEventsMiddleware._get_headers = headers_of
DataPlane._infer_contextmanager = measured
mlserver.raw.unpack = unpacked
mlserver.rest.app.Request = BoundedRequest
mlserver.rest.errors.Response = ErrorResponse
connections.guard(count)
STATUS_CODE_MAPPING.setdefault(TOO_LARGE, grpc.StatusCode.RESOURCE_EXHAUSTED)
STATUS_CODE_MAPPING.setdefault(BUSY, grpc.StatusCode.UNAVAILABLE)
for one in (grpc_logger, logger):
    one.addFilter(in_one_line)


class RetinaService(MLModel):
    def __init__(self, settings):
        super().__init__(settings)
        limits = Limits.of_settings(settings.parameters.extra)
        self._admission = Admission(limits, settings.name)
        ADMISSION_OF_MODEL[settings.name] = self._admission

    async def load(self) -> bool:
        path = await get_model_uri(self.settings, wellknown_filenames=["1/model.onnx", "model.onnx"])
        # Not a key of model-settings.json, which has the same source as the model.
        is_trusted = os.environ.get("RETINA_TRUST_MODELS") == "1"
        self._model = ModelProcess(path, is_trusted, self._admission.limits)
        try:
            found = await self._model.start()
            if found["outputs"] != [output.name for output in self.settings.outputs]:
                await self._model.stop()
                raise ModelRefused(f"is a {found['kind']}, and model-settings.json is not for one; "
                                   "hint: serve the folder that retina-convert --repository wrote")
        except ModelRefused as refused:
            raise RefusedModel(path, refused) from None
        if found["warning"]:
            logger.warning(f"{path}: {found['warning']}")
        logger.info(f"{path}: a {found['kind']}, run by {found['provider']}")
        self._output_names = found["outputs"]
        self._seconds = MODEL_SECONDS.labels(self.name, self.version)
        return True

    async def unload(self) -> bool:
        await self._model.stop()
        return True

    async def metadata(self):
        metadata = await super().metadata()
        metadata.parameters = Parameters(**dataclasses.asdict(self._admission.limits))
        return metadata

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        # A client that hangs up over gRPC cancels this, although the model still has the request.
        return await asyncio.shield(asyncio.ensure_future(self._predict(payload)))

    async def _predict(self, request):
        with refusals(self.name), self._admission.place():
            elements = elements_of(
                [Tensor(tensor.name, getattr(tensor.datatype, "value", tensor.datatype), tensor.shape,
                        tensor.data.root)
                 for tensor in request.inputs], self._admission.limits)
            wanted = outputs_of([output.name for output in request.outputs or ()],
                                self._output_names)
            tiling = tiling_of(*(getattr(request.parameters, name, None)
                                 for name in ("tile", "tile_overlap")))
            outputs, seconds = await self._model.ask(elements, tiling)
        for one in seconds:
            self._seconds.observe(one)
        by_name = {output["name"]: output for output in outputs}
        for output in outputs:
            if output["datatype"] == "BYTES":  # gRPC takes bytes, not text
                output["data"] = [text.encode() for text in output["data"]]
        return InferenceResponse(
            id=request.id, model_name=self.name, model_version=self.version,
            outputs=[ResponseOutput(**by_name[name]) for name in wanted])
