#include "shared/shard/set_notes.h"

#include <unordered_map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

// Returns the names of the classes of boxes to train on, or of images.
std::set<std::string> classes_of(const ShardSet& set) {
  std::set<std::string> names;
  for (const IndexEntry& entry : set.index()) {
    for (const int label : entry.labels) {
      names.insert(set.manifest().categories[static_cast<std::size_t>(label)].name);
    }
  }
  return names;
}

// Returns "2 classes are<what>cat, dog"; empty if all of `some` are among the others.
std::string only_in(const std::set<std::string>& some, const std::set<std::string>& others,
                    const char* what) {
  constexpr int kNamed = 8;
  int count = 0;
  std::string names;
  for (const std::string& name : some) {
    if (others.contains(name) || ++count > kNamed) continue;
    names += cat(count > 1 ? ", " : "", escaped(name));
  }
  if (count == 0) return "";
  return cat(counted(count, "class is", "classes are"), what, names, count > kNamed ? ", ..." : "");
}

}  // namespace

std::vector<std::string> set_notes(const Manifest& manifest) {
  std::vector<std::string> notes = manifest.notes;
  if (manifest.task == Task::kDetection && manifest.counts.trainable == 0) {
    notes.push_back("no image has a box to train on: nothing is learned here, and there is no AP");
  }
  return notes;
}

SharedImages shared_images(std::span<const ShardSet> train, const ShardSet& other) {
  std::unordered_map<std::uint64_t, std::string> name_of;  // of training images
  for (const IndexEntry& entry : other.index()) {
    const bool is_empty_tile = entry.tile && entry.box_count == 0;
    if (!is_empty_tile) name_of.emplace(entry.image_xxh3, "");
  }
  for (const ShardSet& set : train) {
    for (const IndexEntry& entry : set.index()) {
      const auto found = name_of.find(entry.image_xxh3);
      if (found != name_of.end()) found->second = cat(image_name(entry), " of ", set.folder());
    }
  }
  SharedImages shared;
  std::string first;
  for (const IndexEntry& entry : other.index()) {
    const auto found = name_of.find(entry.image_xxh3);
    if (found == name_of.end() || found->second.empty()) continue;
    if (shared.ids.empty()) first = cat(image_name(entry), " is ", found->second);
    shared.ids.insert(entry.image_id);
  }
  if (shared.ids.empty()) return shared;
  shared.text =
      cat(shared.ids.size(), " of ", counted(other.manifest().counts.source_images(), "image"),
          shared.ids.size() == 1 ? " is" : " are",
          " also trained on, byte for byte (first: ", first, ")");
  return shared;
}

std::vector<std::string> validation_notes(std::span<const ShardSet> train,
                                          const ShardSet& validation) {
  std::vector<std::string> notes;
  if (const std::string text = shared_images(train, validation).text; !text.empty()) {
    notes.push_back(cat(text, ": their part of the metrics says nothing about other images"));
  }
  std::set<std::string> trained;
  for (const ShardSet& set : train) trained.merge(classes_of(set));
  const std::set<std::string> validated = classes_of(validation);
  if (trained.empty() || validated.empty()) return notes;  // a set without boxes
  notes.push_back(only_in(validated, trained, " validated but not trained on: "));
  notes.push_back(only_in(trained, validated, " trained on but not validated: "));
  std::erase(notes, "");
  return notes;
}

}  // namespace retina
