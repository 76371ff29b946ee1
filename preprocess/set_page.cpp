#include "preprocess/set_page.h"

#include "preprocess/output_folder.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

void warn_of_missing_page(const Error& error) {
  log_warning("cannot write the data page: ", error.what());
}

}  // namespace

std::optional<std::string> try_data_page(const DataPageInput& input) {
  try {
    return render_data_page(input);
  } catch (const Error& error) {
    warn_of_missing_page(error);
    return std::nullopt;
  }
}

void write_data_page(const std::string& output, const std::optional<std::string>& page) {
  try {
    if (page) return write_file_atomically(journal_folder(output) + "/" + kDataPageFile, *page);
  } catch (const Error& error) {
    warn_of_missing_page(error);
  }
  const std::string old = output + "/" + kDataPageFile;  // soon of another set
  if (path_exists(old) && is_data_page(old)) remove_file(old);
}

void restore_data_page(const FinishedSet& finished) {
  const std::string path = finished.output + "/" + kDataPageFile;
  if (path_exists(path)) return;
  try {
    AtomicFile file(path);  // before all records are read: the folder may be read-only
    log_info(path, ": is missing; reading the set to write it");
    const ShardSet set(finished.output, finished.scratch);
    DataFacts facts(set.manifest().categories.size());
    for (std::size_t place = 0; place < set.index().size(); ++place) {
      const Record record = set.read(place);
      facts.add(record, xxh3(record.image));
    }
    const std::vector<QuarantinedImage> quarantined = set.read_quarantine();
    FileNames names = file_names_of(set.index());
    file.write(render_data_page({.facts = facts,
                                 .manifest = set.manifest(),
                                 .quarantined = quarantined,
                                 .file_name = [&](std::int64_t id) { return names[id]; },
                                 .thread_count = finished.thread_count}));
    file.commit();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCannotCreate) warn_of_missing_page(error);
  }
}

}  // namespace retina
