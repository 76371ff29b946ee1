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
# For classification: the binary version of CIFAR-10, data_batch_*.bin and test_batch.bin; or
# {train,val}/CLASS/*.jpg, or CLASS/*.jpg; such a set is trained with --task classify.
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

# Where a split's images and annotations lie, into `images` and `annotations`; no images where it has
# none. A classification set has no annotations.
find_coco() {  # SPLIT
  annotations=$(find_first "$data/annotations/instances_${1}2017.json" "$data/annotations/instances_$1.json")
  images=$(find_first "$data/images/${1}2017" "$data/${1}2017" "$data/images/$1")
  [ -n "$annotations" ] || images=""
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
  [ -n "$annotations" ] || images=""
}
find_cifar10() {  # SPLIT
  annotations="" images=$data
  [ "$1" = train ] || images=$(find_first "$data/test_batch.bin")
}
find_folders() {  # SPLIT
  annotations="" images=$(find_first "$data/$1" "$data/${1/%val/validation}" "$data/${1/%val/test}")
  if [ ! -d "$data/train" ]; then images=""; fi
  if [ -z "$images" ] && [ "$1" = train ]; then images=$data; fi
}

# Whether $data has a file like one of these.
has_any() {  # PATTERNS
  local pattern
  for pattern in "$@"; do if compgen -G "$data/$pattern" >/dev/null; then return; fi; done
  return 1
}

find_format() {
  format=coco
  if [ -d "$data/Annotations" ] && [ -d "$data/JPEGImages" ]; then
    format=voc
  elif [ -e "$data/data.yaml" ]; then
    format=yolo
  elif has_any 'data_batch_*.bin'; then
    format=cifar10
  elif ! has_any annotations && has_any {train/,}'*/*.'{jpg,jpeg,JPG,JPEG}; then
    format=folders
  fi
}

pack() {  # OUTPUT [OPTIONS]
  step "pack: ${1##*/}"
  "$bin/coco-pack" --format "$format" ${annotations:+--annotations "$annotations"} \
    --images "$images" --output "$1" "${@:2}"
}

pack_all() {
  train=$output/shards/train validation=$output/shards/val
  find_format
  "find_$format" train
  if [ -z "$images" ]; then
    fail 66 "$data: no data set of COCO, YOLO, Pascal VOC, CIFAR-10 or class folders; hint: see the first lines of $0"
  fi
  "find_$format" val
  if [ -n "$images" ]; then
    pack "$validation"
    "find_$format" train
    pack "$train"
  else
    "find_$format" train
    validation=$output/shards/validation
    pack "$output/shards" --split 0.9
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
task=detect
case $format in cifar10 | folders) task=classify ;; esac

step "train: $ranks ranks"
launch "$bin/retina-train" --train "$train" --validation "$validation" \
  --output "$output/run" --task "$task" "$@"

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
drawn=detections numbers="COCO numbers      " found="detections         $output/evaluation/detections.json"
if [ $task = classify ]; then
  drawn="mistakes  " numbers="accuracy          " found="predictions        $output/evaluation/predictions.jsonl"
fi
cat <<END
training report    $output/run/report.html
evaluation report  $output/evaluation/report.html
drawn $drawn   $output/evaluation/drawn/
$numbers $output/evaluation/metrics.json
$found
checkpoints        $output/run/ (checkpoints.json says which is best)
inference model    $output/model.pt
END
