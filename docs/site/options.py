#!/usr/bin/env python3
"""docs/options.md, all options of the four programs, from what the programs print themselves:

    docs/site/options.py build/bin > docs/options.md
"""
import json
import subprocess
import sys

PROGRAMS = ("coco-pack", "retina-train", "retina-eval", "retina-convert")
INTRODUCTION = """# Options

Made by `docs/site/options.py build/bin > docs/options.md` from `--help=json`, which every program prints for other programs.
A part follows the value of its option, as in `--tile 800,overlap=0.3`; in `--config FILE.json` it has a key of its own,
`tile-overlap`. "File" marks values for `--config` alone, "may change" those that may differ when a run continues.
"""


def name_of(row):
    if row.get("part_of"):
        key = row["name"].removeprefix(row["part_of"] + "-")
        return f"`,{key}={row['value']}`"
    dashes = "" if row.get("config_only") else "--"
    return f"`{dashes}{row['name']}{' ' + row['value'] if row.get('value') else ''}`"


def range_of(row):
    low = f"above {row['above']:g}" if "above" in row else f"{row['least']:.10g}" if "least" in row else ""
    high = f"below {row['below']:g}" if "below" in row else f"{row['most']:.10g}" if "most" in row else ""
    if low and high:
        return f"{low} to {high}"
    return low if "above" in row else f"at least {low}" if low else high


def remarks(row, modes):
    yield from [f"only with {row['needs'].replace('=', ' ')}"] if row.get("needs") else []
    yield from ["only for " + ", ".join(row["modes"])] if row.get("modes", modes) != modes and row["modes"] else []
    yield from [range_of(row)] if range_of(row) else []
    yield from ["file"] if row.get("config_only") else []
    yield from ["may change"] if row.get("may_change") else []


def section(table):
    options = table["options"]
    modes = max((row.get("modes", []) for row in options), key=len)
    summary = table["summary"].replace("\n", " ").rstrip(".")
    print(f"\n## {table['program']}\n\n{summary[0].upper() + summary[1:]}.")
    group = None
    for row in options:
        if row["group"] == "Every program" and table["program"] != PROGRAMS[0]:
            continue
        if row["group"] != group:
            group = row["group"]
            print(f"\n### {group}\n\n| option | what it is | default | |\n|---|---|---|---|")
        cells = name_of(row), row["help"], row.get("default", ""), "; ".join(remarks(row, modes))
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")


def main():
    print(INTRODUCTION, end="")
    for program in PROGRAMS:
        section(json.loads(subprocess.check_output([f"{sys.argv[1]}/{program}", "--help=json"], text=True)))


if __name__ == "__main__":
    main()
