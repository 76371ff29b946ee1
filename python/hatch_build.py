"""Adds to the wheel what comes from a build of the programs; docker/package.sh sets the variables."""
import os
import re

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


def given(name):
    if name not in os.environ:
        raise SystemExit(f"{name}: is not set; hint: the wheel has compiled programs: make package")
    return os.environ[name]


class VersionAndRequirements(MetadataHookInterface):
    def update(self, metadata):
        metadata["version"] = given("RETINA_WHEEL_VERSION")
        metadata["license"] = given("RETINA_WHEEL_LICENCE")
        with open(given("RETINA_WHEEL_REQUIREMENTS")) as file:
            metadata["dependencies"] = re.findall(r"^(?:torch|openvino)==[^\s\\]+", file.read(), re.M)


class Programs(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{given('RETINA_WHEEL_PLATFORM')}"
        build_data["force_include"][given("RETINA_WHEEL_PACKAGE")] = "retina_batch"
