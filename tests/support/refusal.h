// What a call that must not succeed says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "shared/base/error.h"

namespace retina {

// The message of the Error that `body` throws, expected to be of this kind; "accepted" without one.
template <class Body>
std::string refusal_of(ErrorKind kind, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "accepted";
}

}  // namespace retina
