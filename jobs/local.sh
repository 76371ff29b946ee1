#!/usr/bin/env bash
# The whole job on this machine: pack -> train -> evaluate -> convert -> evaluate the converted
# model. Every stage is a program that does nothing when its result is there, and continues when it
# was interrupted: run the same command again.
#
#   jobs/local.sh --data FOLDER --output DIR [--bin build/bin] [--ranks N | --most-ranks N]
#     [-- TRAIN OPTIONS]
#
# Without --ranks: a rank for each GPU that retina-train sees, up to --most-ranks; 2 on the CPU.
# FOLDER holds a COCO data set, annotations/instances_{train,val}2017.json (or instances_{train,val}.json)
# with images in images/{train,val}2017, {train,val}2017 or images/{train,val}; or a YOLO one, data.yaml
# with images in images/{train,val} or {train,val,valid}/images and labels beside them; or a Pascal
# VOC one, Annotations and JPEGImages, with lists in ImageSets/Main/{train,val}.txt where there are any.
# Where no validation images are set aside, a tenth of the images is (coco-pack --split 0.9).
set -euo pipefail

fail() { echo "local.sh: error: $2" >&2; exit "$1"; }

bin=build/bin ranks="" most_ranks="" data="" output=""
while [ $# -gt 0 ]; do
  case $1 in
    --data | --output | --bin | --ranks | --most-ranks)
      [ $# -ge 2 ] || fail 64 "$1 needs a value"
      name=${1#--}
      declare "${name//-/_}=$2"
      shift 2 ;;
    --) shift; break ;;
    *) fail 64 "unknown option $1; hint: see the first lines of $0" ;;
  esac
done
[ -n "$data" ] && [ -n "$output" ] || fail 64 "--data and --output are needed"
[ -d "$data" ] || fail 66 "$data: no such folder"
if [ -z "$ranks" ]; then
  ranks=$("$bin/retina-train" --version | sed -n 's/^GPUs seen //p')
  [ "$ranks" -gt 0 ] || ranks=2
  [ "$ranks" -le "${most_ranks:-$ranks}" ] || ranks=$most_ranks
fi

# The first of the given paths that exists; nothing where none does.
find_first() {
  local path
  for path in "$@"; do if [ -e "$path" ]; then echo "$path"; return; fi; done
}

step() { printf '\n== %s\n' "$*"; }

# Where a split's annotations and images lie, into `annotations` and `images`; empty where there are none.
find_coco() {  # SPLIT
  annotations=$(find_first "$data/annotations/instances_${1}2017.json" "$data/annotations/instances_$1.json")
  images=$(find_first "$data/images/${1}2017" "$data/${1}2017" "$data/images/$1")
}
find_yolo() {  # SPLIT
  annotations=$data/data.yaml
  images=$(find_first "$data/images/$1" "$data/$1/images" "$data/${1/%val/valid}/images")
}
find_voc() {  # SPLIT
  local lists=$data/ImageSets/Main
  annotations="" images=$data/JPEGImages
  if [ -e "$lists/train.txt" ] && [ -e "$lists/val.txt" ]; then
    annotations=$lists/$1.txt
  elif [ "$1" = train ]; then
    annotations=$(find_first "$lists/trainval.txt" "$lists/train.txt" "$data/Annotations")
  fi
}

pack() {  # FORMAT OUTPUT [OPTIONS]
  step "pack: ${2##*/}"
  "$bin/coco-pack" --format "$1" --annotations "$annotations" --images "$images" --output "$2" "${@:3}"
}

pack_in_two() {  # FORMAT
  validation=$output/shards/validation
  pack "$1" "$output/shards" --split 0.9
}

pack_all() {
  local format=coco
  train=$output/shards/train validation=$output/shards/val
  if [ -d "$data/Annotations" ] && [ -d "$data/JPEGImages" ]; then
    format=voc
  elif [ -e "$data/data.yaml" ]; then
    format=yolo
  fi
  "find_$format" train
  if [ -z "$annotations" ] || [ -z "$images" ]; then
    fail 66 "$data: no data set of COCO, YOLO or Pascal VOC; hint: see the first lines of $0"
  fi
  "find_$format" val
  if [ -n "$annotations" ] && [ -n "$images" ]; then
    pack $format "$validation"
    "find_$format" train
    pack $format "$train"
  else
    "find_$format" train
    pack_in_two $format
  fi
}

# mpirun with what containers, root and fewer cores than ranks need.
launch() {
  if [ "$ranks" = 1 ]; then "$@"; return; fi
  local arguments=(-np "$ranks" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
  [ "$(id -u)" != 0 ] || arguments+=(--allow-run-as-root)
  OMPI_MCA_btl_vader_single_copy_mechanism=none mpirun "${arguments[@]}" "$@"
}

# What is derived follows the training: `overwrite` is the option when RESULT is older than SOURCE.
renew() {  # SOURCE RESULT
  overwrite=()
  if [ -e "$2" ] && [ "$1" -nt "$2" ]; then overwrite=(--overwrite); fi
}

pack_all

step "train: $ranks ranks"
launch "$bin/retina-train" --train "$train" --validation "$validation" \
  --output "$output/run" "$@"

step "evaluate the best checkpoint"
renew "$output/run/checkpoints.json" "$output/evaluation/metrics.json"
launch "$bin/retina-eval" --model "$output/run" --data "$validation" \
  --output "$output/evaluation" --draw 8 "${overwrite[@]}"

step "convert it"
renew "$output/run/checkpoints.json" "$output/model.pt"
"$bin/retina-convert" --checkpoint "$output/run" --output "$output/model.pt" "${overwrite[@]}"

step "evaluate the converted model"
renew "$output/model.pt" "$output/evaluation-converted/metrics.json"
"$bin/retina-eval" --model "$output/model.pt" --data "$validation" \
  --output "$output/evaluation-converted" "${overwrite[@]}"

step "results"
cat <<END
training report    $output/run/report.html
evaluation report  $output/evaluation/report.html
drawn detections   $output/evaluation/drawn/
COCO numbers       $output/evaluation/metrics.json
detections         $output/evaluation/detections.json
checkpoints        $output/run/ (checkpoints.json says which is best)
inference model    $output/model.pt
END
