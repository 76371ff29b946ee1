#!/usr/bin/env python3
"""Makes rendered job and cluster files ready for submit.sh: fill_in.py [--auto-storage] FILE...

The registry's user and password come from RETINA_REGISTRY_USERNAME and RETINA_REGISTRY_PASSWORD;
without them the image is public and the files say no credentials. With --auto-storage the mounts
are those that `az batchai cluster create --use-auto-storage` adds. The storage account's
placeholders stay: az fills them in.
"""
import argparse
import json
import os
import pathlib
import tomllib

JOBS = pathlib.Path(__file__).resolve().parents[1]
USER, PASSWORD = "RETINA_REGISTRY_USERNAME", "RETINA_REGISTRY_PASSWORD"


def replaced(value, names):
    """The JSON value with every text of `names` replaced, in all its strings."""
    if isinstance(value, dict):
        return {key: replaced(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, names) for item in value]
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
    return value


def fill_in(file, auto_storage):
    content = json.loads(file.read_text())
    properties = content["properties"]
    if auto_storage:
        storage = tomllib.loads((JOBS / "job.toml").read_text())["storage"]
        root = "$AZ_BATCHAI_MOUNT_ROOT/"
        properties.get("nodeSetup", {}).pop("mountVolumes", None)
        properties = replaced(properties, {
            root + storage["container_mount"]: root + storage["auto_container_mount"],
            root + storage["share_mount"]: root + storage["auto_share_mount"]})
        content["properties"] = properties
    registry = properties.get("containerSettings", {}).get("imageSourceRegistry")
    if registry and os.environ.get(USER) and os.environ.get(PASSWORD):
        registry["credentials"] = {"username": os.environ[USER], "password": os.environ[PASSWORD]}
    elif registry:
        del registry["credentials"]
    file.write_text(json.dumps(content, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--auto-storage", action="store_true")
    options = parser.parse_args()
    for file in options.files:
        fill_in(file, options.auto_storage)


if __name__ == "__main__":
    main()
