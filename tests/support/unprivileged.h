// Root may read everything: tests of what may not be read do so as nobody.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace retina {

// While it lives, a process of root has the rights of nobody, who may enter `folder`.
class Unprivileged {
 public:
  explicit Unprivileged(const std::string& folder) {
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    if (is_root_) failed_ = ::seteuid(65534) != 0;
  }
  ~Unprivileged() {
    if (is_root_ && !failed_ && ::seteuid(0) != 0) ::_exit(70);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  bool is_root_ = ::geteuid() == 0, failed_ = false;
};

}  // namespace retina
