// A record's pixels, checked: the one rule for all code that looks at a set's pictures.
#pragma once

#include <string>

#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/shard/record.h"

namespace retina {

// Decodes the record's picture into `out`, whose storage is reused. Throws Error{kData} with
// `subject` (the set, or the record's place in it) for one that the policy on damage refuses
// (jpeg.h), and for a picture of another size than the record's.
void decode_picture(const Record& record, const std::string& subject, JpegDecoder& decoder,
                    Image& out);

}  // namespace retina
