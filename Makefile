# The local pipeline: set-up, build, tests and the demo. `make` alone prints the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help packages deps build package tests check test test-all test-oracle demo demo-classify pipeline coco weights jobs docs image \
  image-test image-push shell clean

# --- What this machine has -----------------------------------------------------------------------
# The CUDA flavour needs the toolkit release that the wheels were built for.
NVCC := $(firstword $(shell command -v $(CUDACXX) 2>/dev/null) $(shell command -v nvcc 2>/dev/null) \
          $(wildcard /usr/local/cuda/bin/nvcc))
FOUND_FLAVOUR := $(if $(NVCC),$(if $(shell $(NVCC) --version | grep 'release 13\.'),cuda,cpu),cpu)
FLAVOUR ?= $(FOUND_FLAVOUR)
# One compiler job per core, as far as memory allows: a LibTorch source takes up to 2 GB.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ {n = int($$2 / 2e6); \
          print n < 1 ? 1 : n < cores ? n : cores}' /proc/meminfo)
# Tests of ranks, signals and lost nodes wait more than they compute.
TEST_JOBS ?= $(shell n=$(JOBS); echo $$((n < 8 ? 2 * n : n)))

# Clones of the same sources share compiled objects.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

DEPS := .deps/$(FLAVOUR)
# build/ is the flavour this machine would choose; the other one goes beside it.
BUILD ?= $(if $(filter $(FLAVOUR),$(FOUND_FLAVOUR)),build,build-$(FLAVOUR))
REQUIREMENTS := $(if $(filter cuda,$(FLAVOUR)),docker/requirements-cuda.txt,requirements.txt)
DOWNLOAD := $(if $(filter cuda,$(FLAVOUR)),3.3 GB,0.6 GB)
PROGRAMS := coco-pack retina-train retina-eval retina-convert

PACKAGES := python3 python3-venv g++ cmake ninja-build ccache pkg-config rapidjson-dev \
  libboost-program-options-dev liblmdb-dev libxxhash-dev libjpeg-dev libpng-dev libtiff-dev \
  libwebp-dev libcurl4-openssl-dev libutf8proc-dev libpugixml-dev libyaml-cpp-dev libonnx-dev \
  libprotobuf-dev protobuf-compiler libgoogle-perftools-dev libopenmpi-dev openmpi-bin \
  libgtest-dev libgmock-dev
FETCH_PACKAGES := curl ca-certificates unzip
NODE_PACKAGES := dumb-init openssh-server openssh-client iproute2
SITE_PACKAGES := mkdocs
PACKAGE_PACKAGES := patchelf python3-hatchling
TEST_PACKAGES := clang-format-14 $(FETCH_PACKAGES) $(NODE_PACKAGES) $(SITE_PACKAGES) $(PACKAGE_PACKAGES) slurmctld

# --- Options of the targets ----------------------------------------------------------------------
# Not an exported DATA of the pages.
OWN_DATA = $(if $(filter command,$(origin DATA)),$(DATA))
OUT ?= demo$(if $(OWN_DATA),/$(notdir $(abspath $(DATA))))
CLASSIFY_OUT = $(if $(filter file,$(origin OUT)),$(if $(OWN_DATA),$(OUT),demo/classify),$(OUT))
RANKS ?=
DATA ?=
PACK_OPTIONS ?=
WEIGHTS ?=
TRAIN_OPTIONS ?=
# An image is built from sources without tests and without .git.
TESTS ?= ON
REVISION ?=

help:
	@echo "make deps          install what is missing: apt packages, LibTorch into .deps/
	make build         deps + the four programs in build/bin/
	make package       build + a tar that runs where it is unpacked, and a Python wheel, in
	    ~              build/packages/
	make check         build + the quick tests: units, command lines, rules of the sources
	make test          build + the tests that a change must pass + the sanitizer build and its tests
	make test-all      the same + long series of faults, packages, ThreadSanitizer
	make test-oracle   build + comparison with torchvision, PyTorch, pycocotools (large download)
	make demo          build + the whole job on a small data set made on the spot: pack, train,
	    ~              evaluate, convert, evaluate the converted model
	make demo DATA=DIR          the same on your own folder of COCO, YOLO, Pascal VOC or CSV, with what
	    ~              suits it and this machine, in an hour on a CPU: TRAIN_OPTIONS='--for 20min'
	make demo-classify build + the same job with a classifier: Keras' CIFAR-10 network on images
	    ~              of ten shapes
	make demo-classify DATA=DIR the same on CIFAR-10's binary version or a folder for each class
	make pipeline DATA=DIR      retina-run DIR: the same, of any task, on all GPUs;
	    ~              OUT=DIR TRAIN_OPTIONS='--epochs 12 --init weights.pt'; RANKS=N instead of a
	    ~              rank for each GPU (1 without one); PACK_OPTIONS='--exif apply'
	make coco DATA=DIR          fetch COCO 2017 (20.4 GB; 41 GB free while it unpacks) into DIR; an
	    ~              interrupted call continues; KEEP_ZIPS=1 keeps the archives
	make weights DATA=DIR       fetch the weights that trainings start from (495 MB) and import them
	    ~              into DIR/weights: torchvision's COCO detectors and ImageNet backbones;
	    ~              WEIGHTS=coco-v2: that one alone; an interrupted call continues
	make jobs          make the job files from jobs/job.toml; IMAGE=NAME: the image to pull
	make docs          all pages as a site, build/site/index.html, by MkDocs
	make image         the CUDA image retina-batch:VERSION, by docker, podman or buildah;
	    ~              IMAGE_OPTIONS='--build-arg RUNTIME_BASE=...'
	make image-test    run the image: its programs, the demo, two nodes (as root)
	make image-push REGISTRY=HOST   push it and print the name that jobs/job.toml then takes
	make shell DATA=DIR             a shell in the image, DIR at /mnt/coco
	make clean         remove the build folders (.deps/ and demo/ stay)
	
	FLAVOUR=cpu|cuda   which LibTorch (here: $(FLAVOUR); cuda needs nvcc 13)
	JOBS=N             compiler jobs (here: $(JOBS))" | tr '~' ' '

# --- Set-up --------------------------------------------------------------------------------------
# $(call install_packages,LIST): installs those that are missing, with sudo when not root.
define install_packages
missing=""
if command -v dpkg-query >/dev/null; then
  for package in $(1); do
    dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing+=" $$package"
  done
else
  echo "This is not Debian or Ubuntu: the equivalents of these packages must be installed: $(1)"
fi
if [ -n "$$missing" ]; then
  echo "Installing with apt:$$missing"
  sudo=""
  if [ $$(id -u) != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || { echo "no sudo: run as root: apt-get install$$missing" >&2; exit 69; }
  fi
  $$sudo apt-get update -qq
  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -yqq \
    --no-install-recommends -o Dpkg::Use-Pty=0 $$missing >/dev/null
fi
endef

# $(call install_wheels,FOLDER,REQUIREMENTS,DOWNLOAD): a virtual environment with exactly these wheels.
define install_wheels
stamp="$$(sha256sum <$(2))"
if [ "$$(cat $(1)/.installed 2>/dev/null)" != "$$stamp" ]; then
  python=""
  for candidate in python3 python3.12 python3.11; do
    if $$candidate -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null
    then python=$$candidate; break; fi
  done
  [ -n "$$python" ] || { echo "Python 3.11 or 3.12 is required, as in Debian 12 and Ubuntu 24.04" >&2; exit 69; }
  echo "Installing the wheels of $(2) into $(1)/ (download about $(3)): $$(grep -o '^[a-z0-9_.-]*==[^ ]*' $(2) | tr '\n' ' ')"
  rm -rf $(1)
  $$python -m venv $(1)
  $(1)/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps \
    --only-binary :all: --require-hashes -r $(2)
  echo "$$stamp" >$(1)/.installed
fi
endef

packages:
	@$(call install_packages,$(PACKAGES))

deps: packages
	@$(call install_wheels,$(DEPS),$(REQUIREMENTS),$(DOWNLOAD))

# --- Build ---------------------------------------------------------------------------------------
define configure
cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=NOTICE \
  -DRETINA_SITE_PACKAGES="$$(echo $(CURDIR)/$(DEPS)/lib/python3*/site-packages)" \
  -DRETINA_BUILD_TESTS=$(TESTS) -DRETINA_REVISION=$(REVISION) \
  -DRETINA_WITH_CUDA=$(if $(filter cuda,$(FLAVOUR)),ON -DCMAKE_CUDA_COMPILER=$(NVCC),OFF)
endef

build: deps
	@$(configure)
	cmake --build $(BUILD) -j $(JOBS) --target $(PROGRAMS) retina_onnx_guard $(if $(filter ON,$(TESTS)),render_scenes render_classes)
	echo "Programs: $(BUILD)/bin/{$$(echo $(PROGRAMS) | tr ' ' ',')}"

# Also `cmake --install build --prefix DIR`: the tar's content.
package: build
	@$(call install_packages,$(PACKAGE_PACKAGES))
	docker/package.sh $(BUILD) $(BUILD)/packages

# --- Tests ---------------------------------------------------------------------------------------
# Threads that spin while they wait take the other tests' cores.
CTEST := OMP_WAIT_POLICY=passive ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error

tests: build
	@$(call install_packages,$(TEST_PACKAGES))
	$(call install_wheels,.deps/jobs,tests/jobs/requirements.txt,103 MB)
	cmake --build $(BUILD) -j $(JOBS)

check: tests
	@$(CTEST) --test-dir $(BUILD) -L 'unit|cli|checks|threads' -LE 'gpu|long'

# Suites that have passed whole with the sanitizers are not run again.
test: tests
	@echo "Sanitizers: what needs no LibTorch, with AddressSanitizer and UndefinedBehaviorSanitizer"
	cmake --preset asan --log-level=NOTICE
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -j $(TEST_JOBS) -LE 'mpi|long' | tee build-asan/passed.log
	# Open MPI leaks by itself: its tests run without the leak check.
	ASAN_OPTIONS=detect_leaks=0 ctest --preset asan -j $(TEST_JOBS) -L mpi -LE long
	echo "The other tests (those that need a GPU are left to tests/gpu/run.sh, the long ones to make test-all)"
	$(CTEST) --test-dir $(BUILD) -LE 'gpu|long' -E "$$(python3 tests/once.py $(BUILD) build-asan/passed.log)"

test-all: test
	@$(CTEST) --test-dir $(BUILD) -L long -LE gpu
	echo "ThreadSanitizer: ranks as threads of one process, the collective queue, the watch"
	cmake --preset tsan --log-level=NOTICE
	cmake --build --preset tsan -j $(JOBS) --target comm_test watch_test job_test train_reduce_test
	ctest --preset tsan -j $(JOBS) -L threads

test-oracle: build
	@$(call install_wheels,.deps/oracle,tests/oracle/requirements.txt,4.2 GB)
	for script in tests/oracle/*.py; do
	  echo "== $$script"
	  .deps/oracle/bin/python $$script $(BUILD)
	done

# --- The whole job -------------------------------------------------------------------------------
# $(call demo,TASK,OUT,PROGRAM,TRAINING): the job on DATA, or on images that PROGRAM renders.
RUN = docker/retina-run --bin $(BUILD)/bin
define demo
data="$(OWN_DATA)"
if [ -z "$$data" ]; then
  data="$(2)/$(3:render_%=%)"
  $(BUILD)/bin/$(3) --output "$$data"
fi
$(RUN) "$$data" --output "$(2)" --task $(1) \
  $(if $(RANKS),--ranks $(RANKS),--most-ranks 4) --pack $(PACK_OPTIONS) -- \
  $(4) $(TRAIN_OPTIONS)
endef

demo: build
	@$(call demo,detect,$(OUT),render_scenes,$(if $(OWN_DATA),,--config jobs/demo.json))

demo-classify: build
	@$(call demo,classify,$(CLASSIFY_OUT),render_classes,--config jobs/demo-classify.json)

pipeline: build
	@[ -n "$(DATA)" ] || { echo "say which data: make pipeline DATA=FOLDER" >&2; exit 64; }
	$(RUN) "$(DATA)" --output "$(OUT)" \
	  $(if $(RANKS),--ranks $(RANKS)) --pack $(PACK_OPTIONS) -- $(TRAIN_OPTIONS)

coco:
	@[ -n "$(DATA)" ] || { echo "say where to: make coco DATA=FOLDER" >&2; exit 64; }
	$(call install_packages,$(FETCH_PACKAGES))
	jobs/fetch_coco.sh "$(DATA)"

weights: build
	@[ -n "$(DATA)" ] || { echo "say where to: make weights DATA=FOLDER" >&2; exit 64; }
	$(call install_packages,$(FETCH_PACKAGES))
	PATH="$(abspath $(BUILD))/bin:$$PATH" docker/retina-weights --output "$(DATA)/weights" $(WEIGHTS)

# --- Jobs and image ------------------------------------------------------------------------------
IMAGE ?=
REGISTRY ?=
IMAGE_OPTIONS ?=

jobs:
	@$(call install_packages,python3-jinja2)
	jobs/render.py $(if $(filter command,$(origin IMAGE)),--image "$(IMAGE)")

docs:
	@$(call install_packages,$(SITE_PACKAGES))
	docs/site/build.py $(BUILD)/site
	echo "The site: $(BUILD)/site/index.html"

image:
	@docker/image.sh build $(IMAGE_OPTIONS)

image-test: build
	@$(call install_packages,$(NODE_PACKAGES))
	RETINA_BUILD=$(BUILD) python3 tests/image/image_test.py -v

image-push:
	@[ -n "$(REGISTRY)" ] || { echo "say where to: make image-push REGISTRY=HOST/PATH" >&2; exit 64; }
	docker/image.sh push "$(REGISTRY)"

shell:
	@docker/run.sh shell $(if $(DATA),--data "$(DATA)")

clean:
	@rm -rf build build-cpu build-cuda build-asan build-tsan build-debug build-fuzz
