// The programs that this build has, and what each needs to be told at least.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace retina {

// coco-pack alone in a build without LibTorch.
inline std::vector<std::string> built_programs() {
  std::vector<std::string> names;
  std::istringstream list(RETINA_PROGRAMS);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

// A command line whose inputs do not exist and whose output would be `output`.
inline std::vector<std::string> command_without_inputs(const std::string& program,
                                                       const std::string& output) {
  const std::string gone = "/nowhere/input";
  if (program == "coco-pack") {
    return {program, "--annotations", gone, "--images", gone, "--output", output};
  }
  if (program == "retina-train") return {program, "--train", gone, "--output", output};
  if (program == "retina-eval")
    return {program, "--model", gone, "--data", gone, "--output", output};
  return {program, "--checkpoint", gone, "--output", output};
}

}  // namespace retina
