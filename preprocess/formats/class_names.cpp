#include "preprocess/formats/class_names.h"

#include <algorithm>
#include <iterator>

#include "shared/base/error.h"
#include "shared/base/file_spelling.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {

Categories numbered_categories(const std::vector<std::string>& names) {
  Categories categories;
  for (const std::string& name : names) {
    categories.push_back({.id = std::ssize(categories) + 1, .name = name});
  }
  return categories;
}

std::vector<std::string> class_lines(const std::string& path, const std::vector<TextLine>& lines) {
  std::vector<std::string> names;
  FirstLines known;
  for (const auto& [text, number] : lines) {
    const std::size_t wanted = names.size() + 1;
    if (number != wanted) fail_line({path, wanted}, "is empty, want a class name a line");
    names.emplace_back(trimmed(text));
    require_first(known, names.back(), {path, number},
                  cat("class \"", escaped(names.back()), "\""));
  }
  if (names.empty()) {
    throw Error(ErrorKind::kData, cat(path, ": has no classes, want a class name a line"));
  }
  return names;
}

ClassIds::ClassIds(const AnnotationSource& source, const std::set<std::string>& names,
                   AnnotationFiles& files)
    : path_(source.classes) {
  if (path_.empty()) {
    for (const std::string& name : names) ids_.emplace(name, std::ssize(ids_) + 1);
    return;
  }
  const std::vector<TextLine> lines = files.read_lines(path_, "classes");
  if (!read_names(lines) && !read_descriptions(lines)) read_ids(lines);
}

// Returns false if a line has a second field.
bool ClassIds::read_names(const std::vector<TextLine>& lines) {
  const bool has_fields = std::any_of(lines.begin(), lines.end(), [](const TextLine& line) {
    return split_csv(line.text).size() > 1;
  });
  if (has_fields) return false;
  std::int64_t next = 1;
  for (const std::string& name : class_lines(path_, lines)) {
    ids_.emplace(split_csv(name).front(), next++);
  }
  return true;
}

// Open Images': lines of "/m/011k07,Tortoise", which annotations call by the first.
bool ClassIds::read_descriptions(const std::vector<TextLine>& lines) {
  std::map<std::string, std::int64_t> ids;
  std::map<std::int64_t, std::string> shown;
  for (const auto& [text, number] : lines) {
    const std::vector<std::string> fields = split_csv(text);
    const bool is_one =
        fields.size() == 2 && fields[0].starts_with("/") && !trimmed(fields[1]).empty();
    if (!is_one && number == 1) continue;  // LabelName,DisplayName
    const std::int64_t id = std::ssize(ids) + 1;
    if (!is_one || !ids.emplace(fields[0], id).second) return false;
    shown[id] = std::string(trimmed(fields[1]));
  }
  if (ids.empty()) return false;
  ids_ = std::move(ids);
  shown_ = std::move(shown);
  return true;
}

void ClassIds::read_ids(const std::vector<TextLine>& lines) {
  FirstLines known;
  for (const auto& [text, number] : lines) {
    const FileLine at{path_, number};
    const std::vector<std::string> fields = split_csv(text);
    if (number == 1 && fields.size() == 2 && lower_case(trimmed(fields[1])) == "id") continue;
    const std::string name(trimmed(fields[0]));
    if (fields.size() != 2 || name.empty()) {
      fail_line(at, cat("got \"", escaped(text), "\", want CLASS,ID (or a class name alone ",
                        "on every line)"));
    }
    const std::int64_t id = parse_whole(fields[1], "id", at, -1'000'000'000);
    if (!ids_.emplace(name, id).second) {
      fail_line(at, cat("class \"", escaped(name), "\" appears twice"));
    }
    require_first(known, cat(id), at, cat("id ", id));
  }
}

std::int64_t ClassIds::id_of(const std::string& name, const FileLine& at) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) fail_line(at, cat("class \"", escaped(name), "\" is not in ", path_));
  return found->second;
}

Categories ClassIds::categories() const {
  Categories categories;
  for (const auto& [name, id] : ids_) {
    const auto shown = shown_.find(id);
    categories.push_back({.id = id, .name = shown == shown_.end() ? name : shown->second});
  }
  return categories;
}

void BoxClasses::add(const std::string& name, const FileLine& at) {
  know(name);
  named_.push_back({.name = name, .path = at.path, .line = at.number});
}

void BoxClasses::set_ids(const AnnotationSource& source, AnnotationFiles& files,
                         Instances& instances) const {
  const ClassIds ids(source, names_, files);
  instances.categories = ids.categories();
  for (std::size_t i = 0; i < named_.size(); ++i) {
    const auto& [name, path, line] = named_[i];
    instances.annotations[i].category_id = ids.id_of(name, {path, line});
  }
}

void report_difficult(const std::string& path, std::int64_t count) {
  if (count == 0) return;
  log_info(
      path, ": ",
      counted(count, "box is marked difficult and kept", "boxes are marked difficult and kept"));
}

void warn_of_alike_classes(const std::string& path, const Categories& categories,
                           std::map<std::int64_t, std::int64_t> count_of, const char* counted) {
  std::map<std::string, std::map<std::string, std::int64_t>> alike;
  for (const Category& one : categories) {
    alike[lower_case(trimmed(plain_spelling(one.name)))][one.name] += count_of[one.id];
  }
  std::vector<std::string> told;
  for (const auto& [key, members] : alike) {
    if (members.size() < 2) continue;
    for (const auto& [name, count] : members) told.push_back(cat("\"", name, "\" ", count));
  }
  if (told.empty()) return;
  log_warning(path,
              ": classes are kept separate although their names differ only in case, spaces or ",
              "the form of accents (", counted, ": ", first_names(told), ")");
}

}  // namespace retina
