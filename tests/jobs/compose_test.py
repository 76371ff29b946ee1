"""The Compose files against the Compose specification's own schema."""
import importlib.resources
import json
import sys
import unittest

from job_files import folders_of, render_jobs, wheel

setUpModule = render_jobs


class ComposeFiles(unittest.TestCase):
    def setUp(self):
        # check-jsonschema brings the schema: nothing is fetched.
        wheel("check_jsonschema")
        schema = importlib.resources.files("check_jsonschema.builtin_schemas.vendor")
        schema = json.loads((schema / "compose-spec.json").read_text())
        kind = wheel("jsonschema").validators.validator_for(schema)
        kind.check_schema(schema)
        self.validator = kind(schema)

    def errors(self, content):
        return [error.message for error in
                self.validator.iter_errors(wheel("yaml").safe_load(content))]

    def test_each_stage_has_a_file_that_fits_the_schema(self):
        stages = ["convert", "eval", "pack", "train"]
        files = [sorted(folder.glob("*.compose.yaml")) for folder in folders_of("docker")]
        self.assertEqual([[path.name.split(".")[0] for path in paths] for paths in files],
                         [[*stages, "weights"], stages])
        for path in sum(files, []):
            self.assertEqual(self.errors(path.read_text()), [], path.name)


if __name__ == "__main__":
    sys.exit(unittest.main())
