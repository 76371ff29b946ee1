#!/usr/bin/env bash
# Which data set a folder holds and where the images and annotations of its training and validation
# split lie, as tools and platforms export them: the table is in jobs/README.md, "Your own data".
# retina-run reads this file.
#
#   find_data_set FOLDER  sets `format` as coco-pack names it, `images_of[SPLIT]` and
#                         `annotations_of[SPLIT]` of train and, where there are such images, val, and
#                         `classes`, a file for --classes or nothing. Ends the script where there is
#                         no data set. What is made for coco-pack goes into $output.
#
# shellcheck disable=SC2034,SC2154  # what is set here is used there, and the other way round

# The pages: beside this in an installed tree, a wheel, the sources.
for pages in "$(dirname "${BASH_SOURCE[0]}")"/../{doc/retina-batch,_pages,.}; do
  if [ -e "$pages/jobs/README.md" ]; then break; fi
done
pages=$(realpath "$pages")

# The names of a split's folders and files, the best first. What is only there for tests serves as
# validation set where there is no other.
declare -A split_names=(
  [train]="train train2017 training"
  [val]="val valid val2017 validation dev test test2017 testing"
)
image_names=(jpegimages images image imgs img)
annotation_names=(annotations annotation annots xmls xml labels)
# What lies in a folder of detection data and never in one of class folders.
detection_names=("${image_names[@]}" "${annotation_names[@]}" imagesets obj_train_data obj.data
  'labeltxt*' '*.geojson' '*.names' '*.xml' 'data.y?(a)ml' '_annotations.*' 'instances_*.json')
image_files=(-type f ! -name '.*' '(' -iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.png'
  -o -iname '*.webp' -o -iname '*.bmp' -o -iname '*.tif' -o -iname '*.tiff' ')')
image_ending='\.(jpe?g|png|webp|bmp|tiff?)'
byte_order_mark=$'\xef\xbb\xbf'

# --- Files and folders -----------------------------------------------------------------------------
# Names match in any case, and hidden files do not match. What stands in @() is a pattern without a
# wildcard, too.
shopt -s extglob nocaseglob nullglob

# What FOLDER has of these names or patterns, in their order.
entries() {  # FOLDER NAMES
  local path name
  [ -n "$1" ] || return 0
  for name in "${@:2}"; do
    for path in "$1"/@($name); do
      [ "${path##*/}" = __MACOSX ] || echo "$path"
    done
  done
}

entry() { entries "$@" | sed -n 1p; }  # the first of them
has_entry() { [ -n "$(entry "$@")" ]; }
an_image() { find -L "$1" "${@:2}" "${image_files[@]}" -print -quit 2>/dev/null; }  # FOLDER [DEPTH]
has_images() { [ -n "$1" ] && [ -n "$(an_image "$@")" ]; }

# Whether FOLDER has images that coco-pack takes with --convert alone.
wants_conversion() {  # FOLDER
  [ -n "$(find -L "$1" -type f ! -name '.*' '(' -iname '*.png' -o -iname '*.webp' -o -iname '*.tif' \
    -o -iname '*.tiff' ')' -print -quit 2>/dev/null)" ]
}

# The folders that may hold a split, the best first.
split_folders() {  # FOLDER SPLIT
  local names
  read -ra names <<<"${split_names[$2]}"
  entries "$1" "${names[@]}"
}

# Of files, the one that is named after the split; for training also the only one that is of none.
# "val" is in instances_val2017, not in interval.
file_of_split() {  # SPLIT FILES
  local name file any="${split_names[train]} ${split_names[val]}" unnamed=()
  for name in ${split_names[$1]}; do
    for file in "${@:2}"; do
      if [[ ${file,,} =~ (/|[^a-z])${name}[^/a-z][^/]*$ ]]; then echo "$file"; return; fi
    done
  done
  [ "$1" = train ] || return 0
  for file in "${@:2}"; do
    [[ ${file,,} =~ (/|[^a-z])(${any// /|})[^/a-z][^/]*$ ]] || unnamed+=("$file")
  done
  if [ ${#unnamed[@]} = 1 ]; then echo "${unnamed[0]}"; fi
}

# The file of a split's annotations: in the split's folder, in one for annotations, or in `root`.
annotation_file() {  # SPLIT TEST PATTERN
  local folder common file files
  common=$(entry "$root" "${annotation_names[@]}")
  while IFS= read -r folder; do
    files=()
    while IFS= read -r file; do
      if [ -f "$file" ] && "$2" "$file"; then files+=("$file"); fi
    done < <(entries "$folder" "$3")
    case $folder in
      "$root" | "$common") file=$(file_of_split "$1" "${files[@]}") ;;
      *) if [ ${#files[@]} = 1 ]; then file=${files[0]}; else file=""; fi ;;
    esac
    if [ -n "$file" ]; then echo "$file"; return; fi
  done < <(split_folders "$root" "$1"; [ -z "$common" ] || echo "$common"; echo "$root")
}

# The folder to which image names of annotations in FOLDER, which come in, are relative.
folder_of_images() {  # FOLDER SPLIT
  local common folders name folder names
  mapfile -t names
  common=$(entry "$root" "${image_names[@]}")
  mapfile -t folders < <(split_folders "$common" "$2"; split_folders "$root" "$2"
    entry "$1" "${image_names[@]}"; [ -z "$common" ] || echo "$common"; printf '%s\n' "$1" "$root")
  for name in "${names[@]}"; do
    for folder in "${folders[@]}"; do
      if [ -f "$folder/$name" ]; then echo "$folder"; return; fi
    done
  done
  # A folder that no rule foresees.
  if [ ${#names[@]} -gt 0 ]; then
    folder=$(find -L "$root" -path "*/${names[0]}" -print -quit 2>/dev/null)
    if [ -n "$folder" ]; then echo "${folder%"/${names[0]}"}"; return; fi
  fi
  echo "${folders[0]}"
}

# --- Pascal VOC ------------------------------------------------------------------------------------
# XML files in a folder for annotations beside that of the images, or together with the images.
find_voc_in() {  # FOLDER
  [ -n "$1" ] || return 1
  annotations=$(entry "$1" "${annotation_names[@]}")
  if [ -z "$annotations" ] || ! has_entry "$annotations" '*.xml'; then annotations=$1; fi
  has_entry "$annotations" '*.xml' || return 1
  images=$(entry "$1" "${image_names[@]}")
  images=${images:-$1}
}

find_voc() {  # SPLIT
  local lists=$root/ImageSets/Main folder common
  if [ -d "$root/Annotations" ] && [ -e "$lists/train.txt" ] && [ -e "$lists/val.txt" ]; then
    find_voc_in "$root" && annotations=$lists/$1.txt
    return
  fi
  common=$(entry "$root" "${image_names[@]}")
  while IFS= read -r folder; do
    if find_voc_in "$folder"; then return; fi
  done < <(split_folders "$root" "$1"; split_folders "$common" "$1")
  annotations=$(split_folders "$(entry "$root" "${annotation_names[@]}")" "$1" | sed -n 1p)
  images=$(split_folders "$common" "$1" | sed -n 1p)
  if [ -n "$images" ] && [ -n "$annotations" ] && has_entry "$annotations" '*.xml'; then return; fi
  [ "$1" = train ] || return 1
  find_voc_in "$root" || find_voc_in "$common" || return 1
  if [ "$annotations" = "$root/Annotations" ]; then
    if [ -e "$lists/train.txt" ]; then annotations=$lists/train.txt; fi
    if [ -e "$lists/trainval.txt" ]; then annotations=$lists/trainval.txt; fi
  fi
}

# coco-pack numbers the classes of VOC by name among all XML files of one folder. Splits with folders
# of their own become lists of one set.
join_voc() {
  local set=$output/lists/voc split
  [ -d "${annotations_of[val]-}" ] || return 0
  [ "${annotations_of[train]}" != "${annotations_of[val]}" ] || return 0
  rm -rf "$set"
  mkdir -p "$set"/{Annotations,JPEGImages,ImageSets/Main}
  for split in train val; do
    ln -s "$(realpath "${annotations_of[$split]}")" "$set/Annotations/$split"
    ln -s "$(realpath "${images_of[$split]}")" "$set/JPEGImages/$split"
    annotations_of[$split]=$set/ImageSets/Main/$split.txt
    find -L "$set/Annotations/$split" -name '__MACOSX' -prune -o -type f -iname '*.xml' ! -name '.*' \
      -printf "$split/%P\n" | sed 's/\.[^.]*$//' | LC_ALL=C sort >"${annotations_of[$split]}"
    images_of[$split]=$set/JPEGImages
  done
}

# --- YOLO ------------------------------------------------------------------------------------------
# The values of a key at the top of a YAML file, one a line: a scalar, or a list in either notation.
yaml_values() {  # FILE KEY
  LC_ALL=C awk -v key="$2" '
    function tell(value) {
      sub(/[ \t]#.*$/, "", value)
      gsub(/^[ \t]+|[ \t\r]+$/, "", value)
      if (value ~ /^".*"$/ || value ~ /^\047.*\047$/) value = substr(value, 2, length(value) - 2)
      if (value != "" && value != "null" && value != "~") print value
    }
    NR == 1 { sub(/^\357\273\277/, "") }
    flow { text = text $0; if (!/\]/) next; finish = 1 }
    within && /^[ \t]*-[ \t]/ { sub(/^[ \t]*-[ \t]+/, ""); tell($0); next }
    within && /^[ \t]*(#.*)?\r?$/ { next }
    { within = 0 }
    !flow && match($0, "^[\"\047]?" key "[\"\047]?[ \t]*:([ \t\r]|$)") {
      text = substr($0, RLENGTH + 1)
      if (text ~ /^[ \t]*\[/) { flow = 1; finish = text ~ /\]/ }
      else if (text ~ /^[ \t]*(#.*)?\r?$/) within = 1
      else tell(text)
    }
    flow && finish {
      sub(/^[ \t]*\[/, "", text); sub(/\].*$/, "", text)
      count = split(text, parts, ",")
      for (i = 1; i <= count; ++i) tell(parts[i])
      flow = 0
    }' "$1"
}

# What names the classes: a YAML file, or with label files a list as labelImg, Label Studio and darknet
# write it.
yolo_line='^[0-9]+([[:space:]]+[-+.0-9e]+){4,}[[:space:]]*$'
yolo_classes() {
  local file folder
  while IFS= read -r file; do
    if LC_ALL=C grep -Eqs "^($byte_order_mark)?[\"']?names[\"']?[[:space:]]*:" "$file"; then
      echo "$file"
      return
    fi
  done < <(entries "$root" 'data.y?(a)ml' '*.y?(a)ml')
  { grep -RqsE --include='*.txt' "$yolo_line" "$root" && for folder in "$root" \
    "$(entry "$root" labels)" "$(entry "$root" images)" "$(entry "$root" obj_train_data)"; do
    entries "$folder" obj.names classes.txt '*.names'
  done; } | sed -n 1p
}

# What a path of the YAML file or of a list means here: it is relative to the file's `path`, else to
# `root`. Exports have paths of the machine that they were made on, and Roboflow's have a "../" too
# many: what does not exist is looked for without its first folders, but never as a mere "images",
# which may be another split's.
resolve() {  # PATH, into `resolved`
  local rest=${1#../} absolute=()
  [[ $1 != /* ]] || absolute=("$1")
  for resolved in "$yaml_base/$rest" "$yaml_base/$1" "$root/$rest" "${absolute[@]}"; do
    [ ! -e "$resolved" ] || return 0
  done
  while [[ $rest == */* ]]; do
    rest=${rest#*/} resolved=$root/$rest
    [ "${rest,,}" != images ] || return 1
    if [ -n "$rest" ] && [ -e "$resolved" ]; then return; fi
  done
  return 1
}

# The paths that the YAML file has for a split, into `paths`.
yaml_paths() {  # SPLIT
  local key value keys=(train)
  [ "$1" = train ] || keys=(val valid validation test)
  for key in "${keys[@]}"; do
    while IFS= read -r value; do
      if resolve "$value"; then paths+=("$(realpath -s "$resolved")"); continue; fi
      [ "$key" != test ] || continue
      fail 66 "$annotations: $key: \"$value\" is neither a folder nor a file in $root; correct the" \
        "line$([ "$key" = train ] || echo ", or remove it to have a tenth of the images set aside")"
    done < <(yaml_values "$annotations" "$key")
    [ ${#paths[@]} = 0 ] || return 0
  done
}

find_yolo() {  # SPLIT
  local paths=() folder yaml_base=$root
  annotations=$(yolo_classes)
  [ -n "$annotations" ] || return 1
  if [[ ${annotations,,} == *.y?(a)ml ]]; then
    yaml_base=$(yaml_values "$annotations" path | sed -n 1p)
    [[ $yaml_base == /* ]] || yaml_base=$root/$yaml_base
    yaml_paths "$1"
  else
    mapfile -t paths < <(file_of_split "$1" "${root%/}"/@(train|val?(id)|test).txt)
  fi
  if [ ${#paths[@]} = 0 ]; then
    while IFS= read -r folder; do
      if has_images "$folder"; then paths=("$folder"); break; fi
    done < <(split_folders "$(entry "$root" images)" "$1"; split_folders "$root" "$1"
      [ "$1" != train ] || { entries "$root" images obj_train_data; echo "$root"; })
  fi
  [ ${#paths[@]} -gt 0 ] || return 1
  if [ ${#paths[@]} = 1 ] && [ -d "${paths[0]}" ]; then images=${paths[0]}; return; fi
  images=$output/lists/$1/images
  link_images "$output/lists/$1" "${paths[@]}"
}

# One folder of images and one of labels, of links to the images that lie in several folders or that
# text files list, and to their labels: beside the images, or by Ultralytics' rule.
link_images() {  # OUTPUT PATHS
  local path label folder number lost="" kind
  local -A number_of=()
  rm -rf "$1"
  mkdir -p "$1"/{images,labels}
  while IFS= read -r path; do
    path=${path%$'\r'}
    [ -n "$path" ] || continue
    if ! resolve "${path#./}"; then lost=${lost:-$path}; continue; fi
    path=$resolved
    [[ $path == /* ]] || path=$PWD/$path
    folder=${path%/*}
    number=${number_of[$folder]:=$((${#number_of[@]} + 1))}
    label=${path%.*}.txt
    if [[ $label == */images/* && -e ${label%/images/*}/labels/${label##*/images/} ]]; then
      label=${label%/images/*}/labels/${label##*/images/}
    fi
    printf '%s\0' "$path" >>"$1/images.$number"
    [ ! -e "$label" ] || printf '%s\0' "$label" >>"$1/labels.$number"
  done < <(for path in "${@:2}"; do
    if [ -d "$path" ]; then find -L "$path" "${image_files[@]}"; else cat "$path"; fi
  done | LC_ALL=C sort -u)
  [ -z "$lost" ] || fail 66 "${*:2}: the image $lost is not in $root"
  for number in "${number_of[@]}"; do
    for kind in images labels; do
      mkdir -p "$1/$kind/$number"
      [ ! -e "$1/$kind.$number" ] || xargs -0 -a "$1/$kind.$number" ln -s -t "$1/$kind/$number"
      rm -f "$1/$kind.$number"
    done
  done
}

# --- COCO and CSV ----------------------------------------------------------------------------------
# By what a file has near its ends: COCO's own have hundreds of megabytes.
is_coco() {  # FILE
  case ${1##*/} in
    instances_*.json | _annotations.coco.json) return ;;
    captions_* | person_keypoints_* | image_info_* | panoptic_* | stuff_*) return 1 ;;
  esac
  [[ $(head -c 64 "$1" | tr -d '\0\357\273\277 \t\r\n') == '{'* ]] &&
    { head -c 65536 "$1"; tail -c 65536 "$1"; } |
    grep -aEc '"(images|annotations)"[[:space:]]*:' >/dev/null
}

# Some names of images of the file.
coco_image_names() {  # FILE
  { head -c 1000000 "$1"; tail -c 1000000 "$1"; } |
    grep -aoE '"file_name"[[:space:]]*:[[:space:]]*"[^"]*"' |
    sed -E 's/^[^:]*:[[:space:]]*"//; s/"$//; s/\\\//\//g' | sed -n 1,50p
}

find_coco() {  # SPLIT
  annotations=$(annotation_file "$1" is_coco 'instances_*.json')
  annotations=${annotations:-$(annotation_file "$1" is_coco '*.json')}
  [ -n "$annotations" ] || return 1
  images=$(coco_image_names "$annotations" | folder_of_images "$(dirname "$annotations")" "$1")
  has_images "$images"
}

# Whether the first line names a box's columns, or one of the first has an image's name and the four
# numbers of a box, or none.
is_csv_of_boxes() {  # FILE
  head -n 1 "$1" | tr -d ' "_\r' | grep -aiEc '(^|[,;])(xmin|x1|bbox|xcent(er|re)|left|x)([,;]|$)' >/dev/null ||
    head -n 100 "$1" | grep -aiE "$image_ending\\b" |
    grep -aEc '([,;]"?-?[0-9]+(\.[0-9]+)?"?.*){4}|,,,,,' >/dev/null
}

find_csv() {  # SPLIT
  annotations=$(annotation_file "$1" is_csv_of_boxes '*.csv')
  [ -n "$annotations" ] || return 1
  images=$(head -n 50 "$annotations" | tr -d '\r"' | tr ',;' '\n' | grep -aiE "$image_ending\$" |
    folder_of_images "$(dirname "$annotations")" "$1")
  has_images "$images"
}

# --- xView and DOTA --------------------------------------------------------------------------------
is_xview() { head -c 65536 "$1" | grep -ac '"bounds_imcoords"' >/dev/null; }  # FILE

find_xview() {  # SPLIT
  annotations=$(annotation_file "$1" is_xview '*.geojson')
  [ -n "$annotations" ] || return 1
  images=$({ head -c 1000000 "$annotations" | grep -aoE '"image_id"[[:space:]]*:[[:space:]]*"[^"]*"' |
    sed -E 's/^[^:]*:[[:space:]]*"//; s/"$//' | uniq | sed -n 1,50p; } |
    folder_of_images "$(dirname "$annotations")" "$1")
  has_images "$images"
}

# labelTxt, of several versions the newest. It may hold a folder of its own, and beside that one of the
# boxes' upright hulls.
find_dota_in() {  # FOLDER
  annotations=$(entries "$1" 'labeltxt*' | tail -n 1)
  images=$(entry "$1" images)
  [ -n "$images" ] && [ -n "$annotations" ] || return 1
  has_entry "$annotations" '*.txt' || annotations=$(entry "$annotations" '!(*hbb*|*rec*)')
  has_entry "$annotations" '*.txt'
}

find_dota() {  # SPLIT
  local folder
  while IFS= read -r folder; do
    if find_dota_in "$folder"; then return; fi
  done < <(split_folders "$root" "$1")
  annotations=$(split_folders "$(entry "$root" 'labeltxt*')" "$1" | sed -n 1p)
  images=$(split_folders "$(entry "$root" images)" "$1" | sed -n 1p)
  if [ -n "$images" ] && has_entry "$annotations" '*.txt'; then return; fi
  [ "$1" = train ] && find_dota_in "$root"
}

# --- Classification --------------------------------------------------------------------------------
find_cifar10() {  # SPLIT
  images=$root
  [ "$1" = train ] || images=$(entry "$root" test_batch.bin)
  [ -n "$images" ]
}

# Two folders of images at least, none of which is a part of detection data.
has_classes() {  # FOLDER
  local folder image count=0
  while IFS= read -r folder; do
    image=$(an_image "$folder")
    if [ -d "$folder" ] && [ -n "$image" ]; then count=$((count + 1)); fi
    if has_label "$image" || has_entry "$folder" "${detection_names[@]}"; then return 1; fi
    if [ $count = 2 ]; then return; fi
  done < <(entries "$1" '*')
  return 1
}

# Whether beside the image lies an XML or JSON file of its own, or lines as YOLO has them.
has_label() {  # IMAGE
  local stem=${1%.*}
  [ -n "$1" ] || return 1
  [ -e "$stem.xml" ] || [ -e "$stem.json" ] ||
    grep -aEqs "$yolo_line" "$stem.txt"
}

find_folders() {  # SPLIT
  local folder train
  train=$(split_folders "$root" train | sed -n 1p)
  for folder in "$root" ${train:+"$train"}; do
    if has_entry "$folder" "${detection_names[@]}"; then return 1; fi
  done
  if [ "$1" = train ]; then images=${train:-$root}; has_classes "$images"; return; fi
  [ -n "$train" ] || return 1
  while IFS= read -r images; do
    if has_entry "$images" "${detection_names[@]}"; then continue; fi
    if has_images "$images" -mindepth 2; then return; fi
  done < <(split_folders "$root" val)
  return 1
}

# --- All -------------------------------------------------------------------------------------------
find_split() { annotations="" images=""; "find_$format" "$1"; }  # SPLIT

# Whether FOLDER itself holds a data set.
find_format() {  # FOLDER
  local candidates=(xview dota voc yolo coco csv folders) split
  root=$1 classes=""
  declare -gA images_of=() annotations_of=()
  if has_entry "$root" 'data_batch_*.bin'; then candidates=(cifar10); fi
  for format in "${candidates[@]}"; do
    find_split train || continue
    images_of[train]=$images annotations_of[train]=$annotations
    if find_split val; then images_of[val]=$images annotations_of[val]=$annotations; fi
    return
  done
  return 1
}

find_data_set() {  # FOLDER
  local folder folders=() found=()
  if ! find_format "$1"; then
    # An archive's own folder, or one of several data sets. Folders in images/ are no classes.
    has_entry "$1" "${detection_names[@]}" ||
      mapfile -t folders < <(entries "$1" '*'; entries "$(entry "$1" VOCdevkit)" '*')
    for folder in "${folders[@]}"; do
      if [ -d "$folder" ] && find_format "$folder"; then found+=("$folder"); fi
    done
    case ${#found[@]},${#folders[@]} in
      0,1) if [ -d "${folders[0]}" ]; then find_data_set "${folders[0]}"; return; fi; no_data_set "$1" ;;
      0,*) no_data_set "$1" ;;
      1,*) find_format "${found[0]}" ;;
      *) fail 66 "$1: holds more than one data set: say which, for example retina-run ${found[0]}" ;;
    esac
  fi
  case $format in
    voc) join_voc ;;
    csv) classes=$(entry "$root" classes.csv class_list.csv) ;;
    xview) classes=$(entry "$root" '*class_labels.txt') ;;
  esac
}

# Says what is missing.
no_data_set() {  # FOLDER
  local layouts="$pages/jobs/README.md, \"Your own data\", shows how files should lie"
  local folder
  while IFS= read -r folder; do
    if { has_entry "$folder" labels && has_entry "$folder" images; } ||
      grep -RqsE --include='*.txt' "$yolo_line" "$folder"; then
      fail 66 "$1: has images and labels as YOLO has them, but no file that names the classes;" \
        "write one, with your names: echo 'names: [cat, dog]' >'$1/data.yaml'"
    fi
  done < <(echo "$1"; split_folders "$1" train)
  if has_entry "$1" "${detection_names[@]}"; then
    fail 66 "$1: looks like a data set for detection, but no annotations and images that belong" \
      "together were found; $layouts"
  fi
  if has_images "$1"; then
    fail 66 "$1: has images, but nothing that says what is on them; $layouts"
  fi
  fail 66 "$1: holds no data set of COCO, YOLO, Pascal VOC, CSV, xView, DOTA or CIFAR-10, and no folders of" \
    "images by class; $layouts"
}
