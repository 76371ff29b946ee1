# What serves the converted model, apart from the training image: MLServer with ONNX Runtime.
#
#   docker build --tag retina-serve --file docker/serve.Dockerfile .
#   docker build --tag retina-serve-gpu --build-arg GPU=1 --file docker/serve.Dockerfile .
#
# The build stage makes the check of model files and the decoder, which are C++; the final one has those,
# Python and wheels.
# Both bases can be replaced by others of Debian 12.
ARG BUILD_BASE=debian:12.11-slim@sha256:b1a741487078b369e78119849663d7f1a5341ef2768798f7b7406c4240f86aef
ARG BASE=python:3.12.11-slim-bookworm@sha256:519591d6871b7bc437060736b9f7456b8731f1499a57e22e6c285135ae657bf7

FROM ${BUILD_BASE} AS build
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /src
# The set-up's layer lasts until the packages change.
RUN apt-get update && apt-get install -y --no-install-recommends make patchelf \
    && rm -rf /var/lib/apt/lists/*
COPY Makefile ./
RUN make packages && rm -rf /var/lib/apt/lists/*
COPY CMakeLists.txt ./
COPY shared/ shared/
COPY preprocess/ preprocess/
COPY train/ train/
COPY convert/ convert/
COPY evaluate/ evaluate/
RUN cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=NOTICE \
        -DRETINA_WITH_TORCH=OFF -DRETINA_BUILD_TESTS=OFF \
    && cmake --build build --target retina_onnx_guard \
    && cmake --install build --prefix /out --component guard

FROM ${BASE}
ARG GPU=0
COPY jobs/serving/requirements*.txt /opt/retina/
RUN if [ "${GPU}" = 1 ]; then wheels=requirements-gpu.txt; else wheels=requirements.txt; fi \
    && pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes \
        --requirement "/opt/retina/${wheels}" \
    && groupadd --gid 10001 retina \
    && useradd --uid 10001 --gid 10001 --create-home retina
COPY --from=build /out/lib/retina-batch/ /opt/retina/
COPY --from=build /out/share/ /usr/local/share/
COPY jobs/serving/*.py /opt/retina/
ARG VERSION=0.0.0
ARG CREATED=
# The licences of the check and its libraries: SOURCES.txt below /usr/local/share has each. Python's wheels and
# the distribution's packages bring their own.
LABEL org.opencontainers.image.title="retina-serve" \
      org.opencontainers.image.description="Serves a model of retina-convert --repository" \
      org.opencontainers.image.licenses="(BSD-3-Clause OR GPL-2.0-only) AND Apache-2.0 AND BSD-3-Clause AND IJG AND LicenseRef-Public-Domain AND MIT AND Zlib AND libpng-2.0 AND libtiff" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.created="${CREATED}"
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# The server writes folders of its own where it starts.
WORKDIR /home/retina
# Requests, Prometheus.
EXPOSE 8080 8082
HEALTHCHECK NONE
USER 10001:10001
# Models are found anywhere below.
CMD ["python", "/opt/retina/serve.py", "/models"]
