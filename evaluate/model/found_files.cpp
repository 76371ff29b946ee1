#include "evaluate/model/found_files.h"

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/progress.h"
#include "shared/evaluation/predict/ranks.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

// Encodes texts without zero bytes, one after the other, for the other ranks.
std::string join(const std::vector<std::string>& fields) {
  std::string bytes;
  for (const std::string& field : fields) {
    bytes += field;
    bytes += '\0';
  }
  return bytes;
}

std::vector<std::string> split(std::string_view bytes) {
  std::vector<std::string> fields;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\0');
    RETINA_CHECK(end != std::string_view::npos);
    fields.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  return fields;
}

std::uint64_t number_of(const std::string& text) {
  const auto number = exact_number<std::uint64_t>(text);
  RETINA_CHECK(number, text);
  return *number;
}

std::string bytes_of(const ImageListing& listing) {
  std::vector<std::string> fields{cat(listing.roots.size())};
  for (const ImageRoot& root : listing.roots) {
    fields.insert(fields.end(), {root.folder, root.prefix});
  }
  for (const ImageFile& file : listing.files) {
    fields.insert(fields.end(), {file.name, cat(file.root)});
  }
  return join(fields);
}

ImageListing listing_of(std::string_view bytes) {
  const std::vector<std::string> fields = split(bytes);
  ImageListing listing;
  auto field = fields.begin();
  for (auto count = number_of(*field++); count > 0; --count) {
    ImageRoot& root = listing.roots.emplace_back();
    root.folder = *field++;
    root.prefix = *field++;
  }
  while (field != fields.end()) {
    ImageFile& file = listing.files.emplace_back();
    file.name = *field++;
    file.root = number_of(*field++);
  }
  return listing;
}

// `place` is the file's index in the listing.
std::vector<std::string> fields_of(std::size_t place, const LookedAt& file) {
  const FoundImage& image = file.image;
  const FileProblem problem = file.problem.value_or(FileProblem{});
  return {cat(place),      cat(image.width), cat(image.height), cat(image.orientation),
          cat(image.xxh3), problem.kind,     problem.reason};
}

FoundFiles found_files(const ImageListing& listing, std::string_view bytes) {
  constexpr std::size_t kFields = 7;
  const std::vector<std::string> fields = split(bytes);
  RETINA_CHECK(fields.size() == kFields * listing.files.size(), fields.size(), " fields");
  std::vector<LookedAt> seen(listing.files.size());
  for (auto field = fields.begin(); field != fields.end(); field += kFields) {
    const std::size_t place = number_of(field[0]);
    const ImageFile& file = listing.files.at(place);
    seen[place].image = {.name = file.name,
                         .root = file.root,
                         .width = static_cast<int>(number_of(field[1])),
                         .height = static_cast<int>(number_of(field[2])),
                         .orientation = static_cast<int>(number_of(field[3])),
                         .xxh3 = number_of(field[4])};
    if (!field[5].empty()) seen[place].problem = {.kind = field[5], .reason = field[6]};
  }
  FoundFiles found{.roots = listing.roots, .skipped = listing.skipped};
  for (LookedAt& file : seen) {
    if (file.problem) {
      found.skipped.push_back({.name = file.image.name, .problem = *file.problem});
    } else {
      found.images.push_back(std::move(file.image));
    }
  }
  return found;
}

}  // namespace

ImageLimits limits_of(const EvalOptions& options) {
  if (options.tile.empty()) return {};
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  return {.pixels = kNone, .file_bytes = kNone};
}

FoundFiles find_files(const EvalOptions& options, Communicator& ranks) {
  ImageListing listing;
  if (ranks.is_root()) {
    listing = list_images(options.images, options.output, [&] { report_progress(ranks); });
  }
  std::vector<SkippedFile> skipped = std::move(listing.skipped);  // rank 0 alone reports them
  listing = listing_of(ranks.broadcast(bytes_of(listing), 0));
  listing.skipped = std::move(skipped);
  std::vector<ImageFolder> folders;
  const ImageLimits limits = limits_of(options);
  for (const ImageRoot& root : listing.roots) folders.emplace_back(root.folder, limits.file_bytes);
  std::vector<std::size_t> places(listing.files.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const std::vector<std::size_t> own = share_of_rank(places, ranks);
  JpegDecoder decoder(limits.pixels);
  std::optional<Progress> progress;
  if (ranks.is_root()) {
    progress.emplace("looking", static_cast<std::int64_t>(own.size()), "files");
  }
  const std::optional<Stretch> stretch = parse_stretch(options.stretch);
  std::string bytes;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const ImageFile& file = listing.files[own[i]];
    const std::string name = listing.roots[file.root].name_in_folder(file.name);
    bytes += join(fields_of(own[i], look_at(folders[file.root], name, decoder, stretch)));
    report_progress(ranks);
    if (progress) progress->update(static_cast<std::int64_t>(i) + 1);
  }
  if (progress) progress->finish();
  std::string all;
  for (const std::string& part : ranks.gather(bytes, 0)) all += part;
  return found_files(listing, ranks.broadcast(all, 0));
}

std::vector<SkippedPlace> gather_places(const std::vector<SkippedPlace>& own, Communicator& ranks) {
  std::vector<std::string> fields;
  for (const auto& [place, problem] : own) {
    fields.insert(fields.end(), {cat(place), problem.kind, problem.reason});
  }
  std::vector<SkippedPlace> all;
  for (const std::string& part : ranks.gather(join(fields), 0)) {
    const std::vector<std::string> got = split(part);
    RETINA_CHECK(got.size() % 3 == 0, got.size(), " fields");
    for (auto field = got.begin(); field != got.end(); field += 3) {
      all.emplace_back(number_of(field[0]), FileProblem{.kind = field[1], .reason = field[2]});
    }
  }
  return all;
}

}  // namespace retina
