// The page of a data set, OUTPUT/report.html: what to act on, distributions, classes, identical
// images, samples with their boxes. A by-product: a set without it is a set.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "preprocess/page/data_facts.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"

namespace retina {

inline constexpr const char* kDataPageFile = "report.html";

struct DataPageInput {
  const DataFacts& facts;
  const Manifest& manifest;  // classes and counts
  const std::vector<QuarantinedImage>& quarantined;
  std::function<std::string(std::int64_t image_id)> file_name{};
  int thread_count = 1;
};

// Renders the page: the same bytes for the same set, whatever the number of threads; without paths,
// dates or times.
std::string render_data_page(const DataPageInput& input);

// Returns "damaged 3, size 1" of the kinds of quarantined images.
std::string kinds_text(const std::vector<QuarantinedImage>& quarantined);

// Returns true if the file is such a page: one of that name may be anybody's.
bool is_data_page(const std::string& path);

}  // namespace retina
