#!/usr/bin/env bash
# What data set a folder holds and where the images and annotations of its training and validation
# split lie, as tools and platforms export them: the table is in jobs/README.md, "Your own data".
# local.sh reads this file.
#
# shellcheck disable=SC2034,SC2154,SC2016  # what is set here is used there, and the other way round; awk
#
#   find_data_set FOLDER  sets `root`, FOLDER or the folder in it that holds the set, and `format` as
#                         coco-pack names it; ends the script where there is none. What has to be
#                         written for coco-pack goes into $output.
#   find_split SPLIT      of train and val: sets `images`, `annotations`, `classes` and `list` as
#                         coco-pack's options take them; false where the set has no such split.

# The names of a split's folders and files, the best first. What is only there for tests serves as
# validation set where there is no other.
declare -A split_names=(
  [train]="train train2017 training"
  [val]="val valid val2017 validation dev test test2017 testing"
)
image_names=(jpegimages images image imgs img)
pictures=(-iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.png' -o -iname '*.webp' -o -iname '*.bmp'
  -o -iname '*.tif' -o -iname '*.tiff')

# --- Files and folders -----------------------------------------------------------------------------
# Names match in any case, and droppings of other systems do not match. What stands in @() is a
# pattern without a wildcard, too.
shopt -s extglob nocaseglob nullglob

# What FOLDER has of that name or pattern, by name.
entries() {  # FOLDER NAME
  local path
  [ -n "$1" ] || return 0
  for path in "$1"/@($2); do
    [ "${path##*/}" = __MACOSX ] || echo "$path"
  done
}

# The first entry of FOLDER by the order of the names; nothing where there is none.
entry() {  # FOLDER NAMES
  local name path
  [ -n "$1" ] || return 0
  for name in "${@:2}"; do
    for path in "$1"/@($name); do echo "$path"; return; done
  done
}

# The first of the paths that exists.
first_of() {  # PATHS
  local path
  for path in "$@"; do if [ -n "$path" ] && [ -e "$path" ]; then echo "$path"; return; fi; done
}

has_entry() {  # FOLDER NAMES
  local name path
  for name in "${@:2}"; do
    for path in "$1"/@($name); do return; done
  done
  return 1
}

a_picture() {  # FOLDER [FIND'S OPTIONS]
  find -L "$1" "${@:2}" -type f \( "${pictures[@]}" \) ! -name '.*' -print -quit 2>/dev/null
}
has_pictures() { [ -n "$(a_picture "$@")" ]; }

# Whether all pictures of FOLDER are of kinds that coco-pack takes with --convert alone.
wants_conversion() {  # FOLDER
  has_pictures "$1" && [ -z "$(find -L "$1" -type f -iname '*.jp*g' ! -name '.*' -print -quit 2>/dev/null)" ]
}

# The folders that may hold a split, the best first.
split_folders() {  # FOLDER SPLIT
  local name
  for name in ${split_names[$2]}; do entries "$1" "$name"; done
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

# The folder to which image names of annotations in FOLDER, which come in, are relative.
folder_of_images() {  # FOLDER SPLIT
  local images folders name folder names=()
  mapfile -t names
  images=$(entry "$root" "${image_names[@]}")
  mapfile -t folders < <(split_folders "$images" "$2"; split_folders "$root" "$2"
    entry "$1" "${image_names[@]}"; echo "$images"; printf '%s\n' "$1" "$root")
  for name in "${names[@]}"; do
    for folder in "${folders[@]}"; do
      if [ -n "$folder" ] && [ -f "$folder/$name" ]; then echo "$folder"; return; fi
    done
  done
  # A folder that no rule foresees.
  if [ ${#names[@]} -gt 0 ]; then
    folder=$(find -L "$root" -path "*/${names[0]}" -print -quit 2>/dev/null)
    if [ -n "$folder" ]; then echo "${folder%"/${names[0]}"}"; return; fi
  fi
  first_of "${folders[@]}"
}

# --- Pascal VOC ------------------------------------------------------------------------------------
# XML files in a folder for annotations beside that of the images, or together with the images.
find_voc_in() {  # FOLDER
  [ -n "$1" ] || return 1
  annotations=$(entry "$1" annotations annotation xmls xml labels)
  if [ -z "$annotations" ] || ! has_entry "$annotations" '*.xml'; then annotations=$1; fi
  has_entry "$annotations" '*.xml' || return 1
  images=$(entry "$1" "${image_names[@]}")
  images=${images:-$1}
}

find_voc() {  # SPLIT
  local lists=$root/ImageSets/Main folder images_root
  if [ -d "$root/Annotations" ] && [ -e "$lists/train.txt" ] && [ -e "$lists/val.txt" ]; then
    find_voc_in "$root" && annotations=$lists/$1.txt
    return
  fi
  images_root=$(entry "$root" "${image_names[@]}")
  while IFS= read -r folder; do
    if find_voc_in "$folder"; then return; fi
  done < <(split_folders "$root" "$1"; split_folders "$images_root" "$1")
  annotations=$(split_folders "$(entry "$root" annotations annotation xmls labels)" "$1" | sed -n 1p)
  images=$(split_folders "$images_root" "$1" | sed -n 1p)
  if [ -n "$images" ] && [ -n "$annotations" ] && has_entry "$annotations" '*.xml'; then return; fi
  [ "$1" = train ] || return 1
  find_voc_in "$root" || find_voc_in "$images_root" || return 1
  if [ "$annotations" = "$root/Annotations" ]; then
    annotations=$(first_of "$lists/trainval.txt" "$lists/train.txt" "$annotations")
  fi
}

byte_order_mark=$'\xef\xbb\xbf'

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

names_classes() { LC_ALL=C grep -Eq "^($byte_order_mark)?[\"']?names[\"']?[[:space:]]*:" "$1"; }  # FILE

find_yaml() {  # FOLDER
  local file
  while IFS= read -r file; do
    if [ -f "$file" ] && names_classes "$file"; then echo "$file"; return; fi
  done < <(entries "$1" data.yaml; entries "$1" data.yml; entries "$1" '*.yaml'; entries "$1" '*.yml')
}

# Label files and a list of names without a YAML file, as labelImg, Label Studio and CVAT (darknet's
# layout) write them: `yaml` is made of them.
write_yaml() {
  local names labels
  labels=$(entry "$root" labels obj_train_data)
  [ -n "$labels" ] || return 0
  names=$(entry "$root" obj.names classes.txt '*.names')
  names=${names:-$(entry "$labels" classes.txt)}
  [ -n "$names" ] || return 0
  mkdir -p "$output"
  yaml=$output/data.yaml
  {
    echo "path: '$(realpath -s "$root" | sed "s/'/''/g")'"
    local split
    for split in train valid test; do
      if [ -f "$root/$split.txt" ]; then echo "$split: $split.txt"; fi
    done
    echo "names:"
    sed -E "s/[[:space:]]+$//; /^$/d; s/'/''/g; s/^.*$/- '&'/" "$names"
  } >"$yaml"
}

# What a path of the YAML file means here: it is relative to the file's `path`, else to the file.
# Exports have paths of the machine that they were made on, and Roboflow's have a "../" too many: what
# does not exist is looked for without its first folders, but never as a mere "images", which may be
# another split's.
resolve() {  # PATH
  local base folder rest=$1
  base=$(yaml_values "$yaml" path | sed -n 1p)
  case $base in /*) ;; *) base=$root/$base ;; esac
  for folder in "$base" "$root"; do
    case $rest in /*) folder="" ;; esac
    if [ -e "$folder/$rest" ]; then realpath -s "$folder/$rest"; return; fi
  done
  while [[ $rest == */* ]]; do
    rest=${rest#*/}
    if [ "${rest,,}" = images ]; then return; fi
    if [ -n "$rest" ] && [ -e "$root/$rest" ]; then realpath -s "$root/$rest"; return; fi
  done
}

# The folder with images whose labels coco-pack finds: Ultralytics looks below, too.
yolo_images_in() {  # FOLDER
  local below
  below=$(entry "$1" images)
  case $1/ in */images/*) below="" ;; esac
  echo "${below:-$1}"
}

find_yolo() {  # SPLIT
  local key value path paths=() folder
  annotations=$yaml
  if [ "$1" = train ]; then set -- train train; else set -- val val valid validation test; fi
  for key in "${@:2}"; do
    while IFS= read -r value; do
      path=$(resolve "$value")
      [ -n "$path" ] || fail 66 "$yaml: $key: \"$value\" is neither a folder nor a file in DATA=$root"
      paths+=("$path")
    done < <(yaml_values "$yaml" "$key")
    if [ ${#paths[@]} -gt 0 ]; then break; fi
  done
  if [ ${#paths[@]} = 0 ]; then
    while IFS= read -r folder; do
      if has_pictures "$folder"; then paths=("$folder"); break; fi
    done < <(split_folders "$(entry "$root" images)" "$1"; split_folders "$root" "$1")
  fi
  if [ ${#paths[@]} = 0 ] && [ "$1" = train ]; then
    folder=$(entry "$root" images obj_train_data)
    if [ -n "$folder" ]; then paths=("$folder"); fi
  fi
  [ ${#paths[@]} -gt 0 ] || return 1
  if [ ${#paths[@]} = 1 ] && [ -d "${paths[0]}" ]; then
    images=$(yolo_images_in "${paths[0]}")
    return
  fi
  list_images "$1" "${paths[@]}"
}

# Images of several folders, or those that a text file lists: `list` for coco-pack.
list_images() {  # SPLIT PATHS
  local path
  images=$root
  if [ $# = 2 ]; then list=$2; return; fi
  mkdir -p "$output/lists"
  list=$output/lists/$1.txt
  for path in "${@:2}"; do
    if [ -d "$path" ]; then find -L "$path" -type f \( "${pictures[@]}" \) ! -name '.*'; else cat "$path"; fi
  done | sort -u >"$list"
}

# --- COCO ------------------------------------------------------------------------------------------
# By what a file has near its ends: COCO's own have hundreds of megabytes.
is_coco() {  # FILE
  case ${1##*/} in instances_*.json | _annotations.coco.json) return ;; esac
  case ${1##*/} in captions_* | person_keypoints_* | image_info_* | panoptic_* | stuff_*) return 1 ;; esac
  { head -c 65536 "$1"; tail -c 65536 "$1"; } | grep -aEc '"(images|annotations)"[[:space:]]*:' >/dev/null
}

coco_files() {  # FOLDER
  local file
  while IFS= read -r file; do
    if [ -f "$file" ] && is_coco "$file"; then echo "$file"; fi
  done < <(entries "$1" 'instances_*.json'; entries "$1" '*.json' | grep -v '/instances_[^/]*$')
}

# Some names of images of the file.
coco_image_names() {  # FILE
  { head -c 1000000 "$1"; tail -c 1000000 "$1"; } | grep -aoE '"file_name"[[:space:]]*:[[:space:]]*"[^"]*"' |
    sed -E 's/^[^:]*:[[:space:]]*"//; s/"$//; s/\\\//\//g' | sed -n 1,50p
}

find_coco() {  # SPLIT
  local files folder
  annotations=""
  while IFS= read -r folder; do
    mapfile -t files < <(coco_files "$folder")
    if [ ${#files[@]} = 1 ]; then annotations=${files[0]}; break; fi
  done < <(split_folders "$root" "$1")
  for folder in "$(entry "$root" annotations annotation labels)" "$root"; do
    if [ -n "$annotations" ] || [ -z "$folder" ]; then continue; fi
    mapfile -t files < <(coco_files "$folder")
    annotations=$(file_of_split "$1" "${files[@]}")
  done
  [ -n "$annotations" ] || return 1
  images=$(coco_image_names "$annotations" | folder_of_images "$(dirname "$annotations")" "$1")
  has_pictures "$images"
}

# --- CSV -------------------------------------------------------------------------------------------
# Whether a line has an image's name and the four numbers of a box, or none.
is_csv_of_boxes() {  # FILE
  head -n 100 "$1" | grep -aiE '\.(jpe?g|png|webp|bmp|tiff?)\b' |
    grep -aEc '([,;]"?-?[0-9]+(\.[0-9]+)?"?.*){4}|,,,,,' >/dev/null
}

csv_files() {  # FOLDER
  local file
  while IFS= read -r file; do
    if [ -f "$file" ] && is_csv_of_boxes "$file"; then echo "$file"; fi
  done < <(entries "$1" '*.csv')
}

find_csv() {  # SPLIT
  local files folder
  annotations=""
  while IFS= read -r folder; do
    mapfile -t files < <(csv_files "$folder")
    if [ ${#files[@]} = 1 ]; then annotations=${files[0]}; break; fi
  done < <(split_folders "$root" "$1")
  for folder in "$(entry "$root" annotations annotation labels)" "$root"; do
    if [ -n "$annotations" ] || [ -z "$folder" ]; then continue; fi
    mapfile -t files < <(csv_files "$folder")
    annotations=$(file_of_split "$1" "${files[@]}")
  done
  [ -n "$annotations" ] || return 1
  classes=$(entry "$root" classes.csv class_list.csv classes.txt)
  images=$(sed -n '1,50s/[\r"]//g; 1,50p' "$annotations" | tr ',;' '\n' |
    grep -aiE '\.(jpe?g|png|webp|bmp|tiff?)$' | folder_of_images "$(dirname "$annotations")" "$1")
}

# --- Classification --------------------------------------------------------------------------------
find_cifar10() {  # SPLIT
  annotations="" images=$root
  [ "$1" = train ] || images=$(first_of "$root/test_batch.bin")
  [ -n "$images" ]
}

# Names that folders of detection data have, never classes.
annotation_names=(labels annotations annotation imagesets jpegimages obj_train_data xmls)
detection_names=("${image_names[@]}" "${annotation_names[@]}")

# Two folders of pictures at least, none of which is a part of detection data.
has_classes() {  # FOLDER
  local folder picture count=0
  if has_entry "$1" "${detection_names[@]}"; then return 1; fi
  while IFS= read -r folder; do
    picture=$(a_picture "$folder")
    if [ -d "$folder" ] && [ -n "$picture" ]; then count=$((count + 1)); fi
    if has_label "$picture" || has_entry "$folder" "${annotation_names[@]}"; then return 1; fi
    if [ $count = 2 ]; then return; fi
  done < <(entries "$1" '*')
  return 1
}

# Whether beside the picture lies an XML or JSON file of its own, or lines as YOLO has them.
has_label() {  # PICTURE
  local stem=${1%.*}
  [ -n "$1" ] || return 1
  [ -e "$stem.xml" ] || [ -e "$stem.json" ] ||
    grep -aEqs '^[0-9]+([[:space:]]+[-+.0-9e]+){4,}[[:space:]]*$' "$stem.txt"
}

find_folders() {  # SPLIT
  local folder train
  annotations="" images=""
  train=$(split_folders "$root" train | sed -n 1p)
  if [ "$1" = train ]; then images=${train:-$root}; has_classes "$images"; return; fi
  [ -n "$train" ] || return 1
  while IFS= read -r folder; do
    if has_entry "$folder" "${detection_names[@]}"; then continue; fi
    if has_pictures "$folder" -mindepth 2; then images=$folder; return; fi
  done < <(split_folders "$root" val)
  return 1
}

# --- Classes of both splits --------------------------------------------------------------------------
voc_classes() {  # FOLDERS
  find -L "$@" -maxdepth 1 -iname '*.xml' ! -name '.*' -print0 | LC_ALL=C xargs -0 awk '
    BEGIN { RS = "<" }
    /^object[ >]/ { within = 1 }
    within && /^name>/ {
      name = substr($0, 6); within = 0
      gsub(/[ \t\r\n]+$|^[ \t\r\n]+/, "", name)
      gsub(/&lt;/, "<", name); gsub(/&gt;/, ">", name); gsub(/&quot;/, "\"", name)
      gsub(/&apos;/, "\047", name); gsub(/&amp;/, "\\&", name)
      print name
    }'
}

csv_classes() {  # FILES
  LC_ALL=C awk -F '[,;]' '
    { sub(/\r$/, ""); gsub(/"/, "") }
    FNR == 1 {
      sub(/^\357\273\277/, "")
      column = 6
      for (i = 1; i <= NF; ++i)
        if (tolower($i) ~ /^ *((class|label|category)_?(name)?|name) *$/) { column = i; next }
    }
    $column != "" { gsub(/^ +| +$/, "", $column); print $column }' "$@"
}

# The classes of VOC and CSV are numbered by the files of one set: where the splits have files of their
# own, `classes` becomes a list of both splits' classes.
share_classes() {  # ANNOTATIONS OF EACH SPLIT
  case $format in
    voc) if [ ! -d "$1" ] || [ "$1" = "$2" ]; then return; fi ;;
    csv) if [ -n "$classes" ] || [ "$1" = "$2" ]; then return; fi ;;
    *) return ;;
  esac
  mkdir -p "$output"
  classes=$output/classes.csv
  "${format}_classes" "$@" | LC_ALL=C sort -u |
    awk '{ gsub(/"/, "\"\""); print "\"" $0 "\"," NR }' >"$classes"
}

# --- All -------------------------------------------------------------------------------------------
find_split() {  # SPLIT
  images="" annotations="" classes="" list=""
  "find_$format" "$1"
}

# Sets `format` where FOLDER itself holds a data set.
find_format() {  # FOLDER
  root=$1
  yaml=$(find_yaml "$root")
  [ -n "$yaml" ] || write_yaml
  local candidates=(voc ${yaml:+yolo} coco csv folders)
  if has_entry "$root" 'data_batch_*.bin'; then candidates=(cifar10); fi
  for format in "${candidates[@]}"; do
    if find_split train; then return; fi
  done
  return 1
}

find_data_set() {  # FOLDER
  local folder found=()
  if find_format "$1"; then return; fi
  # An archive's own folder, or one of several data sets. Folders in images/ are no classes.
  if ! has_entry "$1" "${detection_names[@]}"; then
    while IFS= read -r folder; do
      if [ -d "$folder" ] && find_format "$folder"; then found+=("$folder"); fi
    done < <(entries "$1" '*'; entries "$(entry "$1" VOCdevkit)" '*')
  fi
  case ${#found[@]} in
    1) find_format "${found[0]}"; return ;;
    0) no_data_set "$1" ;;
    *) fail 66 "DATA=$1 holds more than one data set: say which, for example DATA=${found[0]}" ;;
  esac
}

# Says what is missing.
no_data_set() {  # FOLDER
  local layouts='jobs/README.md, "Your own data", tells how files should lie'
  local folder
  while IFS= read -r folder; do
    if has_entry "$folder" labels && has_entry "$folder" images; then
      fail 66 "DATA=$1 has images and labels as YOLO has them, but no YAML file that names the classes;" \
        "write one, with your names: echo 'names: [cat, dog]' >$1/data.yaml"
    fi
  done < <(echo "$1"; split_folders "$1" train)
  if has_entry "$1" "${detection_names[@]}"; then
    fail 66 "DATA=$1 looks like a data set for detection, but no annotations and images that belong" \
      "together were found; $layouts"
  fi
  if has_pictures "$1"; then
    fail 66 "DATA=$1 has pictures, but nothing that says what is on them; $layouts"
  fi
  fail 66 "DATA=$1 holds no data set of COCO, YOLO, Pascal VOC, CSV or CIFAR-10, and no folders of" \
    "pictures by class; $layouts"
}
