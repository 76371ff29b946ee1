// --init: the commonest first use. Weights of other classes, rows of the class layer by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/coco/instances.h"
#include "tests/e2e/job.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr std::size_t kImages = 12;

// The first images of `all` and their boxes, of the classes that `new_names` has only; a class's
// new id is its place in the map, from 7 on.
Instances subset(const Instances& all, const std::map<std::string, std::string>& new_names) {
  Instances result;
  result.images.assign(all.images.begin(), all.images.begin() + kImages);
  std::map<std::int64_t, std::int64_t> new_ids;
  for (const auto& [old_name, new_name] : new_names) {
    for (const Category& category : all.categories) {
      if (category.name != old_name) continue;
      new_ids[category.id] = 7 + static_cast<std::int64_t>(result.categories.size());
      result.categories.push_back({.id = new_ids[category.id], .name = new_name});
    }
  }
  for (Annotation annotation : all.annotations) {
    const bool has_image = annotation.image_id <= result.images.back().id;
    if (!has_image || !new_ids.contains(annotation.category_id)) continue;
    annotation.category_id = new_ids[annotation.category_id];
    result.annotations.push_back(annotation);
  }
  return result;
}

class FineTune : public testing::Test {
 protected:
  std::string pack(const std::string& name, const Instances& instances, const std::string& images) {
    const std::string annotations = folder_ / (name + ".json"), shards = folder_ / name;
    write_file_atomically(annotations, instances_to_json(instances));
    const ProcessResult packed = run_process(
        {"coco-pack", "--annotations", annotations, "--images", images, "--output", shards});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    return shards;
  }
  ProcessResult train(const std::string& shards, const std::string& run, int steps,
                      const std::vector<std::string>& more) {
    return run_process(small_train_command(shards, run, steps, more));
  }
  const TestFolder folder_;
};

TEST_F(FineTune, ATwoClassSubsetStartsFromTheCopiedRows) {
  RETINA_DATA_OR_SKIP(data, "bccd");
  const Instances all = read_instances(data + "/annotations/instances_train.json");
  const std::string images = data + "/images/train";
  const std::string three = pack(
      "three", subset(all, {{"RBC", "RBC"}, {"WBC", "WBC"}, {"Platelets", "Platelets"}}), images);
  // Other order, other ids.
  const std::string two =
      pack("two", subset(all, {{"Platelets", "Platelets"}, {"RBC", "RBC"}}), images);
  const std::string strangers =
      pack("strangers", subset(all, {{"Platelets", "dust"}, {"RBC", "disc"}}), images);

  const std::string source = folder_ / "source";
  const ProcessResult first = train(three, source, 12, {"--optimizer", "adamw"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string checkpoint = last_checkpoint(source);

  const ProcessResult known = train(two, folder_ / "known", 1, {"--init", checkpoint});
  ASSERT_EQ(known.exit_code, 0) << known.err;
  EXPECT_THAT(known.err, HasSubstr("2 of 2 classes matched by name"));
  const ProcessResult fresh = train(strangers, folder_ / "fresh", 1, {"--init", checkpoint});
  ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_THAT(fresh.err,
              HasSubstr("0 of 2 classes matched by name, randomly initialised: dust, disc"));

  const double copied_loss = first_step(folder_ / "known", "classification_loss");
  const double fresh_loss = first_step(folder_ / "fresh", "classification_loss");
  RecordProperty("copied", cat(copied_loss));
  RecordProperty("fresh", cat(fresh_loss));
  EXPECT_LT(copied_loss, 0.6 * fresh_loss);
  // Everything but the class layer is copied either way.
  EXPECT_DOUBLE_EQ(first_step(folder_ / "known", "box_loss"),
                   first_step(folder_ / "fresh", "box_loss"));
}

TEST_F(FineTune, AnotherArchitectureNamesTheOptionsToGive) {
  RETINA_DATA_OR_SKIP(data, "bccd");
  const Instances all = read_instances(data + "/annotations/instances_train.json");
  const std::string shards = pack("shards", subset(all, {{"RBC", "RBC"}}), data + "/images/train");
  const std::string source = folder_ / "source";
  const std::vector<std::string> v1 = {"--head-norm", "none", "--norm-eps", "0.001"};
  ASSERT_EQ(train(shards, source, 1, v1).exit_code, 0);
  const ProcessResult refused =
      train(shards, folder_ / "taken", 1, {"--init", last_checkpoint(source)});
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_THAT(refused.err, HasSubstr("add --norm-eps 0.001 --head-norm none --p6 p5"));
  // The refusal left no run: the same folder takes the corrected command.
  std::vector<std::string> given = {"--init", last_checkpoint(source)};
  given.insert(given.end(), v1.begin(), v1.end());
  const ProcessResult taken = train(shards, folder_ / "taken", 1, given);
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_THAT(taken.err, HasSubstr("1 of 1 class matched by name"));
}

}  // namespace
}  // namespace retina
