#!/usr/bin/env bash
# One stage of the job in the image, on this machine.
#
#   docker/run.sh STAGE --data DIR --share DIR [--ranks N] [--cpu] [--image NAME] [--dry-run]
#                 [-- OPTIONS OF THE PROGRAM]
#
# STAGE    pack (both splits), weights (to start from), train, eval, convert, or shell (a shell in
#          the image)
# --data   the folder with annotations/, images/{train,val}2017 (or {train,val}2017, as make coco
#          leaves them) and, once made, shards/ and weights/
# --share  the folder for runs/ and models/
# --ranks  processes; without it one a GPU, with --cpu one
# --cpu    without GPUs
# --image  another image than retina-batch:0.1.0, which make image builds; IMAGE=NAME does the same
# --dry-run  print the docker command, touch nothing
#
# An option after -- takes the place of the same option of the stage: -- --epochs 2.
# DOCKER=podman uses podman. The container runs as you, so what it writes is yours.
# Made by jobs/render.py from jobs/job.toml and jobs/templates: change those.
set -euo pipefail

fail() {
  echo "run.sh: error: $2" >&2
  exit "$1"
}

stage=${1:-}
[ $# -eq 0 ] || shift
case $stage in
  pack | weights | train | eval | convert | shell) ;;
  -h | --help) sed -n '2,/^# DOCKER/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) fail 64 "${stage:-no stage}: want pack, weights, train, eval, convert, shell; hint: --help" ;;
esac

docker=${DOCKER:-docker}
image=${IMAGE:-retina-batch:0.1.0}
data="" share="" ranks="" cpu="" dry=""
options=()
while [ $# -gt 0 ]; do
  case $1 in
    --data | --share | --ranks | --image)
      [ $# -ge 2 ] || fail 64 "$1: needs a value; hint: --help says more"
      declare "${1#--}=$2"
      shift 2 ;;
    --cpu) cpu=yes; shift ;;
    --dry-run) dry=yes; shift ;;
    --) shift; options=("$@"); break ;;
    *) fail 64 "$1: unknown option; hint: options of the program come after --" ;;
  esac
done
[[ -z $ranks || $ranks =~ ^[1-9][0-9]*$ ]] || fail 64 "--ranks: got $ranks, want 1 or more"

need() {  # NAME VALUE: the folder of an option, as an absolute path
  [ -n "$2" ] || fail 64 "--$1: is missing; hint: --help says more"
  [ -n "$dry" ] || [ -d "$2" ] || fail 66 "$2: no such folder; hint: mkdir -p $2"
  realpath -m -- "$2"
}

case $stage in
  pack | weights) data=$(need data "$data") ;;
  train | eval) data=$(need data "$data"); share=$(need share "$share") ;;
  convert) share=$(need share "$share") ;;
  shell)
    [ -z "$data" ] || data=$(need data "$data")
    [ -z "$share" ] || share=$(need share "$share") ;;
esac

# --- The container ---------------------------------------------------------------------------
# 64 MB of shared memory, the default, break NCCL and Open MPI; NCCL locks memory for its buffers.
run=("$docker" run --rm --shm-size 16g --ulimit memlock=-1 --ulimit stack=67108864
  --user "$(id -u):$(id -g)" --env HOME=/tmp --stop-timeout 300)
podman=""
[[ $(basename "$docker") != podman* ]] || podman=yes
if [ -n "$podman" ] && [ "$(id -u)" != 0 ]; then run+=(--userns keep-id); fi
if [ -z "$cpu" ] && [[ $stage =~ ^(train|eval|shell)$ ]]; then
  if [ -n "$podman" ]; then run+=(--device nvidia.com/gpu=all); else run+=(--gpus all); fi
fi
[ -z "$data" ] || run+=(--volume "$data:/mnt/coco")
[ -z "$share" ] || run+=(--volume "$share:/mnt/afs_batchai")

if [ "$stage" = shell ]; then
  run+=(--interactive --tty "$image" bash)
  if [ -n "$dry" ]; then printf '%q ' "${run[@]}"; echo; exit 0; fi
  exec "${run[@]}"
fi

# --- The command -----------------------------------------------------------------------------
pack_val=(
  coco-pack
  --annotations /mnt/coco/annotations/instances_val2017.json
  --images /mnt/coco/images/val2017
  --output /mnt/coco/shards/val2017
)
pack_train=(
  coco-pack
  --annotations /mnt/coco/annotations/instances_train2017.json
  --images /mnt/coco/images/train2017
  --output /mnt/coco/shards/train2017
)
weights=(
  retina-weights
  --output /mnt/coco/weights
  imagenet-v2
)
train=(
  retina-train
  --train /mnt/coco/shards/train2017
  --validation /mnt/coco/shards/val2017
  --output /mnt/afs_batchai/runs/coco_retinanet
  --stage-limit 30GiB
  --recipe torchvision-v2
  --init /mnt/coco/weights/resnet50-11ad3fa6.pt
  --epochs 26
  --images-per-step 16
  --checkpoint-every 10min
  --micro-batch 2
)
eval=(
  retina-eval
  --model /mnt/afs_batchai/runs/coco_retinanet
  --data /mnt/coco/shards/val2017
  --output /mnt/afs_batchai/runs/coco_retinanet/evaluation
)
convert=(
  retina-convert
  --checkpoint /mnt/afs_batchai/runs/coco_retinanet
  --output /mnt/afs_batchai/models/coco_retinanet.onnx
  --repository /mnt/afs_batchai/models/repository
  --service-name coco_retinanet
)

given() {  # OPTION: whether the user gives it
  local word
  for word in ${options[@]+"${options[@]}"}; do
    [ "${word%%=*}" != "$1" ] || return 0
  done
  return 1
}

# The stage's words less the options that the user gives, or gives another for.
drop_given() {  # WORDS...
  words=("$1")
  shift
  while [ $# -gt 0 ]; do
    if [ "${1#--}" = "$1" ]; then  # a name
      words+=("$1")
      shift
      continue
    fi
    # Every option of the stages has one value.
    if ! given "$1" && ! { [ "$1" = --epochs ] && given --steps; } &&
      ! { [ "$1" = --init ] && given --recipe; }; then words+=("$1" "$2"); fi
    shift 2
  done
}

in_container() {  # RANKS WORDS...
  local launch=(retina-launch)
  [ -z "$1" ] || launch+=(--ranks "$1")
  # A restart would throw away what was trained until then.
  if [ "$stage" = train ] && given --overwrite; then launch+=(--restarts 0); fi
  shift
  drop_given "$@"
  local line=("${run[@]}" --name "coco_retinanet-$stage" "$image" "${launch[@]}" --
    "${words[@]}" ${options[@]+"${options[@]}"})
  if [ -n "$dry" ]; then
    printf '%q ' "${line[@]}"
    echo
  else
    command -v "$docker" >/dev/null || fail 69 "$docker: not found; hint: DOCKER=podman uses podman"
    "${line[@]}"
  fi
}

pack() {  # SPLIT WORDS...
  local split=$1
  shift
  if [ ! -d "$data/images/$split" ] && [ -d "$data/$split" ]; then
    set -- "${@/\/images\//\/}"  # where `make coco` leaves the photographs
  fi
  in_container 1 "$@"
}

case $stage in
  pack)  # the small split first: a mistake shows soon
    for option in --annotations --images --output; do
      ! given "$option" || fail 64 "$option: pack has two splits, which need one each; hint: \
docker/run.sh shell --data $data, then coco-pack"
    done
    pack val2017 "${pack_val[@]}"
    pack train2017 "${pack_train[@]}" ;;
  weights) in_container 1 "${weights[@]}" ;;
  train) in_container "${ranks:-${cpu:+1}}" "${train[@]}" ;;
  eval) in_container "${ranks:-${cpu:+1}}" "${eval[@]}" ;;
  convert) in_container 1 "${convert[@]}" ;;
esac
