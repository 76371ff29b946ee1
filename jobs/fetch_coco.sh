#!/usr/bin/env bash
# Fetches COCO 2017 into COCO's own layout, as coco-pack and docker/retina-run take it:
#
#   jobs/fetch_coco.sh DIR      ->  DIR/annotations/instances_{train,val}2017.json
#                                   DIR/train2017/*.jpg, DIR/val2017/*.jpg
#
# Interrupted, it continues: run it again. What is there already is not fetched again. Archives are
# removed once they are unpacked.
#
# COCO's own host, images.cocodataset.org, is a bucket of S3 whose certificate does not cover that
# name: https works by the bucket's path. What comes is checked by the SHA-256 that TensorFlow
# Datasets publishes (url_checksums/coco.txt).
#
# Environment: KEEP_ZIPS=1    keeps the archives, in DIR/zips
#              COCO_URL       a mirror instead of https://s3.amazonaws.com/images.cocodataset.org
#              COCO_TABLE     another table of archives instead of jobs/coco2017.txt
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck disable=SC2034  # read by download.sh
readonly url=${COCO_URL:-https://s3.amazonaws.com/images.cocodataset.org} url_variable=COCO_URL
readonly table=${COCO_TABLE:-$here/coco2017.txt}
readonly keep_zips=${KEEP_ZIPS:-}
# shellcheck source=docker/download.sh
source "$here/../docker/download.sh"

if [ $# != 1 ] || [ -z "$1" ] || [ "${1#-}" != "$1" ]; then
  fail 64 "needs one folder; hint: jobs/fetch_coco.sh DIR, or make coco DATA=DIR"
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

# What is still to be done needs this much: everything unpacked beside the largest archive, or
# beside all of them when they are kept.
check_space() {
  local archive bytes pattern count unpacked needed=0 zips=0 left free
  while read -r archive bytes pattern count unpacked _; do
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
fetch() {  # ARCHIVE BYTES PATTERN COUNT SHA256
  local there
  there=$(count_files "$data/${3%/*}" "${3##*/}")
  [ "$there" -le "$4" ] ||
    fail 73 "$data/${3%/*}: holds other files besides COCO's (got $there, want $4); hint: move them away"
  if [ "$there" != "$4" ]; then
    download "$1" "$2" "$5" "$(zip_of "$1")"
    unpack "$1" "$3" "$4"
  fi
  [ -n "$keep_zips" ] || rm -f "$(zip_of "$1")"
}

if all_is_unpacked && { [ -n "$keep_zips" ] || [ ! -d "$data/zips" ]; }; then
  echo "$data: COCO 2017 is already there"
  exit 0
fi
need_tools curl unzip
open_downloads "$data" "$data/zips"
check_space
while read -r archive bytes pattern count _ hash; do
  fetch "$archive" "$bytes" "$pattern" "$count" "$hash"
done < <(rows)
if [ -z "$keep_zips" ]; then
  rm -f "$data/zips/.lock"
  rmdir --ignore-fail-on-non-empty "$data/zips"
fi
echo "$data: COCO 2017 is complete"
