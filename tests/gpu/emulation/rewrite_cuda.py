"""CUDA C++ as C++ that cuda_runtime.h beside this file understands: rewrite_cuda.py SOURCE OUTPUT

    kernel<T><<<grid, threads, 0, stream>>>(a)   launch({"kernel<T>"}, [=] { kernel<T>(a); }, grid, threads, 0, stream)
    __shared__ T name[2][kThreads];              auto& name = shared_memory<T[2][kThreads]>(place)
    extern __shared__ T name[];                  T* const name = dynamic_shared_memory<T>()

Lines keep their numbers. A launch or an array of another form is an error.
"""
import re
import sys
from pathlib import Path

EMULATION = "::retina::emulation::"
SHARED = re.compile(r"(?<!extern )__shared__ +([\w:]+) +(\w+)((?:\[[^\]]+\])+);")
DYNAMIC = re.compile(r"extern __shared__ +([\w:]+) +(\w+)\[\];")
LAUNCH = re.compile(r"([A-Za-z_]\w*(?:<[^<>;(){}]*>)?)<<<(.*?)>>>(?=\()", re.DOTALL)


def end_of_call(text, opening):
    """Behind the parenthesis that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    sys.exit("rewrite_cuda.py: a launch's parenthesis is never closed")


def with_calls(text):
    """`text` with its launches as calls."""
    out, done = "", 0
    for launch in LAUNCH.finditer(text):
        kernel, configuration = launch.groups()
        end = end_of_call(text, launch.end())
        out += text[done:launch.start()]
        out += (f'{EMULATION}launch("{kernel}", [=] {{ {kernel}{text[launch.end():end]}; }}, '
                f"{configuration})")
        done = end
    return out + text[done:]


def rewritten(text):
    text = DYNAMIC.sub(rf"\1* const \2 = {EMULATION}dynamic_shared_memory<\1>();", text)
    text = SHARED.sub(rf"static char \2_place; auto& \2 = {EMULATION}shared_memory<\1\3>(&\2_place);",
                      text)
    text = with_calls(text)
    for left in ("<<<", "__shared__"):
        if left in text:
            sys.exit(f"rewrite_cuda.py: a form of {left} that it does not know")
    return text


if __name__ == "__main__":
    source, output = map(Path, sys.argv[1:])
    output.write_text(f'#line 1 "{source}"\n' + rewritten(source.read_text()))
