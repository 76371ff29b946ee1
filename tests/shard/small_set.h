// A small shard set made by the format's own writers; the "JPEGs" are random bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/shard/manifest.h"
#include "shared/shard/record.h"

namespace retina {

// The record of image `number`: 0..4 boxes, a crowd, a degenerate box, negative ids, `jpeg_bytes`
// random bytes that live in `storage`.
Record small_record(std::uint64_t number, std::size_t jpeg_bytes, std::string& storage);

// Writes `record_count` records in shards of at most `shard_size_bytes` with index, quarantine and
// manifest. Sizes vary from 100 B (inside LMDB's leaves) to 30 kB. In a classification set record
// `number` has the class number % 3 in place of its boxes.
void write_small_set(const std::string& folder, std::size_t record_count,
                     std::uint64_t shard_size_bytes, Task task = Task::kDetection);

// Writes these records, whose classes are 0 to 2, likewise.
void write_records(const std::string& folder, const std::vector<Record>& records,
                   std::uint64_t shard_size_bytes, Task task = Task::kDetection);

// Flips bit `bit` (counted through the whole file) of a file.
void flip_bit(const std::string& path, std::uint64_t bit);

// Names of the files in a folder, sorted.
std::vector<std::string> file_names(const std::string& folder);

void write_plain_file(const std::string& path, const std::string& bytes);

// The kind of the Error that `body` throws; fails the test when it throws none or another type.
template <class Body>
ErrorKind error_kind(const Body& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  throw std::logic_error("no error was thrown");
}

}  // namespace retina
