#include "shared/base/url.h"

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace retina {
namespace {

TEST(Url, HasAScheme) {
  for (const char* text : {"https://host/path", "azure://a/c/p", "s3://b", "x-1+2.y://"}) {
    EXPECT_TRUE(is_url(text)) << text;
  }
  for (const char* text :
       {"", "/data/shards", "C:/data", "://x", "1a://x", "a b://x", "https:/x"}) {
    EXPECT_FALSE(is_url(text)) << text;
  }
}

TEST(Url, IsShownWithoutSecrets) {
  EXPECT_EQ(public_url("https://me:pass@host:8080/a/b/?sig=SECRET#frag"), "https://host:8080/a/b");
  EXPECT_EQ(public_url("https://me:p@ss@host/a@b"), "https://host/a@b");
  EXPECT_EQ(public_url("https://host?sig=SECRET/@"), "https://host");
  EXPECT_EQ(public_url("s3://bucket/path//"), "s3://bucket/path");
  EXPECT_EQ(public_url("/data/a?b#c"), "/data/a?b#c");
}

TEST(Url, KeepsSecretsForTheCodeThatOpensIt) {
  const std::string whole = "https://host/kept?sig=SECRET";
  const std::string shown = keep_secrets(whole);
  EXPECT_EQ(shown, "https://host/kept");
  EXPECT_EQ(with_secrets(shown), whole);
  EXPECT_EQ(keep_secrets(whole), shown);
  EXPECT_EQ(refusal_of(ErrorKind::kUsage, [&] { keep_secrets(whole + "&x=1"); }),
            shown + ": is given with different queries, user names or passwords");
  EXPECT_EQ(keep_secrets("https://host/other"), "https://host/other");
  EXPECT_EQ(with_secrets("https://host/other"), "https://host/other");
  EXPECT_EQ(keep_secrets("plain?text"), "plain?text");
}

}  // namespace
}  // namespace retina
