#include "preprocess/image_check.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "preprocess/record_maker.h"
#include "preprocess/source_images.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

// A finished set does not need its images: nothing is known of a file that is missing or cannot be
// read, so false. `read` throws kNoInput or kIo then.
template <class Read>
bool true_if_readable(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoInput && error.kind() != ErrorKind::kIo) throw;
    return false;
  }
}

// Returns true if the image of that name is not that of the set's image number `index_place`. The
// shard is opened only when there is something to compare with.
bool is_another_image(const SourceImages& images, const std::string& name, const ShardSet& set,
                      std::size_t index_place) {
  if (!images.size_bytes(name)) return false;
  const Record record = set.read(index_place);
  if (record.rescaled || record.converted || record.tile) return false;
  return true_if_readable([&] {
    SourceImage now;
    return images.size_bytes(name) != record.image.size() || images.read(name, now) ||
           now.bytes != record.image;
  });
}

bool is_usable(RecordMaker& maker, const PlannedImage& image) {
  return true_if_readable([&] { return !maker.fault_of(image); });
}

}  // namespace

std::string changed_images(const ManifestOptions& options, const ImageSource& source,
                           const PackPlan& plan, const ShardSet& set) {
  std::unordered_map<std::int64_t, const PlannedImage*> image_of;
  for (const PlannedImage& image : plan.images) image_of[image.id] = &image;
  const auto planned = [&](std::int64_t image_id) -> const PlannedImage& {
    const auto found = image_of.find(image_id);
    if (found != image_of.end()) return *found->second;
    throw Error(ErrorKind::kData, cat(set.folder(), ": holds image ", image_id,
                                      ", which its annotations do not list"));
  };

  // A sample of the packed ones, then all quarantined ones.
  const SourceImages images(source);
  for (std::size_t i = 0; i < std::min(kSampledImages, set.index().size()); ++i) {
    const PlannedImage& image = planned(set.index()[i].image_id);
    if (is_another_image(images, image.file_name, set, i)) {
      return cat(escaped(image.file_name), " is now a different image");
    }
  }
  RecordMaker maker(options, source);
  std::size_t usable_count = 0;
  std::string first;
  for (const QuarantinedImage& bad : set.read_quarantine()) {
    if (!is_usable(maker, planned(bad.image_id))) continue;
    if (usable_count++ == 0) first = bad.file_name;
  }
  if (usable_count == 0) return "";
  return cat(counted(usable_count, "quarantined image"), " can be used now (", escaped(first),
             usable_count == 1 ? ")" : ", ...)");
}

}  // namespace retina
