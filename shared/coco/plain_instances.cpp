#include "shared/coco/plain_instances.h"

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/coco/plain_scanner.h"

namespace retina {
namespace {

bool take_side(PlainScanner& scanner, int& pixels) {
  std::int64_t side = 0;
  if (!scanner.take_integer(side) || side < 1 || side > std::numeric_limits<int>::max()) {
    return false;
  }
  pixels = static_cast<int>(side);
  return true;
}

// Whether the entry, whose keys so far are in `given`, has this one for the first time.
bool is_first(unsigned& given, unsigned key) {
  return (std::exchange(given, given | key) & key) == 0;
}

// Without escapes.
bool take_text(PlainScanner& scanner, std::string& text) {
  std::string_view view;
  if (!scanner.take_string(view) || view.find('\\') != std::string_view::npos) return false;
  text = view;
  return true;
}

bool take_flag(PlainScanner& scanner, bool& flag) {
  flag = scanner.take_word("1") || scanner.take_word("true");
  // A longer number is refused by what wants to come next.
  return flag || scanner.take_word("0") || scanner.take_word("false");
}

bool take_image(PlainScanner& scanner, ImageInfo& image) {
  enum Key : unsigned { kId = 1, kName = 2, kWidth = 4, kHeight = 8, kAll = 15 };
  unsigned given = 0;
  const bool whole = scanner.take_object([&] {
    if (scanner.take_key("\"id\"")) return is_first(given, kId) && scanner.take_integer(image.id);
    if (scanner.take_key("\"file_name\"")) {
      return is_first(given, kName) && take_text(scanner, image.file_name);
    }
    if (scanner.take_key("\"width\"")) {
      return is_first(given, kWidth) && take_side(scanner, image.width);
    }
    if (scanner.take_key("\"height\"")) {
      return is_first(given, kHeight) && take_side(scanner, image.height);
    }
    return scanner.skip_member();
  });
  return whole && given == kAll && !image.file_name.empty();
}

bool take_annotation(PlainScanner& scanner, Annotation& annotation) {
  enum Key : unsigned {
    kId = 1,
    kImage = 2,
    kCategory = 4,
    kBox = 8,
    kNeeded = 15,
    kArea = 16,
    kCrowd = 32
  };
  unsigned given = 0;
  const bool whole = scanner.take_object([&] {
    if (scanner.take_key("\"id\"")) {
      return is_first(given, kId) && scanner.take_integer(annotation.id);
    }
    if (scanner.take_key("\"image_id\"")) {
      return is_first(given, kImage) && scanner.take_integer(annotation.image_id);
    }
    if (scanner.take_key("\"category_id\"")) {
      return is_first(given, kCategory) && scanner.take_integer(annotation.category_id);
    }
    if (scanner.take_key("\"bbox\"")) {
      return is_first(given, kBox) && scanner.take_box(annotation.bbox);
    }
    if (scanner.take_key("\"area\"")) {
      return is_first(given, kArea) && scanner.take_number(annotation.area);
    }
    if (scanner.take_key("\"iscrowd\"")) {
      return is_first(given, kCrowd) && take_flag(scanner, annotation.iscrowd);
    }
    return scanner.skip_member();
  });
  if ((given & kArea) == 0) annotation.area = annotation.bbox[2] * annotation.bbox[3];
  return whole && (given & kNeeded) == kNeeded;
}

bool take_category(PlainScanner& scanner, Category& category) {
  enum Key : unsigned { kId = 1, kName = 2, kNeeded = 3, kSuper = 4 };
  unsigned given = 0;
  const bool whole = scanner.take_object([&] {
    if (scanner.take_key("\"id\"")) {
      return is_first(given, kId) && scanner.take_integer(category.id);
    }
    if (scanner.take_key("\"name\"")) {
      return is_first(given, kName) && take_text(scanner, category.name);
    }
    if (scanner.take_key("\"supercategory\"")) {
      return is_first(given, kSuper) && take_text(scanner, category.supercategory);
    }
    return scanner.skip_member();
  });
  return whole && (given & kNeeded) == kNeeded;
}

template <class Entry>
bool take_list(PlainScanner& scanner, bool (*take_entry)(PlainScanner&, Entry&),
               std::vector<Entry>& list) {
  return scanner.take_elements([&] { return take_entry(scanner, list.emplace_back()); });
}

}  // namespace

std::optional<Instances> parse_plain_instances(const std::string& text) {
  enum Key : unsigned { kImages = 1, kAnnotations = 2, kCategories = 4, kAll = 7 };
  unsigned given = 0;
  Instances out;
  PlainScanner scanner(std::string_view(text).substr(text.starts_with("\xEF\xBB\xBF") ? 3 : 0));
  const bool whole = scanner.take_object([&] {
    if (scanner.take_key("\"images\"")) {
      return is_first(given, kImages) && take_list(scanner, take_image, out.images);
    }
    if (scanner.take_key("\"annotations\"")) {
      return is_first(given, kAnnotations) && take_list(scanner, take_annotation, out.annotations);
    }
    if (scanner.take_key("\"categories\"")) {
      return is_first(given, kCategories) && take_list(scanner, take_category, out.categories);
    }
    return scanner.skip_member();
  });
  scanner.skip_spaces();
  if (!whole || given != kAll || scanner.at() != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace retina
