// Sealed files: the last bytes, a zip's comment, hold the xxh3 of everything before them. So one
// pass over the raw bytes finds any damage before a zip or pickle reader sees it (LibTorch's zip
// reader checks no CRC). Checkpoints are sealed so; inference models have a seal of their own
// (shared/onnx/onnx_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace retina {

// Takes a zip's bytes in order; returns the number of bytes taken, always all.
using ByteSink = std::function<std::size_t(const void*, std::size_t)>;

// Runs `write_zip`, which gives a whole zip to the sink, seals it and publishes it at `path`
// (AtomicFile) once the seal of the temporary file has been checked. Returns the seal's hash.
// Throws kCannotCreate, kIo, and what `write_zip` throws; the old file then stays.
//
// The sink never throws: LibTorch's zip writer ends the process when a write fails and it is then
// destroyed. After a failure the rest is dropped and the error is thrown at the end.
std::uint64_t write_sealed(const std::string& path,
                           const std::function<void(const ByteSink&)>& write_zip);

// Reads the whole file and checks its seal; returns the hash. Throws kNoInput, kIo, and kData if
// the seal is missing (cut short, or not `what` of ours) or wrong (damaged). `what`: "checkpoint".
std::uint64_t check_seal(const std::string& path, const std::string& what);

// Returns the hash at the end of the file, without reading the rest. Throws as check_seal, but
// detects no damage.
std::uint64_t read_seal(const std::string& path, const std::string& what);

}  // namespace retina
