// coco-pack has been here before: a whole set, an interrupted one, one that is not published yet.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "preprocess/new_set.h"
#include "preprocess/output_folder.h"
#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

namespace retina {

// Puts the first shards of the set `whole`, which has no bad images, into the journal of `output`,
// as a process leaves them that was killed when it had finished these.
inline void leave_finished(const ShardSet& whole, const std::string& output, std::size_t shards) {
  const Manifest& manifest = whole.manifest();
  make_folder(journal_folder(output));
  std::size_t at = 0;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    make_finished_folder(output, shard);
    std::filesystem::copy_file(whole.folder() + "/" + manifest.shards[shard].file.name,
                               finished_shard_path(output, shard));
    NewSet finished(manifest.categories.size());
    finished.shards.push_back(manifest.shards[shard]);
    for (; at < whole.index().size() && whole.index()[at].shard == shard; ++at) {
      const Record record = whole.read(at);
      finished.count(record, xxh3(record.image), {.place = whole.index()[at].place});
    }
    finished.write(finished_folder(output, shard), manifest);
  }
}

class Continue : public testing::Test {
 protected:
  Continue() {
    coco_.write();
    pack(coco_.options("whole"));
    whole_ = folder_content(folder_ / "whole");
  }

  // Packs until `shards` shards are finished, as a killed process leaves them. Another set in the
  // folder stays.
  void pack_interrupted(std::size_t shards) {
    leave_finished(ShardSet(folder_ / "whole"), folder_ / "set", shards);
  }

  // Leaves the whole set in the journal, as a process that was killed before it could publish it.
  void pack_unpublished() {
    pack_interrupted(read_manifest(folder_ / "whole").shards.size());
    for (const char* name : {kIndexFile, kQuarantineFile, "report.html", kManifestFile}) {
      std::filesystem::copy_file(folder_ / "whole/" + name, folder_ / "set/.packing/" + name);
    }
  }

  // Of SmallCoco's good images: ids count from 1.
  std::string image_path(std::int64_t id) const {
    return folder_ / cat("images", id % 2 == 1 ? "/a/" : "/b/", id - 1, ".jpg");
  }

  // The first image of the set: in its first shard.
  std::string first_image() const {
    return image_path(ShardSet(folder_ / "whole").index()[0].image_id);
  }

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 40};
  std::map<std::string, std::string> whole_;
};

}  // namespace retina
