"""Prints what Azure ML's own library finds wrong in files, as JSON {file: [errors]}.

For azureml_test.py: a process of its own, so that it can be one without a network.
"""
import json
import pathlib
import sys
import warnings

import yaml

warnings.filterwarnings("ignore")
from azure.ai.ml import (  # noqa: E402
    load_compute, load_datastore, load_job, load_online_deployment, load_online_endpoint)

LOADERS = {"commandJob": load_job, "pipelineJob": load_job, "amlCompute": load_compute,
           "azureBlob": load_datastore, "azureFile": load_datastore,
           "managedOnlineEndpoint": load_online_endpoint,
           "managedOnlineDeployment": load_online_deployment}


def errors(path):
    schema = str(yaml.safe_load(path.read_text()).get("$schema", ""))
    kind = pathlib.PurePath(schema).name.removesuffix(".schema.json")
    if kind not in LOADERS:
        return [f"$schema: {schema}: want one of {', '.join(LOADERS)}"]
    try:
        loaded = LOADERS[kind](path)
        if LOADERS[kind] is not load_job:
            return []
        result = loaded._validate()
        return [] if result.passed else [f"{at}: {text}" for at, text in
                                         result.error_messages.items()]
    except Exception as error:  # The library has a dozen kinds of its own.
        return [str(error).strip() or type(error).__name__]


def main():
    found = {name: errors(pathlib.Path(name)) for name in sys.argv[1:]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
