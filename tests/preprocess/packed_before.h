// coco-pack has been here before: a whole set, an interrupted one, one that is not published yet.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

#include "preprocess/pack_journal.h"
#include "preprocess/packer.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/shard/shard_set.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/test_folder.h"

namespace retina {

class Continue : public testing::Test {
 protected:
  Continue() {
    coco_.write();
    pack(coco_.options("whole"));
    whole_ = folder_content(folder_ / "whole");
  }

  // Packs until `shards` shards are finished, as a killed process leaves them. (There are no bad
  // images: as many images as records are done.) Another set in the folder stays.
  void pack_interrupted(std::size_t shards) {
    const PackOptions options = coco_.options("made");
    pack(options);
    const std::string output = folder_ / "set";
    make_folder(output);
    {
      const ShardSet set(options.output);
      const Manifest& manifest = set.manifest();
      const PackJournal journal(output, manifest, false);
      std::size_t next_image = 0;
      for (std::size_t shard = 0; shard < shards; ++shard) {
        std::filesystem::copy_file(options.output + "/" + manifest.shards[shard].file.name,
                                   journal_shard_path(output, shard));
        FinishedShard note{.shard = manifest.shards[shard]};
        for (std::int64_t place = 0; place < note.shard.record_count; ++place, ++next_image) {
          const std::string path = image_path(set.index()[next_image].image_id);
          note.sources.push_back(source_file(read_file(path), modified_ns(path)));
        }
        note.next = {.image = next_image};
        note.shard.file.name.clear();
        journal.add(shard, note);
      }
    }
    std::filesystem::remove_all(options.output);
  }

  // Leaves the whole set in the journal, as a process that was killed before it could publish it.
  void pack_unpublished() {
    pack_interrupted(read_manifest(folder_ / "whole").shards.size());
    for (const char* name : {kIndexFile, kQuarantineFile, kManifestFile}) {
      std::filesystem::copy_file(folder_ / "whole/" + name, folder_ / "set/.packing/" + name);
    }
  }

  // Of SmallCoco's good images: ids count from 1.
  std::string image_path(std::int64_t id, const std::string& folder = "images") const {
    return folder_ / cat(folder, id % 2 == 1 ? "/a/" : "/b/", id - 1, ".jpg");
  }

  // The first image of the set: in its first shard.
  std::string first_image() const {
    return image_path(ShardSet(folder_ / "whole").index()[0].image_id);
  }

  template <class Body>
  static ErrorKind error_of(const Body& body, std::string* message = nullptr) {
    try {
      body();
    } catch (const Error& error) {
      if (message != nullptr) *message = error.what();
      return error.kind();
    }
    throw std::logic_error("no error was thrown");
  }
  static ErrorKind pack_error(const PackOptions& options, std::string* message = nullptr) {
    return error_of([&] { pack(options); }, message);
  }

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 40};
  std::map<std::string, std::string> whole_;
};

}  // namespace retina
