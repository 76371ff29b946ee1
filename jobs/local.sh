#!/usr/bin/env bash
# The whole job on this machine: pack -> train -> evaluate -> convert -> evaluate the converted
# model. Every stage is a program that does nothing when its result is there, and continues when it
# was interrupted: run the same command again.
#
#   jobs/local.sh --data FOLDER --output DIR [--task detect|classify] [--bin build/bin]
#     [--ranks N | --most-ranks N] [--pack COCO-PACK'S OPTIONS] [-- TRAIN OPTIONS]
#
# FOLDER holds a data set as one of many tools exports it: jobs/README.md, "Your own data". Where no
# validation images are set aside, a tenth of the images is (coco-pack --split 0.9). --task refuses data
# for the other task. Without --ranks: a rank for each GPU that retina-train sees, up to --most-ranks;
# 2 on the CPU. `make demo`, `make demo-classify` and `make pipeline` run this with DATA, OUT, RANKS,
# PACK_OPTIONS and TRAIN_OPTIONS, and what is wrong with them is said in these words.
set -euo pipefail

fail() { echo "error: ${*:2}" >&2; exit "$1"; }

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
# shellcheck source=jobs/data_set.sh
. "$here/data_set.sh"

bin=build/bin ranks="" most_ranks="" data="" output="" wanted_task="" pack_options=()
while [ $# -gt 0 ]; do
  case $1 in
    --data | --output | --bin | --ranks | --most-ranks)
      [ $# -ge 2 ] || fail 64 "$1 needs a value"
      name=${1#--}
      declare "${name//-/_}=$2"
      shift 2 ;;
    --task)
      case ${2-} in detect | classify) wanted_task=$2 ;; *) fail 64 "--task: want detect or classify" ;; esac
      shift 2 ;;
    --pack)
      shift
      while [ $# -gt 0 ] && [ "$1" != -- ]; do pack_options+=("$1"); shift; done ;;
    --) shift; break ;;
    *) fail 64 "unknown option $1; hint: see the first lines of $0" ;;
  esac
done
[ "${data:+1}${output:+1}" = 11 ] || fail 64 "--data and --output are needed"
[ -e "$data" ] || fail 66 "DATA=$data: there is no such folder"
[ -d "$data" ] || fail 66 "DATA=$data is a file; give the folder that it is in, or unpacks to"
case ${ranks:-1} in *[!0-9]* | 0) fail 64 "RANKS=$ranks: want a number of ranks" ;; esac
if [ -z "$ranks" ]; then
  ranks=$("$bin/retina-train" --version | sed -n 's/^GPUs seen //p')
  [ "$ranks" -gt 0 ] || ranks=2
  [ "$ranks" -le "${most_ranks:-$ranks}" ] || ranks=$most_ranks
fi

step() { printf '\n== %s\n' "$*"; }

# Whether an option is among coco-pack's.
packs_with() {  # OPTION
  local option
  for option in "${pack_options[@]}"; do
    case $option in "$1" | "$1="*) return ;; esac
  done
  return 1
}

pack() {  # SPLIT OUTPUT [OPTIONS]
  local images=${images_of[$1]} annotations=${annotations_of[$1]} code=0
  local options=("${@:3}" "${pack_options[@]}")
  [ -z "$classes" ] || packs_with --classes || options+=(--classes "$classes")
  packs_with --convert || ! wants_conversion "$images" || options+=(--convert)
  step "pack: ${2##*/}"
  printf 'format       %s\nimages       %s\n' "$format" "$images"
  [ -z "$annotations" ] || printf 'annotations  %s\n' "$annotations"
  "$bin/coco-pack" --format "$format" ${annotations:+--annotations "$annotations"} \
    --images "$images" --output "$2" "${options[@]}" || code=$?
  [ $code = 0 ] || fail $code "packing failed, see above; with make, coco-pack's options go into" \
    "PACK_OPTIONS, as in PACK_OPTIONS='--exif apply', and OUT=FOLDER starts anew in another folder"
}

pack_all() {
  find_data_set "$data"
  task=detect
  case $format in cifar10 | folders) task=classify ;; esac
  case $wanted_task:$task in
    detect:classify)
      fail 65 "DATA=$data holds images by class, which is for a classifier:" \
        "make demo-classify DATA=$data" ;;
    classify:detect)
      fail 65 "DATA=$data holds boxes, which are for a detector: make demo DATA=$data" ;;
  esac
  train=$output/shards/train
  if [ -n "${images_of[val]-}" ]; then
    validation=$output/shards/val
    pack val "$validation"
    pack train "$train"
  else
    validation=$output/shards/validation
    local split=(--split 0.9)
    if packs_with --split; then
      split=()
    else
      step "$data has no validation images: about a tenth of its images is set aside, by file names (coco-pack --split 0.9)"
    fi
    pack train "$output/shards" "${split[@]}"
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

export RETINA_WEIGHTS=${RETINA_WEIGHTS:-$data/weights}  # `make weights DATA=` leaves them there
step "train, ranks: $ranks (its lines tell how long the rest takes; stopped, the same command continues)"
launch "$bin/retina-train" --train "$train" --validation "$validation" \
  --output "$output/run" --task "$task" "$@" ||
  fail $? "training ended early, see above; with make, retina-train's options go into TRAIN_OPTIONS," \
    "OUT=FOLDER starts anew in another folder, and the same command again continues"

case " $* " in *" --check-args "*) exit ;; esac

step "evaluate the best checkpoint"
renew "$output/run/checkpoints.json" "$output/evaluation/metrics.json"
launch "$bin/retina-eval" --model "$output/run" --data "$validation" \
  --output "$output/evaluation" --draw 8 "${overwrite[@]}"

step "convert it"
renew "$output/run/checkpoints.json" "$output/model.onnx"
"$bin/retina-convert" --checkpoint "$output/run" --output "$output/model.onnx" "${overwrite[@]}"

step "evaluate the converted model"
renew "$output/model.onnx" "$output/evaluation-converted/metrics.json"
"$bin/retina-eval" --model "$output/model.onnx" --data "$validation" \
  --output "$output/evaluation-converted" "${overwrite[@]}"

step "results"
drawn=detections numbers="COCO numbers      " results="detections         $output/evaluation/detections.json"
if [ $task = classify ]; then
  drawn="mistakes  " numbers="accuracy          " results="predictions        $output/evaluation/predictions.jsonl"
fi
cat <<END
training report    $output/run/report.html
evaluation report  $output/evaluation/report.html
drawn $drawn   $output/evaluation/drawn/
$numbers $output/evaluation/metrics.json
$results
checkpoints        $output/run/ (checkpoints.json says which is best)
inference model    $output/model.onnx
END
