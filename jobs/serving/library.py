"""Calls the programs' own C++ from the model's process: libretina_onnx_guard.so, whose functions
shared/onnx/guard_library.cpp describes.
"""
import ctypes
import os
import pathlib

NAME = "libretina_onnx_guard.so"
BAD_DATA = 65  # an exit code of the programs


class NoLibrary(Exception):
    """Says in one line why the library cannot be used."""


def function(name):
    """Returns a function of the library. Raises NoLibrary."""
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("RETINA_ONNX_GUARD")
    places = [pathlib.Path(named)] if named else [here / NAME, here.parents[1] / "build/lib" / NAME]
    for place in places:
        if place.exists():
            try:
                return getattr(ctypes.CDLL(str(place)), name)
            except (AttributeError, OSError) as error:
                raise NoLibrary(f"{place}: is not this version's library ({error})") from None
    raise NoLibrary(f"{places[0]}: the library is not there; hint: cmake --build build --target "
                    "retina_onnx_guard, or name it in RETINA_ONNX_GUARD")


def call(name, data, *arguments):
    """Calls a function on a file's bytes. Returns (exit code, problem in one line), 0 for no problem."""
    text = ctypes.create_string_buffer(1000)
    code = function(name)(data, ctypes.c_size_t(len(data)), *arguments, text,
                          ctypes.c_size_t(len(text)))
    return code, " ".join(text.value.decode("utf-8", "replace").split())
