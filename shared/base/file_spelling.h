// Names of files that other systems made. Other ways to write them: annotations have backslashes,
// accents composed as only the other system has them, names escaped for a URL, the path that the
// folder has there. And names that operating systems, file servers and editors leave in folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace retina {

// What `name`, under which nothing was found in a folder called `folder_name`, may mean, the
// likeliest first: with slashes for backslashes, with URL escapes (%20) resolved, with accents
// composed or decomposed (Unicode's NFC, NFD), a name without ending with those of images; each
// also without what leads to the folder's own name. Nothing for a name that has none of these.
std::vector<std::string> other_spellings(const std::string& name, const std::string& folder_name);

// How the file `found` got another name than `name`: "a\\b.jpg is a/b.jpg"; says so where both look
// the same.
std::string describe_spelling(const std::string& name, const std::string& found);

// The same for names that a person would take for the same file: the last part of the path without
// its ending, in one case and one form of accents.
std::string look_alike_key(const std::string& name);

// With slashes and composed accents: the same for names that look the same.
std::string plain_spelling(const std::string& name);

// Without what leads to the last part; both kinds of slash.
std::string last_part(const std::string& name);

// Whether a file or folder of this name (no path) is never data: all that begins with a dot
// (macOS's
// "._a.jpg", ".DS_Store", ".ipynb_checkpoints", NFS's ".nfs0001"), "Thumbs.db", "desktop.ini",
// "__MACOSX", "@eaDir", "lost+found" and their like; and what GIS programs leave beside an image:
// statistics, overviews, where it lies ("a.tif.aux.xml", "a.tif.ovr", "a.tfw", "a.prj").
bool is_dropping(std::string_view name);

}  // namespace retina
