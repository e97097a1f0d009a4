#include "causeway/generate/cached_forward.h"

#include <gtest/gtest.h>

#include "causeway/program/context.h"
#include "causeway/program/program.h"

namespace causeway::generate {
namespace {

constexpr int64_t kSequences = 2;

ModelConfig config_of(const std::string& family, int64_t window) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = 61;
  config.layers = 4;
  config.width = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.max_sequence_length = 5000;
  config.own["sliding_window"] = window;
  return config.resolved();
}

class CachedForwardTest : public testing::TestWithParam<std::string> {
 protected:
  CachedForward forward(const std::string& family, int64_t window, int64_t longest) {
    models_.push_back(LanguageModel::create(config_of(family, window), 7));
    return CachedForward(*models_.back(), {}, kSequences, longest, 61, nullptr);
  }

  std::shared_ptr<Context> context_ = Context::open(GetParam());
  ContextScope scope_{context_};
  std::vector<std::unique_ptr<LanguageModel>> models_;
};

TEST_P(CachedForwardTest, WindowsBoundWhatIsKept) {
  constexpr int64_t kToken = 2 * 2 * 8 * 4 * kSequences;  // bytes in one layer
  struct Case {
    const char* family;
    int64_t window, longest, whole_layers, whole, ring;
  };
  for (const Case& c : {Case{"mistral", 0, 3000, 4, 4096, 0}, Case{"mistral", 100, 3000, 0, 5056, 128},
                        Case{"mistral", 128, 200, 0, 5056, 128}, Case{"mistral", 1000, 600, 0, 5056, 1024},
                        Case{"mistral", 1000, 300, 4, 512, 0}, Case{"gemma2", 100, 3000, 2, 4096, 128},
                        Case{"gemma2", 100, 90, 4, 128, 0}}) {
    SCOPED_TRACE(testing::Message() << c.family << ", window " << c.window << ", " << c.longest << " tokens");
    const CachedForward cached = forward(c.family, c.window, c.longest);
    EXPECT_EQ(cached.capacity(), c.whole);
    EXPECT_EQ(cached.ring(), c.ring);
    EXPECT_EQ(cached.cache_bytes(), kToken * (c.whole_layers * c.whole + (4 - c.whole_layers) * c.ring));
  }
}

// A token is a chain of launches, each of which takes microseconds however little it does. Where some layers have rings
// and others have none, the rows to be written are those of either, and are computed once for each kind.
TEST_P(CachedForwardTest, RingsTakeNoLaunchesOfTheirOwn) {
  if (!context_->device().target().is_gpu()) return;
  const auto launches = [&](const char* family, int64_t window) {
    CachedForward cached = forward(family, window, 1000);
    EXPECT_EQ(cached.ring(), window);
    size_t count = 0;
    for (const KernelReport& kernel : cached.program(900).kernel_reports()) count += kernel.phases.size();
    return count;
  };
  EXPECT_EQ(launches("mistral", 128), launches("mistral", 0));
  EXPECT_LE(launches("gemma2", 128), launches("gemma2", 0) + 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, CachedForwardTest, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& test) {
                           return test.param == "cpu" ? "cpu" : test.param.substr(test.param.find(':') + 1);
                         });

}  // namespace
}  // namespace causeway::generate
