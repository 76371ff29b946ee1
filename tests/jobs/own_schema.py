"""The project's own schemas of job files (schemas/), which need nothing beside the clone, and the
slips that they have to find.

They are strict: a field that they do not name is an error, where the services' published schemas
let most typos pass.
"""
import copy
import functools
import json
import pathlib

from job_files import wheel

SCHEMAS = pathlib.Path(__file__).with_name("schemas")


def schema(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text())


@functools.cache
def validator(name, part):
    of = schema(name) | ({"$ref": f"#/$defs/{part}"} if part else {})
    kind = wheel("jsonschema").Draft202012Validator
    kind.check_schema(of)
    return kind(of)


def errors(document, name, part=""):
    """What a schema, or one of its definitions, finds wrong with the document, a line each."""
    return [f"{error.json_path}: {error.message}"
            for error in validator(name, part).iter_errors(document)]


def at(document, path):
    for step in path:
        document = document[step]
    return document


def changed(document, path, value=None, key=None):
    """A copy where what is at the path is `value`, or is called `key`, or is not there."""
    document = copy.deepcopy(document)
    place = at(document, path[:-1])
    if value is not None:
        place[path[-1]] = value
        return document
    old = place.pop(path[-1])
    if key is not None:
        place[key] = old
    return document


def places(value, path=()):
    """The path of every value of a document."""
    if path:
        yield path
    for key, inner in (value.items() if isinstance(value, dict) else
                       enumerate(value) if isinstance(value, list) else ()):
        yield from places(inner, (*path, key))


def slips(document):
    """(what, the document with it): every key misspelt once, every value of another type once."""
    for path in places(document):
        name = ".".join(map(str, path))
        if isinstance(path[-1], str):
            yield f"{name} misspelt", changed(document, path, key=f"{path[-1]}s")
        other = ["text"] if isinstance(at(document, path), (str, dict)) else {"a": "b"}
        yield f"{name} of another type", changed(document, path, value=other)


def field_names(of):
    """Every field that a schema names."""
    named = set()
    for key, part in of.items():
        inner = part if isinstance(part, list) else [part]
        if key in ("properties", "$defs", "definitions"):
            named |= set(part if key == "properties" else ())
            inner = part.values()
        for one in inner:
            named |= field_names(one) if isinstance(one, dict) else set()
    return named
