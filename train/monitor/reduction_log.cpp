#include "train/monitor/reduction_log.h"

#include <utility>

#include "shared/base/log.h"

namespace retina {

void ReductionLog::begin(const GradientBuckets& buckets, RunDir* run_dir) {
  if (buckets.ranks() == 1) return;
  log_info(describe(buckets.plan(), buckets.wire()));
  if (run_dir != nullptr) {
    run_dir->write_buckets(
        to_json(buckets.size_bytes(), buckets.plan(), buckets.wire(), buckets.ranks()));
  }
}

void ReductionLog::add(std::int64_t step, const GradientBuckets& buckets) {
  if (!std::exchange(first_told_, true) && !buckets.unreached().empty()) {
    std::string names;
    for (const std::string& name : buckets.unreached())
      names += cat(names.empty() ? "" : ", ", name);
    log_warning("step ", step, ": the loss does not depend on ", names, ", so ",
                buckets.unreached().size() == 1 ? "it is" : "they are", " not trained");
  }
  if (buckets.repeated_count() > 0 && !std::exchange(repeated_told_, true)) {
    log_warning("step ", step, ": a gradient overflowed --wire ",
                word_of(kWireTypes, buckets.wire().type),
                "; its bucket is resent in fp32, as any later one will be; --wire bf16 has the ",
                "range of fp32");
  }
}

}  // namespace retina
