#!/usr/bin/env bash
# Builds the tree with CUDA on a machine that has a GPU and runs the tests of label `gpu` there.
#
#   tests/gpu/run.sh [--debs DIR] [--python PYTHON] [--build DIR] [--jobs N] [--build-only]
#
# Needs no network. LibTorch is the one that PYTHON (default python3) imports: torch 2.11 for CUDA 13
# with its nvidia-* wheels. The toolkit (nvcc 13), g++, cmake, ninja are the machine's. C++ packages
# that it lacks come from Debian packages in DIR, unpacked below the build folder, not installed: on
# a like machine with a network, `tests/gpu/run.sh --list-debs | xargs apt-get download` gets them.
#
# Prints one table. Exit code: 0 all passed, 1 a test failed or the build broke, 69 something is
# missing (one line says what).
set -euo pipefail

readonly packages=(rapidjson-dev liblmdb-dev liblmdb0 libxxhash-dev libxxhash0 libjpeg-dev
  libjpeg62-turbo-dev libjpeg62-turbo libjpeg-turbo8-dev libjpeg-turbo8 libjpeg8-dev libjpeg8
  libpng-dev libpng16-16 libpng16-16t64 libtiff-dev libtiffxx6 libtiff6 libjbig-dev
  libjbig0 liblerc-dev liblerc4 libdeflate-dev libdeflate0 liblzma-dev liblzma5 libzstd-dev libzstd1 libutf8proc-dev libutf8proc2 libutf8proc3
  libwebp-dev libwebp7 libsharpyuv-dev libsharpyuv0
  libcurl4-openssl-dev libcurl4 libcurl4t64 libnghttp2-14 libidn2-0 libunistring2 libunistring5 librtmp1
  libssh2-1 libssh2-1t64 libssh-4 libpsl5 libpsl5t64 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0
  libkeyutils1 libcom-err2 libldap-2.5-0 libldap2 libsasl2-2 libbrotli1 libssl3 libssl3t64 libgnutls30
  libgnutls30t64 libhogweed6 libhogweed6t64 libnettle8 libnettle8t64 libgmp10 libp11-kit0 libtasn1-6 libffi8
  libpugixml-dev libpugixml1v5
  libyaml-cpp-dev libyaml-cpp0.7 libyaml-cpp0.8
  libonnx-dev libonnx1 libonnx1t64 libprotobuf-dev libprotobuf32 libprotobuf32t64
  libprotobuf-lite32 libprotobuf-lite32t64 libgoogle-perftools-dev libtcmalloc-minimal4
  libtcmalloc-minimal4t64
  libgtest-dev googletest libgmock-dev pkgconf pkgconf-bin libpkgconf3
  libboost-program-options1.74-dev libboost-program-options1.74.0 libboost1.74-dev
  libboost-program-options1.83-dev libboost-program-options1.83.0 libboost1.83-dev
  libopenmpi-dev libopenmpi3 libopenmpi3t64 openmpi-bin openmpi-common libhwloc15
  libevent-core-2.1-7 libevent-core-2.1-7t64 libevent-pthreads-2.1-7 libevent-pthreads-2.1-7t64
  libpmix2 libpmix2t64 libucx0 libfabric1 libibverbs1 librdmacm1 librdmacm1t64 libpsm-infinipath1
  libpsm2-2 libmunge2 libnl-3-200 libnl-route-3-200 libltdl7 libpciaccess0 zlib1g zlib1g-dev)

fail() { echo "run.sh: error: $2" >&2; exit "$1"; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build-gpu debs="" python=python3 jobs=$(nproc) build_only=""
readonly tests_at_once=4  # processes on the same GPU
while [ $# -gt 0 ]; do
  case $1 in
    --debs | --python | --build | --jobs)
      [ $# -ge 2 ] || fail 64 "$1 needs a value"
      declare "${1#--}=$2"
      shift 2 ;;
    --build-only) build_only=1; shift ;;
    --list-debs)  # those of the two supported systems that this one's package lists know
      for package in "${packages[@]}"; do
        if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then echo "$package"; fi
      done
      exit ;;
    *) fail 64 "unknown option $1; hint: see the first lines of $0" ;;
  esac
done

# --- The machine -----------------------------------------------------------------------------------
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
gpus=$(nvidia-smi -L 2>/dev/null) || true
[[ $gpus == *GPU* ]] || fail 69 "no NVIDIA GPU: nvidia-smi lists none"
for tool in g++ cmake ninja nvcc "$python"; do
  command -v "$tool" >/dev/null || fail 69 "$tool is not installed"
done
nvcc_version=$(nvcc --version)
[[ $nvcc_version == *"release 13."* ]] || fail 69 "nvcc is not of CUDA 13: ${nvcc_version##*$'\n'}"
mkdir -p "$build"
build=$(cd "$build" && pwd)

# --- LibTorch: links to PYTHON's packages, which may lie in several folders ------------------------
site=$build/site-packages
rm -rf "$site"
mkdir -p "$site/nvidia"
"$python" - "$site" <<'END' || fail 69 "$python has no torch 2.11 with its NVIDIA packages"
import importlib.util, pathlib, sys
site = pathlib.Path(sys.argv[1])
spec = importlib.util.find_spec("torch")
if spec is None:
    sys.exit("run.sh: torch is not installed")
torch = pathlib.Path(spec.origin).parent
version = (torch / "version.py").read_text()
if "'2.11." not in version:
    sys.exit(f"run.sh: another torch in {torch}: {version.splitlines()[3:4]}")
(site / "torch").symlink_to(torch)
for part in ("cu13", "nccl"):
    for folder in sys.path:
        found = pathlib.Path(folder or ".", "nvidia", part)
        if found.is_dir():
            (site / "nvidia" / part).symlink_to(found.resolve())
            break
    else:
        sys.exit(f"run.sh: the folder nvidia/{part} of torch's wheels is not there")
openvino = importlib.util.find_spec("openvino")
if openvino is not None:
    (site / "openvino").symlink_to(pathlib.Path(openvino.origin).parent)
# Libraries that LibTorch itself finds beside its own place.
for found in (torch.parent / "nvidia").glob("*"):
    if found.is_dir() and not (site / "nvidia" / found.name).exists():
        (site / "nvidia" / found.name).symlink_to(found)
END

# --- C++ packages ----------------------------------------------------------------------------------
multiarch=$(g++ -print-multiarch)
sysroot=""
if [ -n "$debs" ]; then
  sysroot=$build/sysroot
  ls "$debs"/*.deb >/dev/null 2>&1 || fail 69 "$debs: holds no .deb files"
  rm -rf "$sysroot"
  mkdir -p "$sysroot"
  for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$sysroot"; done
  lib=$sysroot/usr/lib/$multiarch
  export PATH=$sysroot/usr/bin:$PATH
  # Debian chooses these by alternatives, which unpacking does not set.
  for name in mpirun mpiexec mpicxx mpicc; do
    [ -e "$sysroot/usr/bin/$name" ] || [ ! -e "$sysroot/usr/bin/$name.openmpi" ] ||
      ln -s "$name.openmpi" "$sysroot/usr/bin/$name"
  done
  for name in libmpi.so libmpi_cxx.so libopen-pal.so libopen-rte.so; do
    [ -e "$lib/$name" ] || [ ! -e "$lib/openmpi/lib/$name" ] || ln -s "openmpi/lib/$name" "$lib/$name"
  done
  export OPAL_PREFIX=$sysroot/usr CMAKE_PREFIX_PATH=$sysroot/usr
  export C_INCLUDE_PATH=$sysroot/usr/include:$sysroot/usr/include/$multiarch
  export CPLUS_INCLUDE_PATH=$C_INCLUDE_PATH
  export LIBRARY_PATH=$lib:$lib/openmpi/lib LD_LIBRARY_PATH=$lib:$lib/openmpi/lib:${LD_LIBRARY_PATH:-}
  export PKG_CONFIG_PATH=$lib/pkgconfig:$sysroot/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$sysroot
fi
# What the programs need to start, for measure.py.
printf '%s\n' "PATH=$PATH" "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}" >"$build/environment"
[ -z "${OPAL_PREFIX:-}" ] || echo "OPAL_PREFIX=$OPAL_PREFIX" >>"$build/environment"
missing=()
needs() {  # PACKAGE HEADER
  echo "#include <$2>" | g++ -E -x c++ - >/dev/null 2>&1 || missing+=("$1")
}
needs liblmdb-dev lmdb.h
needs libxxhash-dev xxhash.h
needs rapidjson-dev rapidjson/document.h
needs libboost-program-options-dev boost/program_options.hpp
needs libpng-dev png.h
needs libtiff-dev tiffio.h
needs libwebp-dev webp/decode.h
needs libcurl4-openssl-dev curl/curl.h
needs libutf8proc-dev utf8proc.h
needs libpugixml-dev pugixml.hpp
needs libyaml-cpp-dev yaml-cpp/yaml.h
needs libprotobuf-dev google/protobuf/message.h
needs libonnx-dev onnx/onnx-ml.pb.h
needs libgoogle-perftools-dev gperftools/tcmalloc.h
needs libgtest-dev gtest/gtest.h
needs libgmock-dev gmock/gmock.h
printf '#include <cstdio>\n#include <jpeglib.h>\n' | g++ -E -x c++ - >/dev/null 2>&1 || missing+=(libjpeg-dev)
command -v pkg-config >/dev/null || missing+=(pkg-config)
command -v mpicxx >/dev/null || missing+=(libopenmpi-dev)
[ ${#missing[@]} = 0 ] ||
  fail 69 "missing packages: ${missing[*]}; hint: install them, or carry them with --debs DIR"

# --- Build and run ---------------------------------------------------------------------------------
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader)
architecture=${architecture%%$'\n'*} architecture=${architecture//./}
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=NOTICE \
  -DRETINA_SITE_PACKAGES="$site" -DRETINA_WITH_CUDA=ON -DCMAKE_CUDA_COMPILER="$(command -v nvcc)" \
  -DCMAKE_CUDA_ARCHITECTURES="$architecture-real"
cmake --build "$build" -j "$jobs" --target gpu_test render_scenes
[ -z "$build_only" ] || exit 0
# A few processes with a part of the cases each: each start of CUDA takes seconds.
code=0 parts=()
for ((part = 0; part < tests_at_once; ++part)); do
  rm -f "$build/gpu.$part.xml"
  GTEST_TOTAL_SHARDS=$tests_at_once GTEST_SHARD_INDEX=$part "$build/bin/gpu_test" --gtest_color=no \
    --gtest_output="xml:$build/gpu.$part.xml" >"$build/gpu.$part.log" 2>&1 &
  parts+=($!)
done
for ((part = 0; part < tests_at_once; ++part)); do
  wait "${parts[part]}" || { code=1; cat "$build/gpu.$part.log"; }
done
"$python" - "$build"/gpu.?.xml <<'END' || code=$?
import sys
import xml.etree.ElementTree
results = []
for path in sys.argv[1:]:
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        if case.get("result") == "suppressed":  # another part's
            continue
        word = ("FAILED" if case.find("failure") is not None else
                "skipped" if case.get("result") == "skipped" else "passed")
        results.append((f"{case.get('classname')}.{case.get('name')}", word, float(case.get("time"))))
width = max((len(name) for name, _, _ in results), default=0)
for name, result, seconds in sorted(results):
    print(f"{name:{width}}  {result:8}{seconds:8.2f} s")
count = {word: sum(result == word for _, result, _ in results) for word in ("passed", "FAILED", "skipped")}
print(f"{len(results)} tests on a GPU:", ", ".join(f"{n} {word}" for word, n in count.items()))
if not count["passed"] + count["FAILED"]:
    print("run.sh: error: LibTorch sees no GPU: all tests were skipped", file=sys.stderr)
    sys.exit(69)
END
exit "$code"
