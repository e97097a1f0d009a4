#include "causeway/generate/cached_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "causeway/program/context.h"
#include "causeway/program/program.h"
#include "causeway/tensor/cast_tensors.h"

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

// What a token after a few gives, of sequences that are not equally long.
struct Decoded {
  std::vector<float> logits;
  int64_t dots = 0;  // launches of GEMMs
};
Decoded decode(const std::string& device, const std::string& family, DType compute, int64_t sequences,
               const std::shared_ptr<CastTensors>& casts) {
  const std::shared_ptr<Context> context = Context::open(device);
  const ContextScope scope(context);
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = 64;
  config.layers = 2;
  config.width = 64;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.ffn_width = 96;
  config.max_sequence_length = 64;
  config.initializer_range = 0.2;
  const std::unique_ptr<LanguageModel> model = LanguageModel::create(config.resolved(), 7);
  PipelineOptions pipeline;
  pipeline.mixed_precision.compute = compute;
  CachedForward forward(*model, pipeline, sequences, 32, 64, casts);
  std::vector<std::vector<int32_t>> beginnings;
  std::vector<int32_t> tokens, positions;
  for (int32_t i = 0; i < static_cast<int32_t>(sequences); ++i) {
    beginnings.emplace_back();
    for (int32_t j = 0; j < 2 + i % 3; ++j) beginnings.back().push_back((7 * i + 13 * j) % 64);
    tokens.push_back((5 * i + 3) % 64);
    positions.push_back(2 + i % 3);
  }
  forward.begin(beginnings);
  const NextTokens next = forward.go_on(tokens, positions);
  Decoded decoded;
  decoded.logits.resize(static_cast<size_t>(sequences * 64));
  next.logits.read_bytes(std::as_writable_bytes(std::span(decoded.logits)));
  for (const KernelReport& kernel : forward.program(8).kernel_reports()) decoded.dots += kernel.kind == "dot" ? 1 : 0;
  return decoded;
}

double difference(const std::vector<float>& logits, const std::vector<float>& expected) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    apart += std::pow(static_cast<double>(logits[i]) - static_cast<double>(expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(apart / size);
}

// Matrices that one activation is multiplied by are one GEMM where weights stay: of few sequences and of more, that is,
// by both kinds of GEMM that stream weights; beside biases, norms of heads and of all queries, and another activation.
TEST(JoinedWeights, GiveTheLogitsOfMatricesApart) {
  for (const char* family : {"llama", "qwen2", "qwen3", "olmo2", "gemma2"}) {
    for (const int64_t sequences : {2, 20}) {
      SCOPED_TRACE(testing::Message() << family << ", " << sequences << " sequences");
      const std::vector<float> expected = decode("cpu", family, DType::kF32, sequences, nullptr).logits;
      const char* device = "emulator:sm_90a";
      const Decoded apart = decode(device, family, DType::kBF16, sequences, nullptr);
      const Decoded joined = decode(device, family, DType::kBF16, sequences, std::make_shared<CastTensors>());
      EXPECT_EQ(apart.dots, 2 * 7 + 1);
      EXPECT_EQ(joined.dots, 2 * 4 + 1);
      EXPECT_LT(difference(joined.logits, expected), 0.05);
      EXPECT_LT(difference(joined.logits, expected), 1.5 * difference(apart.logits, expected) + 0.003);
      EXPECT_EQ(decode(device, family, DType::kBF16, sequences, std::make_shared<CastTensors>()).logits, joined.logits);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CachedForwardTest, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& test) {
                           return test.param == "cpu" ? "cpu" : test.param.substr(test.param.find(':') + 1);
                         });

}  // namespace
}  // namespace causeway::generate
