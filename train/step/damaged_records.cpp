#include "train/step/damaged_records.h"

#include <charconv>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/log.h"

namespace retina {

void DamagedRecords::check(const Batch& batch) {
  for (const Sample& sample : batch.samples) {
    if (!sample.replaced || known_.contains(sample.replaced->record)) continue;
    new_.emplace(sample.replaced->record, sample.replaced->problem);
  }
}

std::string DamagedRecords::agree(Communicator& communicator) {
  // One line a record: its number, a space, and its problem, which, as every error, is one line.
  std::string own;
  for (const auto& [record, problem] : new_) own += cat(record, ' ', problem, '\n');
  new_.clear();
  std::string all;
  for (const std::string& lines : communicator.gather(own, 0)) all += lines;
  all = communicator.broadcast(all, 0);
  std::istringstream lines(all);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    std::size_t record = 0;
    std::from_chars(line.data(), line.data() + space, record);
    if (!known_.insert(record).second) continue;  // known from another rank
    const IndexEntry entry = index_[record];
    last = cat(image_name(entry), " (shard ", entry.shard, ", record ", entry.place,
               "): ", line.substr(space + 1));
    if (communicator.is_root()) {
      log_warning(last, "; the next intact image is trained on in its place");
    }
  }
  const double most = most_fraction_ * static_cast<double>(index_.size());
  if (static_cast<double>(known_.size()) <= most) return "";
  return cat(last, "; ", known_.size(), " of ", index_.size(),
             " records are now damaged (want at most ", shortest(most_fraction_),
             " of them, --max-bad-fraction)");
}

}  // namespace retina
