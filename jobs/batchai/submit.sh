#!/usr/bin/env bash
# Runs the whole job on Azure Batch AI, step by step. That service closed on March 31, 2019: this is
# kept as the original shape of the job. Today's page is ../azureml/README.md; README.md beside this
# has the rest.
set -euo pipefail
umask 077

jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly jobs
readonly walk=(check login providers role group storage upload workspace experiment cluster
  pack train eval convert download scale-down)
# With --auto-storage the storage account comes with the cluster.
readonly auto_walk=(check login providers role group workspace experiment cluster storage upload
  pack train eval convert download scale-down)
readonly others=(scale-up status logs node-logs clean-up)
# The application of Microsoft Azure BatchAI in the public cloud.
readonly service_principal=9fcb3732-5f52-4135-8c08-9d4bbaf203ea
readonly auto_group=batchaiautostorage  # az's name for it

usage() {
  cat <<END
usage: submit.sh [STEP...] --storage-account NAME [options]

Steps: ${walk[*]}
       (all of these in this order: the default, or "all"),
       ${others[*]}

  --nodes N  --gpus-per-node G  size of the training (default: that of job.toml)
  --storage-account NAME        to be made, or yours; not with --auto-storage
  --image NAME                  the container image (default: that of job.toml)
  --data DIR                    COCO: annotations, train2017, val2017 (default coco)
  --results DIR                 checkpoints and logs come here (default batchai-results)
  --resource-group NAME         default retina-batchai
  --location PLACE              default eastus
  --workspace, --experiment, --cluster NAME
  --subscription ID             default: the one that az has selected
  --ssh-key FILE                public key for the nodes (default ~/.ssh/id_rsa.pub)
  --vm-size SIZE                another than that of cluster.json
  --low-priority                nodes that can vanish at any moment, for less
  --auto-storage                let az make and mount the storage account
  --custom-toolkit              train by retina-launch instead of the service's mpirun
  --restarts N                  start a job that ended with 75 or 76 again (default 5)
  --poll S, --node-wait S       between questions (15), for nodes to come (3600)
  --state DIR                   what was made is noted here
  --clean-up, --yes             delete all that was made; do not ask first
  --dry-run                     print the az and azcopy commands, do nothing
  --service-exists              you do have a Batch AI service

For a private image: RETINA_REGISTRY_USERNAME, RETINA_REGISTRY_PASSWORD in the environment.
END
}

say() { echo "submit.sh: $*" >&2; }
die() {  # CODE TEXT
  echo "submit.sh: error: $2" >&2
  exit "$1"
}

nodes='' gpus='' image='' data=coco results=batchai-results vm_size='' subscription=''
account=${AZURE_BATCHAI_STORAGE_ACCOUNT:-} group=retina-batchai location=eastus
workspace=retina experiment=coco cluster=retina-nodes
ssh_key=$HOME/.ssh/id_rsa.pub low_priority='' auto='' toolkit='' restarts=5 poll=15
state_folder=${XDG_STATE_HOME:-$HOME/.local/state}/retina-batchai node_wait=3600
yes='' dry='' exists='' steps=()

value_of() {
  if [ $# -lt 2 ] || [ -z "$2" ]; then
    die 64 "$1 wants a value; hint: submit.sh --help"
  fi
}
while [ $# -gt 0 ]; do
  case $1 in
    --nodes | --gpus-per-node | --image | --storage-account | --data | --results | --location | \
      --resource-group | --workspace | --experiment | --cluster | --subscription | --ssh-key | \
      --vm-size | --restarts | --poll | --node-wait | --state)
      value_of "$@"
      case $1 in
        --nodes) nodes=$2 ;; --gpus-per-node) gpus=$2 ;; --image) image=$2 ;;
        --storage-account) account=$2 ;; --data) data=$2 ;; --results) results=$2 ;;
        --location) location=$2 ;; --resource-group) group=$2 ;; --workspace) workspace=$2 ;;
        --experiment) experiment=$2 ;; --cluster) cluster=$2 ;; --ssh-key) ssh_key=$2 ;;
        --subscription) subscription=$2 ;; --vm-size) vm_size=$2 ;; --poll) poll=$2 ;;
        --restarts) restarts=$2 ;; --node-wait) node_wait=$2 ;; --state) state_folder=$2 ;;
      esac
      shift
      ;;
    --low-priority) low_priority=1 ;; --auto-storage) auto=1 ;; --custom-toolkit) toolkit=1 ;;
    --clean-up) steps+=(clean-up) ;; --yes) yes=1 ;; --dry-run) dry=1 ;;
    --service-exists) exists=1 ;;
    --help) usage && exit 0 ;;
    -*) die 64 "$1: unknown option; hint: submit.sh --help" ;;
    *) steps+=("$1") ;;
  esac
  shift
done

# --- What every step needs -----------------------------------------------------------------------

for number in "$nodes" "$gpus" "$restarts" "$node_wait"; do
  [[ $number =~ ^[0-9]*$ ]] || die 64 "$number: want a whole number"
done
[[ $nodes != 0 && $gpus != 0 ]] || die 64 "--nodes and --gpus-per-node want at least 1"
[[ $poll =~ ^[0-9]+(\.[0-9]+)?$ ]] || die 64 "--poll $poll: want seconds"
[ -z "$auto" ] || [ -z "$account" ] ||
  die 78 "--storage-account and --auto-storage: want one; hint: az makes that of the latter"
[ "${#steps[@]}" -gt 0 ] || steps=(all)
all_steps=()
for step in "${steps[@]}"; do
  case " ${walk[*]} ${others[*]} all " in
    *" $step "*) ;;
    *) die 64 "$step: no such step; hint: submit.sh --help" ;;
  esac
  if [ "$step" != all ]; then
    all_steps+=("$step")
  elif [ -n "$auto" ]; then
    all_steps+=("${auto_walk[@]}")
  else
    all_steps+=("${walk[@]}")
  fi
done
if [ -z "$dry" ] && [ -z "$exists" ]; then
  die 69 "Azure Batch AI: closed on March 31, 2019; hint: read jobs/azureml/README.md, \
or see what this did with --dry-run"
fi
if [ -z "$account$auto" ]; then
  [ -n "$dry" ] || die 64 "--storage-account: missing; hint: 3 to 24 small letters and digits"
  account=mystorageaccount
fi

table=$(python3 -c 'import sys, tomllib
job = tomllib.load(open(sys.argv[1], "rb"))
print(job["size"]["nodes"], job["size"]["gpus_per_node"], job["train"]["name"],
      job["storage"]["container"], job["storage"]["share"])' "$jobs/job.toml")
read -r table_nodes table_gpus run_name container share <<<"$table"
nodes=${nodes:-$table_nodes} gpus=${gpus:-$table_gpus}
storage_group=$group
if [ -n "$auto" ]; then
  container=batchaicontainer share=batchaishare storage_group=$auto_group
fi

work=job-files streams=()
finish() {
  [ "${#streams[@]}" = 0 ] || kill "${streams[@]}" 2>/dev/null || true
  [ -n "$dry" ] || rm -rf "$work"
}
if [ -z "$dry" ]; then
  work=$(mktemp -d)
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
fi
readonly made=$state_folder/made-$group

# azcopy takes az's login: keys are never on a command line.
export AZCOPY_AUTO_LOGIN_TYPE=AZCLI

show() {
  local word line=''
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_@%+=:,./-]+$ ]] || word=${word@Q}
    line+="$word "
  done
  echo "${line% }"
}

# "az group create" of a whole command.
name_of() {
  local word name=''
  for word in "$@"; do
    [ "${word#-}" = "$word" ] || break
    name+="$word "
  done
  echo "${name% }"
}

failed() {  # EXIT-CODE COMMAND...
  die 69 "$(name_of "${@:2}"): failed (exit $1); hint: its message is above"
}

# Runs a command that changes something; its result is not shown.
run() {
  if [ -n "$dry" ]; then
    show "$@"
    return
  fi
  show "$@" >&2
  "$@" >/dev/null || failed $? "$@"
}

# ask NAME ANSWER COMMAND...: sets NAME to what the command prints; ANSWER is a dry run's.
ask() {
  local -n answer_of_ask=$1
  if [ -n "$dry" ]; then
    show "${@:3}"
    answer_of_ask=$2
    return
  fi
  # shellcheck disable=SC2034  # it is another variable's second name
  answer_of_ask=$("${@:3}") || failed $? "${@:3}"
}

# Whether the command, which lists names, prints NAME; a dry run finds nothing there.
is_listed() {  # NAME COMMAND...
  local names
  ask names '' "${@:2}"
  grep -qxF -- "$1" <<<"$names"
}

# What is to be deleted again, noted before it is made: a stop in between leaves nothing behind.
dry_notes=()
note() {  # KIND NAME...
  local line
  line=$(IFS=$'\t' && echo "$*")
  if [ -n "$dry" ]; then
    dry_notes=("$line" "${dry_notes[@]}")
    return
  fi
  mkdir -p "$state_folder" || die 73 "$state_folder: cannot be made; hint: --state DIR"
  grep -qsxF -- "$line" "$made" || echo "$line" >>"$made"
}

job_files_made=''
need_job_files() {
  if [ -n "$job_files_made" ]; then
    return
  fi
  job_files_made=1
  local options=(--nodes "$nodes" --gpus-per-node "$gpus" --output "$work")
  [ -z "$image" ] || options+=(--image "$image")
  if [ -n "$dry" ]; then
    say "the job files: jobs/render.py $(show "${options[@]}")"
    return
  fi
  python3 "$jobs/render.py" "${options[@]}"
  python3 "$jobs/batchai/fill_in.py" ${auto:+--auto-storage} "$work/batchai"/*.json
}

subscription_id=''
need_subscription() {
  [ -n "$subscription_id" ] ||
    ask subscription_id SUBSCRIPTION az account show --query id --output tsv
}

# Keys go to az through the environment: for the placeholders in cluster.json, and `az storage`.
key_is_there=''
need_keys() {
  local key
  [ -z "$key_is_there" ] || return 0
  if [ -z "$account" ]; then
    ask account AUTOSTORAGEACCOUNT az storage account list --resource-group "$auto_group" \
      --query "[?primaryLocation=='$location'].name" --output tsv
    [ -n "$account" ] || die 66 "$auto_group: no account in $location; hint: submit.sh cluster"
  fi
  if [ "${AZURE_BATCHAI_STORAGE_ACCOUNT:-}" != "$account" ] ||
    [ -z "${AZURE_BATCHAI_STORAGE_KEY:-}" ]; then
    ask key KEY az storage account keys list --account-name "$account" \
      --resource-group "$storage_group" --query '[0].value' --output tsv
    export AZURE_BATCHAI_STORAGE_ACCOUNT=$account AZURE_BATCHAI_STORAGE_KEY=$key
  fi
  export AZURE_STORAGE_ACCOUNT=$account AZURE_STORAGE_KEY=$AZURE_BATCHAI_STORAGE_KEY
  key_is_there=1
}

in_workspace=(--resource-group "$group" --workspace "$workspace")
in_experiment=("${in_workspace[@]}" --experiment "$experiment")

# --- Before the cluster --------------------------------------------------------------------------

at_least() {  # HAVE WANT
  [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

step_check() {
  local version
  if [ -z "$dry" ]; then
    for program in az azcopy python3; do
      command -v "$program" >/dev/null ||
        die 69 "$program: not found; hint: see jobs/batchai/README.md"
    done
    python3 -c 'import jinja2' 2>/dev/null ||
      die 69 "Jinja2: missing; hint: apt-get install python3-jinja2"
    [ -r "$ssh_key" ] ||
      die 66 "$ssh_key: no such key; hint: ssh-keygen -t rsa -b 4096, or --ssh-key FILE"
    grep -q '^ssh-rsa ' "$ssh_key" || die 65 "$ssh_key: not a public RSA key, which az demands"
  fi
  ask version 'azure-cli 2.0.38' az --version
  version=$(grep '^azure-cli' <<<"$version" | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1 || true)
  at_least "${version:-0}" 2.0.38 || die 69 "az ${version:-?}: too old; hint: want 2.0.38 or later"
  ask version '' az batchai --help
  ask version 'azcopy version 10.24.0' azcopy --version
  version=$(grep -oE '[0-9]+(\.[0-9]+)+' <<<"$version" | head -n 1 || true)
  at_least "${version:-0}" 10.24 ||
    die 69 "azcopy ${version:-?}: too old; hint: want 10.24 or later"
}

step_login() {
  if [ -n "$dry" ] || ! az account show --query id --output tsv >/dev/null 2>&1; then
    [ -z "$dry" ] || show az account show --query id --output tsv
    run az login
  fi
  [ -z "$subscription" ] || run az account set --subscription "$subscription"
  need_subscription
}

step_providers() {
  local provider now until=$((SECONDS + node_wait))
  for provider in Microsoft.Batch Microsoft.BatchAI Microsoft.Storage; do
    local question=(az provider show --namespace "$provider" --query registrationState --output tsv)
    ask now NotRegistered "${question[@]}"
    [ "$now" != Registered ] || continue
    run az provider register --namespace "$provider"
    ask now Registered "${question[@]}"
    while [ "$now" != Registered ]; do
      say "$provider: $now"
      [ "$SECONDS" -lt "$until" ] ||
        die 75 "$provider: $now after $node_wait s; hint: the same command goes on waiting"
      sleep "$poll"
      ask now Registered "${question[@]}"
    done
  done
}

grant() {  # ROLE WHO SCOPE
  local there
  ask there '' az role assignment list --role "$1" --assignee "$2" --scope "$3" \
    --query '[].id' --output tsv
  [ -z "$there" ] || return 0
  note role "$1" "$2" "$3"
  run az role assignment create --role "$1" --assignee "$2" --scope "$3"
}

step_role() {
  need_subscription
  grant 'Network Contributor' "$service_principal" "/subscriptions/$subscription_id"
}

step_group() {
  local there
  ask there false az group exists --name "$group"
  [ "$there" != true ] || return 0
  note group "$group"
  run az group create --name "$group" --location "$location"
}

step_storage() {
  local there folder
  if [ -z "$auto" ]; then
    if ! is_listed "$account" az storage account list --resource-group "$group" \
      --query '[].name' --output tsv; then
      note storage "$account"
      run az storage account create --name "$account" --resource-group "$group" \
        --location "$location" --sku Standard_LRS
    fi
    need_keys
    ask there false az storage share exists --account-name "$account" --name "$share" \
      --query exists --output tsv
    if [ "$there" != true ]; then
      note share "$account" "$share"
      run az storage share create --account-name "$account" --name "$share"
    fi
    ask there false az storage container exists --account-name "$account" --name "$container" \
      --query exists --output tsv
    if [ "$there" != true ]; then
      note container "$account" "$container"
      run az storage container create --account-name "$account" --name "$container"
    fi
  fi
  need_keys
  for folder in logs runs models; do
    run az storage directory create --account-name "$account" --share-name "$share" --name "$folder"
  done
}

step_upload() {
  local who scope split url
  if [ -z "$dry" ]; then
    for split in train2017 val2017; do
      if [ ! -d "$data/$split" ] || [ ! -r "$data/annotations/instances_$split.json" ]; then
        die 66 "$data: no COCO 2017 ($split); hint: make coco DATA=$data, or --data DIR"
      fi
    done
  fi
  need_keys
  ask who USER az account show --query user.name --output tsv
  ask scope "ID_OF_$account" az storage account show --name "$account" \
    --resource-group "$storage_group" --query id --output tsv
  grant 'Storage Blob Data Contributor' "$who" "$scope"
  url=https://$account.blob.core.windows.net/$container
  for split in annotations train2017 val2017; do
    local from=$data/$split to=$url/images/$split
    [ "$split" != annotations ] || to=$url/annotations
    if [ -n "$dry" ]; then
      show azcopy sync "$from" "$to"
      continue
    fi
    show azcopy sync "$from" "$to" >&2
    azcopy sync "$from" "$to" >&2 || die 74 "$from: the upload failed; hint: a role that was just \
granted takes minutes to work; the same command sends what is missing"
  done
}

step_workspace() {
  if is_listed "$workspace" az batchai workspace list --resource-group "$group" \
    --query '[].name' --output tsv; then
    return
  fi
  note workspace "$workspace"
  run az batchai workspace create "${in_workspace[@]}" --location "$location"
}

step_experiment() {
  if is_listed "$experiment" az batchai experiment list "${in_workspace[@]}" \
    --query '[].name' --output tsv; then
    return
  fi
  note experiment "$workspace" "$experiment"
  run az batchai experiment create "${in_workspace[@]}" --name "$experiment"
}

# --- The cluster ---------------------------------------------------------------------------------

cluster_figures=(az batchai cluster show "${in_workspace[@]}" --name "$cluster" --query
  "[allocationState,nodeStateCounts.idleNodeCount,nodeStateCounts.runningNodeCount,\
nodeStateCounts.preparingNodeCount,nodeStateCounts.leavingNodeCount,\
nodeStateCounts.unusableNodeCount,errors[0].message]" --output tsv)

# Sets $cluster_line and the counts from the answer to cluster_figures.
read_figures() {  # ANSWER
  local figures
  mapfile -t figures <<<"$1"
  allocation=${figures[0]} idle=${figures[1]} running=${figures[2]} preparing=${figures[3]}
  leaving=${figures[4]} unusable=${figures[5]} cluster_error=${figures[6]:-None}
  cluster_line="$allocation, $idle idle, $running running, $preparing preparing, $leaving leaving, \
$unusable unusable"
}

wait_for_nodes() {  # COUNT
  local answer last='' until=$((SECONDS + node_wait)) failures=0
  while true; do
    if [ -n "$dry" ]; then
      show "${cluster_figures[@]}"
      return
    fi
    if answer=$("${cluster_figures[@]}"); then
      failures=0
      read_figures "$answer"
      [ "$cluster_line" = "$last" ] || say "$cluster: $cluster_line"
      last=$cluster_line
      [ "$cluster_error" = None ] || [ "$1" = 0 ] || die 69 "$cluster: $cluster_error"
      if [ "$unusable" != 0 ] && [ "$1" != 0 ]; then
        step_node_logs
        die 69 "$cluster: $unusable nodes are unusable; hint: their logs are in $results/node-logs"
      fi
      if [ "$1" = 0 ]; then
        [ $((idle + running + preparing + leaving + unusable)) != 0 ] || return 0
      elif [ "$allocation" = steady ] && [ $((idle + running)) -ge "$1" ]; then
        return
      fi
    else
      failures=$((failures + 1))
      [ "$failures" -lt 5 ] || die 69 "$cluster: az gives no answer"
    fi
    [ "$SECONDS" -lt "$until" ] || die 75 "$cluster: not ready after $node_wait s (want $1 nodes); \
hint: check the quota of $location; the same command goes on waiting"
    sleep "$poll"
  done
}

step_cluster() {
  local options=() there size
  if is_listed "$cluster" az batchai cluster list "${in_workspace[@]}" \
    --query '[].name' --output tsv; then
    step_scale_up
    return
  fi
  need_job_files
  if [ -z "$dry" ]; then
    size=$(grep -oP '"vmSize": "\K[^"]*' "$work/batchai/cluster.json")
    [ -n "$vm_size" ] || [ "${size#<}" = "$size" ] ||
      die 78 "--gpus-per-node $gpus: no such NC size; hint: 1, 2 or 4, or --vm-size"
  fi
  [ -z "$vm_size" ] || options+=(--vm-size "$vm_size")
  [ -z "$low_priority" ] || options+=(--vm-priority lowpriority)
  if [ -n "$auto" ]; then
    options+=(--use-auto-storage)
    ask there false az group exists --name "$auto_group"
    [ "$there" = true ] || note auto-group "$auto_group"
  else
    need_keys
  fi
  note cluster "$workspace" "$cluster"
  run az batchai cluster create "${in_workspace[@]}" --name "$cluster" \
    --config-file "$work/batchai/cluster.json" --ssh-key "$ssh_key" "${options[@]}"
  wait_for_nodes "$nodes"
  step_node_logs
}

# The logs of setupTask, a folder for each node.
step_node_logs() {
  local suffix
  need_keys
  ask suffix SUFFIX az batchai cluster show "${in_workspace[@]}" --name "$cluster" \
    --query nodeSetup.setupTask.stdOutErrPathSuffix --output tsv
  run az batchai cluster node list "${in_workspace[@]}" --cluster "$cluster"
  [ -n "$dry" ] || mkdir -p "$results/node-logs" || die 73 "$results: cannot be made"
  run az storage file download-batch --account-name "$account" --source "$share" \
    --pattern "logs/$suffix/*" --destination "$results/node-logs"
}

step_scale_down() {
  run az batchai cluster resize "${in_workspace[@]}" --name "$cluster" --target 0
  wait_for_nodes 0
}

step_scale_up() {
  run az batchai cluster resize "${in_workspace[@]}" --name "$cluster" --target "$nodes"
  wait_for_nodes "$nodes"
}

# --- The jobs ------------------------------------------------------------------------------------

# Our own codes pass; 128 + signal and mpirun's word for a lost node are a rank that died.
meaning_of() {  # EXIT CODE OF A JOB
  case $1 in
    1 | 6[4-9] | 7[0-8]) echo "$1" ;;
    129 | 1[3-9][0-9] | 205) echo 76 ;;
    *) echo 1 ;;
  esac
}

# az's streams end with the job; one that hangs is stopped.
end_streams() {
  local until=$((SECONDS + 60))
  while [ -n "$(jobs -rp)" ] && [ "$SECONDS" -lt "$until" ]; do sleep 0.1; done
  kill "${streams[@]}" 2>/dev/null || true
  wait "${streams[@]}" || true
  streams=()
}

# Follows a job to its end: its output here, its state and the nodes' on stderr. Sets $job_code.
watch_job() {  # JOB
  local job=$1 last='' line file answer fields failures=0 state figures
  local stream=(az batchai job file stream "${in_experiment[@]}" --job "$job" --file-name)
  local question=(az batchai job show "${in_experiment[@]}" --name "$job" --query
    '[executionState,executionInfo.exitCode]' --output tsv)
  job_code=0
  if [ -n "$dry" ]; then
    show "${stream[@]}" stdout.txt
    show "${stream[@]}" stderr.txt
    show "${question[@]}"
    show "${cluster_figures[@]}"
  else
    # az says the file's address on stderr, which has a signature that opens it: not shown.
    "${stream[@]}" stdout.txt 2>/dev/null &
    streams+=($!)
    "${stream[@]}" stderr.txt >&2 2>/dev/null &
    streams+=($!)
    while true; do
      if answer=$("${question[@]}") && figures=$("${cluster_figures[@]}"); then
        failures=0
        mapfile -t fields <<<"$answer"
        state=${fields[0]}
        read_figures "$figures"
        line="$job: $state ($cluster: $cluster_line)"
        [ "$line" = "$last" ] || say "$line"
        last=$line
        case $state in succeeded | failed) break ;; esac
      else
        failures=$((failures + 1))
        [ "$failures" -lt 5 ] ||
          die 69 "$job: az gives no answer; hint: the job goes on, the same command watches it"
      fi
      sleep "$poll"
    done
    end_streams
    [ "$state" = succeeded ] || job_code=$(meaning_of "${fields[1]}")
  fi
  # Each node has its preparation's logs beside the output.
  ask answer NODE-prep.txt az batchai job file list "${in_experiment[@]}" --job "$job" \
    --output-directory-id stdouterr --query '[].name' --output tsv
  for file in $answer; do
    case $file in
      *prep*)
        say "$job: $file:"
        if [ -n "$dry" ]; then
          show "${stream[@]}" "$file"
        else
          "${stream[@]}" "$file" >&2 2>/dev/null || true
        fi
        ;;
    esac
  done
}

all_jobs=(az batchai job list "${in_experiment[@]}" --query '[].[name,executionState]' --output tsv)

# Jobs of a stage are STAGE-1, STAGE-2, ...: what is done is left, what runs is watched, what failed
# is submitted again under the next number.
run_stage() {  # STAGE FILE
  local stage=$1 listing number=0 last='' name state attempts=0
  need_job_files
  ask listing '' "${all_jobs[@]}"
  while IFS=$'\t' read -r name state; do
    if [[ $name =~ ^$stage-([0-9]+)$ ]] && [ "${BASH_REMATCH[1]}" -gt "$number" ]; then
      number=${BASH_REMATCH[1]} last=$state
    fi
  done <<<"$listing"
  if [ "$last" = succeeded ]; then
    say "$stage-$number: done already"
    return
  fi
  while true; do
    case $last in
      queued | running | terminating) say "$stage-$number: $last already" ;;
      *)
        number=$((number + 1))
        note job "$workspace" "$experiment" "$stage-$number"
        run az batchai job create "${in_experiment[@]}" --name "$stage-$number" \
          --cluster "$cluster" --config-file "$work/batchai/$2.json"
        ;;
    esac
    last=''
    watch_job "$stage-$number"
    case $job_code in
      0) return ;;
      75 | 76)
        attempts=$((attempts + 1))
        if [ "$attempts" -le "$restarts" ]; then
          say "$stage-$number: ended with $job_code; started again ($attempts of $restarts)"
          continue
        fi
        die "$job_code" "$stage-$number: failed; hint: the same command continues it" ;;
      *)
        die "$job_code" "$stage-$number: failed; hint: submit.sh logs, then read $results/logs" ;;
    esac
  done
}

step_download() {
  local names
  need_keys
  ask names '' az storage file list --account-name "$account" --share-name "$share" \
    --path "runs/$run_name" --query '[].name' --output tsv
  [ -n "$dry" ] || printf '%s\n' "$names"
  fetch "runs/$run_name/*" 'models/*'
}

fetch() {  # PATTERN...
  local pattern
  need_keys
  [ -n "$dry" ] || mkdir -p "$results" || die 73 "$results: cannot be made"
  for pattern in "$@"; do
    run az storage file download-batch --account-name "$account" --source "$share" \
      --pattern "$pattern" --destination "$results"
  done
}

step_status() {
  local answer
  ask answer '' "${cluster_figures[@]}"
  if [ -z "$dry" ]; then
    read_figures "$answer"
    echo "$cluster: $cluster_line"
  fi
  ask answer '' "${all_jobs[@]}"
  [ -n "$dry" ] || echo "$answer"
}

# --- The end -------------------------------------------------------------------------------------

delete() {
  if [ -n "$dry" ]; then
    show "$@"
  else
    "$@" >/dev/null
  fi
}

# Deletes what one line of the list says.
delete_one() {  # KIND NAME...
  local -r here=(--resource-group "$group")
  case $1 in
    job) delete az batchai job delete "${here[@]}" --workspace "$2" --experiment "$3" \
      --name "$4" --yes ;;
    cluster) delete az batchai cluster delete "${here[@]}" --workspace "$2" --name "$3" --yes ;;
    experiment) delete az batchai experiment delete "${here[@]}" --workspace "$2" \
      --name "$3" --yes ;;
    workspace) delete az batchai workspace delete "${here[@]}" --workspace "$2" --yes ;;
    container) delete az storage container delete --account-name "$2" --name "$3" ;;
    share) delete az storage share delete --account-name "$2" --name "$3" ;;
    storage) delete az storage account delete --name "$2" "${here[@]}" --yes ;;
    auto-group) delete az group delete --name "$2" --yes ;;
    role) delete az role assignment delete --role "$2" --assignee "$3" --scope "$4" ;;
    group)
      local left
      ask left '' az resource list --resource-group "$2" --query '[].name' --output tsv
      if [ -n "$left" ]; then
        say "$2: holds what was not made here (${left//$'\n'/, }): stays"
        return 1
      fi
      delete az group delete --name "$2" --yes
      ;;
  esac
}

step_clean_up() {
  local line fields failed=0 lines=() left reply=''
  if [ "${#dry_notes[@]}" != 0 ]; then
    lines=("${dry_notes[@]}")  # what this dry run would have made
  elif [ -s "$made" ]; then
    mapfile -t lines < <(tac "$made")
  fi
  if [ "${#lines[@]}" = 0 ]; then
    say "$group: nothing was made here"
    return
  fi
  if [ -z "$dry" ]; then
    say "to be deleted, with all that is in it:"
    printf '  %s\n' "${lines[@]//$'\t'/ }" >&2
  fi
  if [ -z "$dry$yes" ]; then
    [ -t 0 ] || die 64 "clean-up: nobody to ask; hint: --yes"
    read -r -p "Delete these ${#lines[@]}? [y/N] " reply
    [ "$reply" = y ] || die 1 "clean-up: nothing was deleted"
  fi
  case " ${lines[*]}" in
    *" share"$'\t'* | *" container"$'\t'*) need_keys ;;
  esac
  for line in "${lines[@]}"; do
    IFS=$'\t' read -r -a fields <<<"$line"
    [ -n "$dry" ] || say "delete ${line//$'\t'/ }"
    if ! delete_one "${fields[@]}"; then
      failed=$((failed + 1))
    elif [ -z "$dry" ]; then
      left=$(grep -vxF -- "$line" "$made" || true)
      printf '%s' "${left:+$left$'\n'}" >"$made.new" && mv "$made.new" "$made"
    fi
  done
  [ "$failed" = 0 ] || die 74 "clean-up: $failed of ${#lines[@]} could not be deleted; \
hint: the messages are above; run it again"
}

for step in "${all_steps[@]}"; do
  say "$step"
  case $step in
    check) step_check ;; login) step_login ;; providers) step_providers ;; role) step_role ;;
    group) step_group ;; storage) step_storage ;; upload) step_upload ;;
    workspace) step_workspace ;; experiment) step_experiment ;; cluster) step_cluster ;;
    pack | eval | convert) run_stage "$step" "$step" ;;
    train) run_stage train "train${toolkit:+-custom-toolkit}" ;;
    download) step_download ;; scale-down) step_scale_down ;; scale-up) step_scale_up ;;
    status) step_status ;; logs) fetch 'logs/*' ;; node-logs) step_node_logs ;;
    clean-up) step_clean_up ;;
  esac
done
