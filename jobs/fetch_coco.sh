#!/usr/bin/env bash
# Fetches COCO 2017 into COCO's own layout, as coco-pack and jobs/local.sh take it:
#
#   jobs/fetch_coco.sh DIR      ->  DIR/annotations/instances_{train,val}2017.json
#                                   DIR/train2017/*.jpg, DIR/val2017/*.jpg
#
# Interrupted, it continues: run it again. What is there already is not fetched again. Archives are
# removed once they are unpacked.
#
# Environment: KEEP_ZIPS=1    keeps the archives, in DIR/zips
#              COCO_URL       a mirror instead of http://images.cocodataset.org
#              COCO_TABLE     another table of archives instead of jobs/coco2017.txt
set -euo pipefail

readonly url=${COCO_URL:-http://images.cocodataset.org}
readonly table=${COCO_TABLE:-$(dirname "${BASH_SOURCE[0]}")/coco2017.txt}
readonly keep_zips=${KEEP_ZIPS:-}
readonly stalled_attempts=3  # downloads in a row that bring nothing

fail() { echo "fetch_coco.sh: error: $2" >&2; exit "$1"; }
say() { echo "fetch_coco.sh: $*" >&2; }
human() { numfmt --to=iec-i --suffix=B --format=%.1f "$1"; }
size_of() { stat -c %s "$1" 2>/dev/null || echo 0; }

if [ $# != 1 ] || [ -z "$1" ] || [ "${1#-}" != "$1" ]; then
  fail 64 "want one folder; hint: jobs/fetch_coco.sh DIR, or make coco DATA=DIR"
fi
[ -r "$table" ] || fail 66 "$table: no such file"
readonly data=$1

rows() { grep -v '^#' "$table"; }
zip_of() { echo "$data/zips/${1##*/}"; }

# The files of FOLDER (first level) that match PATTERN, counted.
count_files() {  # FOLDER PATTERN
  [ -d "$1" ] || { echo 0; return; }
  find "$1" -mindepth 1 -maxdepth 1 -name "$2" -printf . | wc -c
}

is_unpacked() {  # PATTERN COUNT
  [ "$(count_files "$data/${1%/*}" "${1##*/}")" = "$2" ]
}

all_is_unpacked() {
  local pattern count
  while read -r _ _ pattern count _; do is_unpacked "$pattern" "$count" || return 1; done < <(rows)
}

# Makes the folder for archives and takes its lock. Some mounts have no locks.
open_zips() {
  local code=0
  if ! mkdir -p "$data/zips" 2>/dev/null || [ ! -w "$data/zips" ]; then
    fail 73 "$data: cannot be written; hint: choose another folder"
  fi
  exec 9>"$data/zips/.lock"
  flock --nonblock --conflict-exit-code 200 9 2>/dev/null || code=$?
  [ "$code" != 200 ] || fail 78 "$data: another fetch is writing to this folder"
}

# What is still to be done needs this much: everything unpacked beside the largest archive, or
# beside all of them when they are kept.
check_space() {
  local archive bytes pattern count unpacked needed=0 zips=0 left free
  while read -r archive bytes pattern count unpacked; do
    if is_unpacked "$pattern" "$count"; then continue; fi
    left=$((bytes - $(size_of "$(zip_of "$archive")") - $(size_of "$(zip_of "$archive").part")))
    needed=$((needed + unpacked))
    if [ -n "$keep_zips" ]; then zips=$((zips + left)); else zips=$((left > zips ? left : zips)); fi
  done < <(rows)
  needed=$((needed + zips))
  free=$(df --output=avail -B1 "$data" | tail -n 1)
  [ "$free" -ge "$needed" ] || fail 74 "$data: too little free space (got $(human "$free"), want \
$(human "$needed")); hint: free some, or choose another folder"
}

explain_curl() {  # CODE ARCHIVE -> ends the script with what curl's exit code means
  case $1 in
    6) fail 69 "$url: its name is not known here (no network?); hint: set COCO_URL to a mirror" ;;
    7) fail 69 "$url: no connection; hint: is the network up? COCO_URL names a mirror" ;;
    22) fail 69 "$url/$2: the server does not have it; hint: set COCO_URL to another mirror" ;;
    23) fail 74 "$data/zips: writing failed; hint: is the disk full?" ;;
    *) fail 69 "$url/$2: the download stops (curl exit $1); hint: run the same command again" ;;
  esac
}

# Learns before the download that it would be another file than the table's.
check_offer() {  # ARCHIVE BYTES
  local offered code=0
  offered=$(curl --silent --fail --location --head --connect-timeout 20 --output /dev/null \
    --write-out '%header{content-length}' "$url/$1") || code=$?
  [ "$code" = 0 ] || explain_curl "$code" "$1"
  [ -z "$offered" ] || [ "$offered" = "$2" ] ||
    fail 65 "$url/$1: is another file (got $offered bytes, want $2); hint: set COCO_URL to a mirror"
}

# Downloads to the archive's place, continuing what is there.
download() {  # ARCHIVE BYTES
  local archive=$1 bytes=$2 zip part before code stalled=0 progress=--no-progress-meter
  zip=$(zip_of "$archive") part=$(zip_of "$archive").part
  if [ "$(size_of "$zip")" = "$bytes" ]; then return; fi
  check_offer "$archive" "$bytes"
  [ ! -t 2 ] || progress=--progress-bar
  say "${zip##*/}: fetching $(human "$bytes"), $(human "$(size_of "$part")") are there"
  while [ "$(size_of "$part")" -lt "$bytes" ]; do
    before=$(size_of "$part") code=0
    curl --fail --location "$progress" --continue-at - --connect-timeout 20 --speed-limit 1000 \
      --speed-time 60 --output "$part" "$url/$archive" || code=$?
    case $code in
      0 | 5 | 18 | 28 | 35 | 52 | 55 | 56 | 92) ;;  # a line that breaks: what came is kept
      33) rm -f "$part" ;;                         # this server cannot continue
      *) explain_curl "$code" "$archive" ;;
    esac
    if [ "$(size_of "$part")" -gt "$before" ]; then stalled=0; else stalled=$((stalled + 1)); fi
    [ "$stalled" -lt "$stalled_attempts" ] || explain_curl "$code" "$archive"
  done
  [ "$(size_of "$part")" = "$bytes" ] || {
    rm -f "$part"
    fail 65 "$url/$archive: has another size than COCO's (want $bytes bytes); hint: set COCO_URL to a mirror"
  }
  mv "$part" "$zip"
}

# Unpacks beside the place, checks, then moves: a folder that is there is whole.
unpack() {  # ARCHIVE PATTERN COUNT
  local zip folder=${2%/*} files=${2##*/} room=$data/zips/.unpacking code=0 got
  zip=$(zip_of "$1")
  say "${zip##*/}: unpacking $3 files"
  rm -rf "$room"
  unzip -q "$zip" "$2" -d "$room" </dev/null >/dev/null 2>"$data/zips/.unzip.log" || code=$?
  case $code in
    0) ;;
    50) fail 74 "$data: writing failed while unpacking; hint: is the disk full?" ;;
    *)
      rm -rf "$zip" "$room"
      fail 65 "$zip: is damaged (unzip exit $code) and was removed; hint: run the same command again" ;;
  esac
  got=$(count_files "$room/$folder" "$files")
  [ "$got" = "$3" ] || fail 65 "$zip: holds other files than COCO's (got $got, want $3)"
  sync --file-system "$room"
  mkdir -p "$data/$folder"
  if rmdir "$data/$folder" 2>/dev/null; then
    mv "$room/$folder" "$data/$folder"
  else  # the folder holds other things, or an unpacking by hand that was cut short
    find "$room/$folder" -mindepth 1 -maxdepth 1 -exec mv -t "$data/$folder" {} +
  fi
  is_unpacked "$2" "$3" || fail 73 "$data/$folder: holds other files besides COCO's; hint: move them away"
  rm -rf "$room" "$data/zips/.unzip.log"
}

# One row of the table: leaves it unpacked, without its archive.
fetch() {  # ARCHIVE BYTES PATTERN COUNT
  local there
  there=$(count_files "$data/${3%/*}" "${3##*/}")
  [ "$there" -le "$4" ] ||
    fail 73 "$data/${3%/*}: holds other files besides COCO's (got $there, want $4); hint: move them away"
  if [ "$there" != "$4" ]; then
    download "$1" "$2"
    unpack "$1" "$3" "$4"
  fi
  [ -n "$keep_zips" ] || rm -f "$(zip_of "$1")"
}

if all_is_unpacked && { [ -n "$keep_zips" ] || [ ! -d "$data/zips" ]; }; then
  echo "$data: COCO 2017 is there already"
  exit 0
fi
for tool in curl unzip; do
  command -v "$tool" >/dev/null || fail 69 "$tool is not installed; hint: apt-get install curl unzip"
done
open_zips
check_space
while read -r archive bytes pattern count _; do
  fetch "$archive" "$bytes" "$pattern" "$count"
done < <(rows)
if [ -z "$keep_zips" ]; then
  rm -f "$data/zips/.lock"
  rmdir --ignore-fail-on-non-empty "$data/zips"
fi
echo "$data: COCO 2017 is complete"
