// What an unknown option may have meant. The options of other training and export tools
// (torchvision's references, Ultralytics, MMDetection, Detectron2, Lightning, timm, Keras scripts)
// are in one table for all four programs, by what they are called in ours; others may be mistyped.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace retina {

// The four programs' answers; an empty one: it has nothing of the kind. An answer is one or more of
// the program's options with a remark, or a sentence.
struct ForeignOption {
  const char* names;  // separated by spaces, without dashes, '-' for '_'; "format=xml" is a value
  const char *pack = "", *train = "", *eval = "", *convert = "";

  // The answer of "coco-pack", "retina-train", "retina-eval" or "retina-convert".
  std::string of(const std::string& program) const;
};

std::span<const ForeignOption> foreign_options();

// What `program` says to the option `name`, which it does not have: "here it is --images-per-step
// (all ranks together)"; what another program would say where this one has nothing of the kind; ""
// for a name that the table does not have.
std::string foreign_option_answer(const std::string& program, const std::string& name);

// The same for an option that it has, but not with such a value: "" also where the answer would be
// that option itself or one of another program.
std::string foreign_value_answer(const std::string& program, const std::string& name,
                                 const std::string& value);

// The candidate with the smallest edit distance to `name`; "" when none is near (more than half of
// its letters, and two, would have to change). On ties the first.
std::string nearest_match(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace retina
