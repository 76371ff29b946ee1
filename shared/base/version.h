// The text of --version: the project's version and git revision, and the libraries that a program
// registered (LibTorch, CUDA, MPI: base knows nothing of them).
#pragma once

#include <functional>
#include <string>

namespace retina {

extern const char* const kProjectVersion;
extern const char* const kGitRevision;  // short hash, "-dirty" appended, or "unknown"

// Adds "NAME VERSION" to the output of `version_text`. Call at program start; `version` is called
// only for printing, since it may load the library.
void register_library_version(const std::string& name, std::function<std::string()> version);

std::string version_text(const std::string& program);

}  // namespace retina
