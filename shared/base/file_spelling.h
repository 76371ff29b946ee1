// Names of files that other systems made. Alternative spellings: annotations have backslashes,
// accents composed as only the other system has them, names escaped for a URL, the path of the
// folder on that system. And names that operating systems, file servers and editors leave in
// folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace retina {

// Returns other spellings of `name`, which was not found in a folder called `folder_name`, the
// likeliest first: with slashes for backslashes, with URL escapes (%20) resolved, with accents
// composed or decomposed (Unicode's NFC, NFD), a name without ending with those of images; each
// also without the path up to the folder's own name. Empty if none applies.
std::vector<std::string> other_spellings(const std::string& name, const std::string& folder_name);

// Describes how the name of the file `found` differs from `name`: "a\\b.jpg is a/b.jpg"; explains
// the difference if both look the same.
std::string describe_spelling(const std::string& name, const std::string& found);

// Returns the same key for names that a person would take for the same file: the last part of the
// path without its ending, in one case and one form of accents.
std::string look_alike_key(const std::string& name);

// Returns `name` with slashes and composed accents: the same for names that look the same.
std::string plain_spelling(const std::string& name);

// Returns the last part of a path with either kind of slash.
std::string last_part(const std::string& name);

// Returns true if a file or folder of this name (no path) is never data: every name that begins
// with a dot (macOS's "._a.jpg", ".DS_Store", ".ipynb_checkpoints", NFS's ".nfs0001"), "Thumbs.db",
// "desktop.ini", "__MACOSX", "@eaDir", "lost+found" and their like; and what GIS programs leave
// beside an image: statistics, overviews, positions ("a.tif.aux.xml", "a.tif.ovr", "a.tfw",
// "a.prj").
bool is_clutter(std::string_view name);

}  // namespace retina
