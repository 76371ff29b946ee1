# Downloads that continue after an interruption, verified by size and SHA-256: for
# jobs/fetch_coco.sh and docker/retina-weights, which source this. They first set the `url` of the
# files and the `url_variable` of the environment that names a mirror.
# shellcheck shell=bash
# shellcheck disable=SC2154  # the two names above

readonly stalled_attempts=3  # downloads in a row that bring nothing

fail() { echo "${0##*/}: error: $2" >&2; exit "$1"; }
say() { echo "${0##*/}: $*" >&2; }
human() { numfmt --to=iec-i --suffix=B --format=%.1f "$1"; }
size_of() { stat -c %s "$1" 2>/dev/null || echo 0; }

need_tools() {  # NAME...
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || fail 69 "$tool: is not installed; hint: apt-get install $tool"
  done
}

# Makes the folder for downloads and takes its lock. Some mounts have no locks.
open_downloads() {  # FOLDER OF THE USER, FOLDER BELOW IT
  local code=0
  if ! mkdir -p "$2" 2>/dev/null || [ ! -w "$2" ]; then
    fail 73 "$1: cannot be written; hint: choose another folder"
  fi
  exec 9>"$2/.lock"
  flock --nonblock --conflict-exit-code 200 9 2>/dev/null || code=$?
  [ "$code" != 200 ] || fail 78 "$1: another fetch is writing to this folder"
}

explain_curl() {  # CODE FILE PATH -> ends the script with what curl's exit code means
  case $1 in
    1 | 3) fail 64 "$url: is not a URL; hint: give $url_variable as https://HOST/FOLDER" ;;
    5) fail 69 "$url: the proxy cannot be found; hint: correct https_proxy, or unset it" ;;
    6) fail 69 "$url: the host name cannot be resolved (no network?); hint: set $url_variable to a mirror" ;;
    7 | 28) fail 69 "$url: no connection, or too slow; hint: is the network up? $url_variable names a mirror" ;;
    22) fail 69 "$url/$2: the server refused it (HTTP status 400 or above); hint: try later, or set $url_variable \
to another mirror" ;;
    23) fail 74 "$(dirname "$3"): writing failed; hint: is the disk full?" ;;
    60 | 77) fail 69 "$url: its certificate cannot be checked; hint: apt-get install ca-certificates" ;;
    *) fail 69 "$url/$2: the download stopped (curl exit $1); hint: run the same command again" ;;
  esac
}

# Finds out before the download whether it would be a different file from the table's. Where BYTES is
# -, the server says how many: in `bytes` of the caller.
check_offer() {  # FILE BYTES PATH
  local offered code=0
  offered=$(curl --silent --fail --location --head --connect-timeout 20 --output /dev/null \
    --write-out '%header{content-length}' "$url/$1") || code=$?
  [ "$code" = 0 ] || explain_curl "$code" "$1" "$3"
  if [ "$2" = - ]; then
    [ -n "$offered" ] || fail 65 "$url/$1: the server does not tell its size; hint: set $url_variable to a mirror"
    bytes=$offered
    return
  fi
  [ -z "$offered" ] || [ "$offered" = "$2" ] ||
    fail 65 "$url/$1: is another file (got $offered bytes, want $2); hint: set $url_variable to a mirror"
}

# Removes what cannot be continued: it is not the file that the table names, by the whole hash or its
# beginning.
check_hash() {  # FILE SHA256 PATH
  local got
  say "${1##*/}: checking"
  got=$(sha256sum <"$3")
  [[ ${got%% *} == "$2"* ]] || {
    rm -f "$3"
    fail 65 "$url/$1: is damaged or another file, and was removed (got SHA-256 ${got%% *}, want $2); \
hint: run the same command again, or set $url_variable to a mirror"
  }
}

# Downloads to PATH, continuing what is there. What is at PATH itself is checked again: nobody knows
# who put it there.
download() {  # FILE BYTES SHA256 PATH
  local file=$1 bytes=$2 path=$4 part=$4.part before code stalled=0 progress=--no-progress-meter
  [ "$bytes" != - ] || [ ! -s "$path" ] || bytes=$(size_of "$path")
  if [ "$(size_of "$path")" = "$bytes" ]; then
    check_hash "$file" "$3" "$path"
    return
  fi
  check_offer "$file" "$bytes" "$path"
  [ ! -t 2 ] || progress=--progress-bar
  say "${path##*/}: fetching $(human "$bytes"), $(human "$(size_of "$part")") are there"
  while [ "$(size_of "$part")" -lt "$bytes" ]; do
    before=$(size_of "$part") code=0
    curl --fail --location "$progress" --continue-at - --connect-timeout 20 --speed-limit 1000 \
      --speed-time 60 --output "$part" "$url/$file" || code=$?
    case $code in
      0 | 5 | 6 | 7 | 18 | 28 | 35 | 52 | 55 | 56 | 92) ;;  # a line that breaks: what came is kept
      33) rm -f "$part" ;;                                 # this server cannot continue
      *) explain_curl "$code" "$file" "$path" ;;
    esac
    if [ "$(size_of "$part")" -gt "$before" ]; then stalled=0; else stalled=$((stalled + 1)); fi
    [ "$stalled" -lt "$stalled_attempts" ] || explain_curl "$code" "$file" "$path"
    sleep "$stalled"  # a short outage must not use up all attempts
  done
  [ "$(size_of "$part")" = "$bytes" ] || {
    rm -f "$part"
    fail 65 "$url/$file: has a different size than published (want $bytes bytes); hint: set \
$url_variable to a mirror"
  }
  check_hash "$file" "$3" "$part"
  mv "$part" "$path"
}
