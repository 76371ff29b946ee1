// The program coco-pack: command line, dispatch, exit code.
#pragma once

namespace retina {

// Returns what main() returns: 0, or the exit code of the error that was printed.
int coco_pack(int argc, const char* const* argv);

}  // namespace retina
