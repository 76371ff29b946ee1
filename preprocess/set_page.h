// The page of a data set (page/data_page.h) in its place beside the set. The set is the product: it
// is published without its page where that cannot be written, and the next call of the same command
// tries again.
#pragma once

#include <optional>
#include <string>

#include "preprocess/page/data_page.h"

namespace retina {

// Renders the page; on failure logs a warning and returns nullopt.
std::optional<std::string> try_data_page(const DataPageInput& input);

// Writes the page into the journal of `output`, to be published with the set; a failure is a
// warning. Without a page, or when it cannot be written, the page of an older set in `output` is
// removed, before the new set takes its place.
void write_data_page(const std::string& output, const std::optional<std::string>& page);

// Reads all records of a finished set that has no page, as the disk was full, and writes it. A
// failure is a warning, a folder that is read-only not even that.
struct FinishedSet {
  const std::string &output, &scratch;  // as PackOptions has them
  int thread_count = 1;
};
void restore_data_page(const FinishedSet& finished);

}  // namespace retina
