#!/usr/bin/env bash
# One stage of the job in the image: docker/run.sh --help. The commands come from jobs/job.toml.
exec "$(dirname "${BASH_SOURCE[0]}")/../jobs/docker/run.sh" "$@"
