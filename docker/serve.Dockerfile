# What serves the converted model, apart from the training image: MLServer with PyTorch.
#
#   docker build --tag retina-serve --file docker/serve.Dockerfile jobs/serving
#
# It brings its own CUDA libraries (the wheels', about 4 GB) and runs on the CPU where there is no GPU.
ARG BASE=python:3.12.11-slim-bookworm
FROM ${BASE}
COPY requirements.txt /opt/retina/
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes \
        --requirement /opt/retina/requirements.txt \
    && groupadd --gid 10001 retina \
    && useradd --uid 10001 --gid 10001 --create-home retina
COPY admission.py checked_model.py connections.py pictures.py retina_classifier.py retina_detector.py \
    retina_service.py /opt/retina/
ARG VERSION=0.0.0
ARG CREATED=
LABEL org.opencontainers.image.title="retina-serve" \
      org.opencontainers.image.description="Serves a model of retina-convert --repository" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.created="${CREATED}"
# Answers from one process, and no tracebacks to clients.
ENV PYTHONPATH=/opt/retina PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    MLSERVER_PARALLEL_WORKERS=0 MLSERVER_DEBUG=false \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# The server writes folders of its own where it starts.
WORKDIR /home/retina
# Requests, Prometheus.
EXPOSE 8080 8082
HEALTHCHECK NONE
USER 10001:10001
# Models are found anywhere below.
CMD ["mlserver", "start", "/models"]
