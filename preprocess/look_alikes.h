// What an image whose file is missing is called in the image folder, where somebody wrote its name
// in another way: in other letters' case, with another ending, in another folder.
#pragma once

#include <string>
#include <vector>

#include "shared/shard/quarantine.h"

namespace retina {

// Names in the reason of each image of kind "missing" or "name" the file that looks like it, and
// the cure in its hint. The folder is listed once, for ten seconds at most: some mounts take half
// an hour. Nothing changes where the listing finds none, or fails. `image_count`: of all that the
// annotations list; another folder is proposed where it has at least half of them.
void name_look_alikes(std::vector<QuarantinedImage>& images, const std::string& folder,
                      std::size_t image_count);

}  // namespace retina
