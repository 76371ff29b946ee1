#!/usr/bin/env bash
# The image by whichever tool is installed: docker with a daemon, podman, or buildah.
#
#   docker/image.sh build [TOOL OPTIONS]       build it from this checkout
#   docker/image.sh push REGISTRY              push it; prints the name with its digest
#   docker/image.sh run [--user U] [--mount FOLDER:PATH] ... -- COMMAND     a command in it
#   docker/image.sh unpack FOLDER              its file system, as root
#   docker/image.sh name                       NAME:VERSION
#
# IMAGE=NAME:VERSION names another image, IMAGE_TOOL=docker|podman|buildah another tool,
# TOOL_OPTIONS="..." is handed to each of the tool's own commands (e.g. --isolation chroot).
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "image.sh: error: $2" >&2; exit "$1"; }

version=$(sed -n 's/^project(retina-batch VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
image=${IMAGE:-retina-batch:$version}
read -ra tool_options <<<"${TOOL_OPTIONS:-}"

choose_tool() {
  if [ -n "${IMAGE_TOOL:-}" ]; then echo "$IMAGE_TOOL"; return; fi
  if command -v docker >/dev/null && docker info >/dev/null 2>&1; then echo docker; return; fi
  local tool
  for tool in podman buildah; do
    if command -v "$tool" >/dev/null; then echo "$tool"; return; fi
  done
  fail 69 "no docker daemon, podman or buildah found; hint: apt-get install buildah"
}
verb=${1:-}
[ $# = 0 ] || shift
if [ "$verb" = name ]; then
  echo "$image"
  exit 0
fi
tool=$(choose_tool)
gpus=()
[ "$tool" = docker ] && [ -e /dev/nvidiactl ] && gpus=(--gpus all)
[ "$tool" = podman ] && [ -e /dev/nvidiactl ] && gpus=(--device nvidia.com/gpu=all)

build() {
  local arguments=(--file docker/Dockerfile --tag "$image" --build-arg VERSION="$version"
    --build-arg REVISION="$(git describe --always --dirty --abbrev=10 2>/dev/null || echo unknown)"
    --build-arg CREATED="$(date -u +%Y-%m-%dT%H:%M:%SZ)")
  # Docker's own format: OCI's has no SHELL and no HEALTHCHECK.
  [ "$tool" = docker ] || arguments+=(--format docker)
  "$tool" build "${arguments[@]}" "${tool_options[@]}" "$@" .
}

push() {
  [ $# = 1 ] || fail 64 "push needs a registry"
  local target=${1%/}/${image##*/} digest
  case $tool in
    docker)
      docker tag "$image" "$target"
      docker push "${tool_options[@]}" "$target" >&2
      digest=$(docker inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$target" |
        grep -F "${target%:*}@" | sed 's/.*@//' | head -1) ;;
    *)
      local file
      file=$(mktemp)
      "$tool" push --digestfile "$file" "${tool_options[@]}" "$image" "docker://$target" >&2
      digest=$(cat "$file")
      rm -f "$file" ;;
  esac
  [[ $digest == sha256:* ]] || fail 74 "$target: $tool reported no digest"
  echo "${target%:*}@$digest"
}

run() {  # OPTIONS -- COMMAND...
  local arguments=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ $# -ge 2 ] || fail 64 "$1 needs a value"
    case $1 in
      --user) arguments+=(--user "$2") ;;
      --mount) arguments+=(--volume "$2") ;;
      *) fail 64 "unknown option $1" ;;
    esac
    shift 2
  done
  [ $# -ge 2 ] || fail 64 "run needs -- COMMAND"
  shift
  if [ "$tool" = buildah ]; then
    local container code=0
    container=$(buildah from --pull-never "$image")
    buildah run "${tool_options[@]}" "${arguments[@]}" "$container" -- "$@" || code=$?
    buildah rm "$container" >/dev/null
    return "$code"
  fi
  "$tool" run --rm --shm-size 16g --ulimit memlock=-1 --ulimit stack=67108864 "${gpus[@]}" \
    "${tool_options[@]}" "${arguments[@]}" "$image" "$@"
}

unpack() {
  [ $# = 1 ] && [ -d "$1" ] || fail 64 "unpack needs a folder"
  local container
  if [ "$tool" = buildah ]; then
    container=$(buildah from --pull-never "$image")
    cp -a "$(buildah mount "$container")/." "$1"
    buildah rm "$container" >/dev/null
    return
  fi
  container=$("$tool" create "$image")
  "$tool" export "$container" | tar -C "$1" -xf -
  "$tool" rm "$container" >/dev/null
}

case $verb in
  build) build "$@" ;;
  push) push "$@" ;;
  run) run "$@" ;;
  unpack) unpack "$@" ;;
  *) fail 64 "unknown call '$verb'; hint: see the first lines of $0" ;;
esac
